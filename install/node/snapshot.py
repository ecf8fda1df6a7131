# SPDX-License-Identifier: Apache-2.0
"""The whole tree at one moment, as texts. Read in a child process, as the engine may hang."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cgpu.client import left
from cgpu.client.policies import UNKNOWN
from cgpu.client.policies import parse as parse_policies
from cgpu.client.stat import GpuStat, parse_gpu
from cgpu.client.tree import CONTAINER_NODES, EngineDownError, Tree, is_index
from cgpu.errors import CgpuError
from cgpu.install.node.facts import bounded

READ_S = 10.0
MAX_TEXT = 8192
MAX_GPUS = 64
MAX_CONTAINERS = 64
WRITE_ONLY = "inst_ctl"


Texts = dict[str, str]


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if len(digits) <= 20 and digits.isascii() and digits.isdigit() else None


@dataclass(frozen=True, slots=True)
class Slice:
    """One container's directory below a GPU."""

    name: str
    nodes: Texts

    @property
    def id(self) -> str:
        """The whole container id."""
        return (self.nodes.get("owner", "").split() or [self.name])[0]

    @property
    def cgroup(self) -> str | None:
        """The container's cgroup, of version 2 or of a controller's hierarchy; None where it is not known."""
        group = re.fullmatch(r"\S+ (?:[^:/]+:)?(/.*)", self.nodes.get("owner", "").strip())
        return group and group[1]

    def is_among(self, groups: Iterable[str]) -> bool:
        """Tell whether the container's cgroup, or one below it, is among some."""
        own = self.cgroup
        return own is not None and any(one == own or one.startswith(own + "/") for one in groups)

    def number(self, node: str) -> int | None:
        """Return a node's number; None where it is not there or no number."""
        return _number(self.nodes.get(node, ""))


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU's directory."""

    index: int
    nodes: Texts
    slices: tuple[Slice, ...]
    policy_name: str = UNKNOWN

    def number(self, node: str) -> int | None:
        """Return a node's number, with a sign where it has one; None where it is not there or no number."""
        return _number(self.nodes.get(node, ""))

    @property
    def stat(self) -> GpuStat | None:
        """Its counters; None where the engine does not say them."""
        try:
            return parse_gpu(self.nodes.get("stat", "").partition("\n")[0])
        except CgpuError:
            return None

    def is_lost(self) -> bool:
        """Tell whether the driver has lost the GPU; not where the engine does not say."""
        return self.stat is not None and self.stat.lost != 0

    def left(self) -> Mapping[str, int]:
        """Return the bytes that removed containers left; nothing where the entry is not there or wrong."""
        try:
            return left.parse(self.nodes.get("left", ""))
        except CgpuError:
            return {}

    def promised(self) -> int:
        """Return the bytes that are given out, to containers and to shares, as far as the engine says."""
        return 0 if self.stat is None else self.stat.promised

    def reserved(self) -> int:
        """Return the bytes that are promised to shares and that no container has."""
        return max(0, self.promised() - sum(one.number("memsize") or 0 for one in self.slices))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tree: nodes of its root, its GPUs, and what could not be read, in words."""

    nodes: Texts = field(default_factory=dict)
    cards: tuple[Card, ...] = ()
    unreadable: tuple[str, ...] = ()


def take(path: str) -> Snapshot:
    """Read a tree. Raises CgpuError when there is none, or when it does not answer in time."""
    return from_document(bounded.ask(lambda: read(Tree(path)), path, READ_S))


def from_document(document: dict[str, Any]) -> Snapshot:
    """Return what read() has made."""
    cards = tuple(
        Card(
            int(index),
            one["nodes"],
            tuple(Slice(name, nodes) for name, nodes in one["containers"].items()),
            _policy_name(document["nodes"].get("policies", ""), one["nodes"].get("policy", "")),
        )
        for index, one in document["gpus"].items()
    )
    return Snapshot(document["nodes"], cards, tuple(document["unreadable"]))


def _policy_name(policies: str, number: str) -> str:
    try:
        return parse_policies(policies)[int(number)].name
    except (CgpuError, KeyError, ValueError):
        return UNKNOWN


def read(tree: Tree) -> dict[str, Any]:
    """Return the tree as a document. Raises EngineDownError; CgpuError when the root cannot be listed."""
    tree.read("version")  # an engine that died may leave an empty directory
    names = tree.names()
    unreadable: list[str] = []
    indexes = sorted(int(name) for name in names if is_index(name))[:MAX_GPUS]
    plain = [name for name in names if not is_index(name) and name != WRITE_ONLY]
    nodes = _texts(tree, (), plain, unreadable)
    gpus = {str(index): _gpu(tree, str(index), unreadable) for index in indexes}
    return {"nodes": nodes, "gpus": gpus, "unreadable": unreadable}


def _gpu(tree: Tree, index: str, unreadable: list[str]) -> dict[str, Any]:
    containers = tree.containers(int(index))[:MAX_CONTAINERS]
    plain = [name for name in tree.names(index) if name not in containers]
    found = {}
    for name in containers:
        before = len(unreadable)
        texts = _texts(tree, (index, name), CONTAINER_NODES, unreadable)
        if name in tree.names(index):
            found[name] = texts
        else:  # the container has stopped, and its entries are gone
            del unreadable[before:]
    return {"nodes": _texts(tree, (index,), plain, unreadable), "containers": found}


def _texts(
    tree: Tree, folder: tuple[str, ...], names: list[str] | tuple[str, ...], unreadable: list[str]
) -> Texts:
    texts = {}
    for name in names:
        try:
            texts[name] = tree.read(*folder, name)[:MAX_TEXT]
        except EngineDownError:
            raise
        except CgpuError as error:
            unreadable.append(str(error))
    return texts
