# SPDX-License-Identifier: Apache-2.0
"""The cards of a node, as the engine's tree shows them."""

from __future__ import annotations

from dataclasses import dataclass

from cgpu.client.tree import EngineDownError, Tree
from cgpu.errors import CgpuError
from cgpu.sizes import MIB


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU. mib: its memory; reserved: bytes that shares hold; policy: how its time is divided.

    lost: the driver no longer reaches it. minor: the number in the name of its node, /dev/nvidiaN.
    """

    index: int
    uuid: str
    product: str
    mib: int
    max_inst: int
    policy: int
    reserved: int
    mig: bool
    lost: bool = False
    minor: int = 0

    @property
    def device(self) -> str:
        """The name of its device in Kubernetes, the same after each start of the node."""
        return self.uuid.lower()


def cards(tree: Tree) -> tuple[Card, ...]:
    """Return the cards in the order of their indexes. Raises CgpuError, EngineDownError without an engine."""
    return tuple(_card(tree, index) for index in tree.indexes())


def _card(tree: Tree, index: int) -> Card:
    folder = str(index)
    return Card(
        index=index,
        uuid=tree.read(folder, "uuid"),
        product=tree.read(folder, "name"),
        mib=tree.read_int(folder, "memtotal") // MIB,
        max_inst=tree.read_int(folder, "max_inst"),
        policy=tree.read_int(folder, "policy"),
        reserved=sum(one.slice.memsize for one in tree.reserved(index)),
        mig=tree.read(folder, "mig") == "1",
        lost=_is_lost(tree, index),
        minor=tree.read_int(folder, "minor"),
    )


def _is_lost(tree: Tree, index: int) -> bool:
    try:
        return bool(tree.gpu_stat(index).lost)
    except EngineDownError:
        raise
    except CgpuError:
        return False  # The image of the agent may be newer than the engine, which does not say.
