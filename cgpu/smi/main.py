# SPDX-License-Identifier: Apache-2.0
"""cgpu-smi: the loop, and the only place that prints."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from shutil import get_terminal_size
from time import sleep

from cgpu import paths
from cgpu.arguments import exit_status
from cgpu.client.cards import Card, read_cards, with_utilisation
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError, show
from cgpu.smi import render
from cgpu.smi.details import details
from cgpu.smi.names import SHORT_WAIT_S, WAIT_S, Directory
from cgpu.smi.node import Versions, described, engine_of
from cgpu.smi.options import NO_HEADER, NO_UNITS, PROGRAM, parsed, parser
from cgpu.smi.publish import NOTHING, publish, published
from cgpu.smi.table import table

__all__ = ["main", "parser"]

# Seconds between the two samples that a utilisation needs: more where the engine measures less exactly.
FIRST_INTERVAL = 0.5
LONGEST_INTERVAL = 2.0


@dataclass(frozen=True)
class Shot:
    """One sample, and the other data of the outputs."""

    cards: tuple[Card, ...]
    versions: Versions


def chosen(cards: tuple[Card, ...], wanted: str | None) -> tuple[Card, ...]:
    """Return the GPUs that were asked for. Raises CgpuError when there is no such GPU, or more than one."""
    if wanted is None:
        return cards
    found = tuple(card for card in cards if wanted == str(card.index))
    if not found and len(wanted) >= 4:
        found = tuple(card for card in cards if card.stat.uuid.lower().startswith(wanted.lower()))
    if len(found) != 1:
        known = ", ".join(f"{card.index} ({card.stat.uuid})" for card in cards) or "none"
        what = "stands for several GPUs" if found else "here"
        raise CgpuError(f"{'' if found else 'no '}GPU {show(wanted)} {what}; available: {known}")
    return found


def formatted(options: argparse.Namespace, shot: Shot, *, first: bool) -> str:
    """Return one sample in the form that was asked for."""
    now, of = datetime.now().astimezone(), (shot.cards, shot.versions)
    stamp = now.astimezone(UTC).isoformat(timespec="milliseconds")
    if options.json:
        return render.as_json(*of, stamp, compact=options.loop is not None)
    if options.query:
        header, units = (word not in options.format for word in (NO_HEADER, NO_UNITS))
        return render.as_csv(shot.cards, stamp, options.query, header=header and first, units=units)
    if options.query is not None:
        return details(render.document(*of, stamp))
    shown = table(*of, now, get_terminal_size().columns)
    return shown if first else "\n" + shown


def first_interval(cards: tuple[Card, ...]) -> float:
    """Return how long to wait for the second sample; 0 where no utilisation can be measured."""
    metered = [card for card in cards if card.containers and card.scheduling.measures]
    if not metered:
        return 0.0
    exact = max(card.scheduling.resolution or 0 for card in metered) / 1e9
    return min(LONGEST_INTERVAL, max(FIRST_INTERVAL, 2 * exact))


def shot(cards: tuple[Card, ...], engine: str | None) -> Shot:
    """Return a sample with what NVIDIA's driver says of itself."""
    versions, placed = described(cards, engine)
    return Shot(placed, versions)


def published_samples(options: argparse.Namespace) -> Iterator[Shot]:
    """Yield what root has published for this user, whenever asked. Raises CgpuError."""
    while True:
        engine, cards = published()
        yield shot(chosen(cards, options.gpu), engine)


def samples(options: argparse.Namespace, tree: Tree) -> Iterator[Shot]:
    """Yield a sample of the tree whenever asked, used since the one before. Raises CgpuError."""
    names = Directory(wait_s=WAIT_S if options.loop is None else SHORT_WAIT_S)
    before = chosen(read_cards(tree), options.gpu)
    sleep(first_interval(before))
    while True:
        after = chosen(read_cards(tree), options.gpu)
        yield shot(names.named(with_utilisation(before, after)), engine_of(tree))
        before = after


def source(options: argparse.Namespace) -> Iterator[Shot]:
    """Return what gives samples whenever asked. options: tree, gpu, and loop: None for one sample."""
    if options.tree is None and os.geteuid() != 0:
        return published_samples(options)
    return samples(options, Tree(options.tree or paths.tree(effective.load().tree)))


def watch(options: argparse.Namespace, count: int | None) -> None:
    """Print samples, so many or until interrupted. Raises CgpuError."""
    for number, one in enumerate(source(options), 1):
        sys.stdout.write(formatted(options, one, first=number == 1))
        sys.stdout.flush()
        if number == count:
            return
        sleep(options.loop)


def run(options: argparse.Namespace) -> None:
    """Do what the options say. Raises CgpuError."""
    if options.publish:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        publish()
        print(f"cgpu-smi: {NOTHING}")
    else:
        watch(options, 1 if options.loop is None else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cgpu-smi. Returns 0, or 1 after one line on stderr; wrong usage exits with 2."""
    options = parsed(arguments)
    try:
        return exit_status(PROGRAM, lambda: run(options))
    except BrokenPipeError:
        # The reader has closed the pipe. Python must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
