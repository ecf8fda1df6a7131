# SPDX-License-Identifier: Apache-2.0
"""cgpu-smi: arguments, the loop, and the only place that prints."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from time import sleep

from cgpu import __version__, paths
from cgpu.arguments import Parser, seconds
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError, show
from cgpu.smi import render
from cgpu.smi.collect import sample
from cgpu.smi.limits import is_counted, with_utilisation
from cgpu.smi.model import Gpu
from cgpu.smi.names import Directory
from cgpu.smi.publish import NOTHING, publish, published

# Seconds between the two samples that a utilisation needs: more where the engine measures less exactly.
FIRST_INTERVAL = 0.5
LONGEST_INTERVAL = 2.0
EXIT_FAILED = 1


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu-smi",
        description="Show which containers have slices of the GPUs.",
        examples=("cgpu-smi", "cgpu-smi -l 2", "cgpu-smi -i 0 --json"),
        meant={"--id": "--gpu", "-q": "--json", "-L": "--csv", "--format": "--csv", "dmon": "cgpu-smi -l 1"},
    )
    made.add_argument("--version", action="version", version=f"cgpu-smi {__version__}")
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="JSON; with -l one line per sample")
    form.add_argument("--csv", action="store_true", help="CSV, one line per container")
    made.add_argument(
        "-l", "--loop", metavar="SECONDS", type=seconds(0.1, 86400), help="take a sample every SECONDS"
    )
    made.add_argument(
        "-i", "--gpu", metavar="GPU", help="only this GPU: its index, or its UUID or the start of it"
    )
    form.add_argument(
        "--publish",
        action="store_true",
        help="as root: let other users see what show_slices of the configuration says, until interrupted, or "
        "until show_slices is root",
    )
    made.add_argument("--tree", metavar="DIR", help="the engine's tree, where it is not the usual one")
    return made


def chosen(gpus: tuple[Gpu, ...], wanted: str | None) -> tuple[Gpu, ...]:
    """Return the GPUs that were asked for. Raises CgpuError when there is no such GPU, or more than one."""
    if wanted is None:
        return gpus
    found = tuple(gpu for gpu in gpus if wanted == str(gpu.index))
    if not found and len(wanted) >= 4:
        found = tuple(gpu for gpu in gpus if gpu.uuid and gpu.uuid.lower().startswith(wanted.lower()))
    if len(found) != 1:
        known = ", ".join(f"{gpu.index} ({gpu.uuid or render.UNKNOWN})" for gpu in gpus) or "none"
        what = "stands for several GPUs" if found else "here"
        raise CgpuError(f"{'' if found else 'no '}GPU {show(wanted)} {what}; available: {known}")
    return found


def formatted(options: argparse.Namespace, gpus: tuple[Gpu, ...], *, first: bool) -> str:
    """Return one sample in the form that was asked for."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    if options.json:
        return render.as_json(gpus, now, compact=options.loop is not None)
    if options.csv:
        return render.as_csv(gpus, now, header=first)
    return render.table(gpus) if first else "\n" + render.table(gpus)


def first_interval(gpus: tuple[Gpu, ...]) -> float:
    """Return how long to wait for the second sample; 0 where no utilisation can be measured."""
    metered = [gpu for gpu in gpus if any(is_counted(gpu, one) for one in gpu.containers)]
    if not metered:
        return 0.0
    exact = max(gpu.scheduling.resolution or 0 for gpu in metered) / 1e9
    return min(LONGEST_INTERVAL, max(FIRST_INTERVAL, 2 * exact))


def published_samples(options: argparse.Namespace) -> Iterator[tuple[Gpu, ...]]:
    """Yield what root has published for this user, whenever asked. Raises CgpuError."""
    while True:
        yield chosen(published(), options.gpu)


def samples(options: argparse.Namespace, tree: Tree) -> Iterator[tuple[Gpu, ...]]:
    """Yield a sample of the tree whenever asked, used since the one before. Raises CgpuError."""
    names = Directory()
    before = chosen(sample(tree), options.gpu)
    sleep(first_interval(before))
    while True:
        after = chosen(sample(tree), options.gpu)
        yield names.named(with_utilisation(before, after))
        before = after


def watch(options: argparse.Namespace, taken: Iterator[tuple[Gpu, ...]]) -> None:
    """Print samples, one or until interrupted. Raises CgpuError."""
    for number, gpus in enumerate(taken):
        sys.stdout.write(formatted(options, gpus, first=number == 0))
        sys.stdout.flush()
        if options.loop is None:
            return
        sleep(options.loop)


def run(options: argparse.Namespace) -> None:
    """Do what the options say. Raises CgpuError."""
    if options.publish:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        publish()
        print(f"cgpu-smi: {NOTHING}")
    elif options.tree is None and os.geteuid() != 0:
        watch(options, published_samples(options))
    else:
        watch(options, samples(options, Tree(options.tree or paths.tree(effective.load().tree))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cgpu-smi. Returns 0, or 1 after one line on stderr; wrong usage exits with 2."""
    made = parser()
    options = made.parse_args(arguments)
    if options.publish and not options.loop is options.gpu is options.tree is None:
        made.error("--publish: expected no other option")
    try:
        run(options)
    except CgpuError as error:
        print(f"cgpu-smi: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # The reader has closed the pipe. Python must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
