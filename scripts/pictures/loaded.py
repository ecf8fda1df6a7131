# SPDX-License-Identifier: Apache-2.0
"""A loaded node for pictures: cgpud with four simulated cards, and pods that have slices of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cgpu.client.tree import Tree
from cgpu.smi.main import Shot, samples
from cgpu.smi.names import Directory, Names
from tests.daemon.harness import Daemon, Sliced, long_id, serving

CARDS = "T4:4"
CONFIG = "policy: 4\n"
BY_WEIGHT = 1
"""A card with policy 2, under which slices are throttled while others have no work, too."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Pod:
    """A container with a slice of a GPU. Sizes in MiB."""

    name: str
    gpu: int
    size: int
    weight: int
    held: int
    computes: bool = True
    refused: int = 0
    """How often its program asks for more than the slice has."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return what the probe has to do; the last word goes on until the end."""
        held = [f"alloc={self.held}M"] if self.held else []
        work = ["group", "busy=3600s:1ms"] if self.computes else ["hold"]
        return (f"gpu={self.gpu}", *[f"alloc={self.size + 1}M"] * self.refused, *held, *work)


PODS = (
    Pod("research/trainer-0/main", 0, 6144, 4, 5200),
    Pod("research/notebook-anna-6c9f7d5b48-x2x7q/jupyter", 0, 2048, 1, 640, computes=False),
    Pod("shop/search-7d9fb4c6d8-kk2lp/web", 0, 3072, 2, 2950, refused=7),
    Pod("shop/recommend-5b8c9d7f64-z8q4w/web", 0, 3072, 2, 1200),
    *(Pod(f"vision/detect-{at}/worker", 1, 1536, 1 + at % 3, 200 + 150 * at) for at in range(6)),
    Pod("vision/label-6f5d9c8b77-p4t9s/worker", 1, 2048, 1, 1900, computes=False),
    Pod("batch/render-28391174-c7wlm/blender", 2, 12288, 1, 11500),
    Pod("ci-runner", 2, 1024, 1, 64, computes=False),
    Pod("research/notebook-li-7c4d6b9f55-m8r2d/jupyter", 3, 4096, 1, 900),
    Pod("research/notebook-omar-8587d9c4b6-t5k7n/jupyter", 3, 4096, 1, 2100, computes=False),
    Pod("shop/translate-79c8f5b6d4-h6v3x/web", 3, 2048, 2, 0, computes=False),
)
NAMES: Names = {long_id(seed): one.name for seed, one in enumerate(PODS, 1)}


def start(daemon: Daemon, seed: int, one: Pod) -> Sliced:
    """Have a pod's program in its slice. seed: of the container's id."""
    until = "group" if one.computes else "hold"
    return daemon.slice(seed, f"gpu={one.gpu}:{one.size * MIB}:{one.weight}", *one.words, until=until)


@contextmanager
def node() -> Iterator[Daemon]:
    """Have the cards with all pods."""
    with serving(Daemon, CARDS, CONFIG) as daemon:
        daemon.write(f"{BY_WEIGHT}/policy", "2")
        for seed, one in enumerate(PODS, 1):
            start(daemon, seed, one)
        yield daemon


def source(daemon: Daemon) -> Iterator[Shot]:
    """Return what gives samples of the node whenever asked, with the names of its pods."""
    directory = Directory([lambda: NAMES])
    for shot in samples(argparse.Namespace(gpu=None, loop=1.0), Tree(str(daemon.tree))):
        yield replace(shot, cards=directory.named(shot.cards))
