# SPDX-License-Identifier: Apache-2.0
"""cgpu install: make this machine a node that slices GPUs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.install import lock, signals
from cgpu.install.installer import AGAIN, Installer, Request
from cgpu.install.node.machine import gather
from cgpu.install.runner import SystemRunner
from cgpu.runtime_config.engines.registry import ENGINES

ROOT = Path("/")
PROGRAM = "cgpu install"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when the node is as asked, 1 after one line of error: again goes on from there."""
    options = parser().parse_args(arguments)
    names = None if options.runtimes is None else tuple(options.runtimes.split(","))
    request = Request(options.engine, names, options.default_runtime, options.units)
    dry = options.dry_run
    return run(PROGRAM, lambda installer: _install(installer, request, dry_run=dry), dry_run=dry)


def parser() -> argparse.ArgumentParser:
    found = Parser(
        prog="cgpu install",
        description="Make this machine a node that slices GPUs. What it changes, cgpu uninstall takes back.",
        examples=(
            "cgpu install --dry-run",
            "cgpu install",
            "cgpu install --engine daemon --runtimes docker,containerd",
        ),
        meant={
            **{name: f"--runtimes {name}, several with commas and no blanks" for name in ENGINES},
            "cgpud": "daemon",
            "cgpu_km": "module",
        },
    )
    found.add_argument(
        "--engine", choices=("auto", "module", "daemon"), default="auto",
        help="auto: the kernel module where it can be built and loaded and the driver is known, else cgpud",
    )  # fmt: skip
    found.add_argument(
        "--runtimes", metavar="NAMES",
        help=f"container engines to tell, with commas: {','.join(ENGINES)}, or kubelet for the one that runs "
        "this node's pods (default: those that are here)",
    )  # fmt: skip
    found.add_argument(
        "--default-runtime",
        action="store_true",
        help="have them use the runtime cgpu for containers that name no runtime",
    )
    found.add_argument(
        "--no-units",
        dest="units",
        action="store_false",
        help="give systemd no units: the engine is started by hand, or by the pod of a cluster",
    )
    found.add_argument(
        "--dry-run", action="store_true", help="only show the changes of files, and the commands"
    )
    return found


def run(program: str, work: Callable[[Installer], None], *, dry_run: bool) -> int:
    """Run a command of the installer on this machine, alone; 0, or 1 after one line of error."""
    try:
        if os.geteuid() != 0 and not dry_run:
            raise CgpuError(
                f"user {os.geteuid()}: only root may change a node; run it as root, such as by sudo"
            )
        with signals.interrupting(), _alone(dry_run=dry_run) as held:
            work(Installer(ROOT, SystemRunner(held), ENGINES, lambda: gather(ROOT), say))
    except CgpuError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(
            f"{program}: {error.filename or 'a file'}: {error.strerror or error}; run it again\n"
        )
        return 1
    except KeyboardInterrupt:
        end = AGAIN if program == PROGRAM else "run it again: it goes on from there"
        sys.stderr.write(f"{program}: interrupted; {end}\n")
        return 1
    return 0


def say(line: str) -> None:
    """Print a line of progress or a diff, without control characters; a closed pipe stops nothing."""
    shown = "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in line)
    with contextlib.suppress(OSError):
        print(shown, flush=True)


def _install(installer: Installer, request: Request, *, dry_run: bool) -> None:
    if dry_run:
        for line in installer.show_install(request):
            say(line)
        return
    changed = installer.install(request)
    for note in installer.notes:
        say(note)
    say("installed; cgpu uninstall takes it back" if changed else "nothing to change")


@contextlib.contextmanager
def _alone(*, dry_run: bool) -> Iterator[tuple[int, ...]]:
    if dry_run:
        yield ()
        return
    with lock.held(ROOT, say) as held:
        yield (held,)
