# SPDX-License-Identifier: Apache-2.0
"""What cgpud does with its witness. The loader is a shell script here: the kernel is in tests/vm/nvidia."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cgpu.config.effective import Effective
from cgpu.kmod.daemon.engine import Container, Gpu
from cgpu.kmod.daemon.witness import groups, loader
from cgpu.kmod.daemon.witness import witness as subject
from cgpu.kmod.daemon.witness.groups import Groups
from cgpu.kmod.daemon.witness.loader import Excess, Processors, parse
from cgpu.kmod.daemon.witness.witness import Witness, reaction_of

WAIT_S = 20.0
EXCESS = "excess card=0 owner=3 used=8388608 limit=1 bytes=4096 ns=5 process=77 task=78 command=a?b"
COUNTS = """#!/bin/sh
echo start >>{log}
echo processors watched=2 online=2
while read -r order; do
	echo "$order" >>{log}
	[ "$order" = show ] && echo missed=0 lost={lost} lost_events=0 && echo end && continue
	echo ok
	case $order in watch*) echo "{excess}" ;; esac
done
"""


@dataclass
class FakeEngine:
    """An engine with one card, whose containers a test names."""

    registered: list[Container] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def gpus(self) -> Iterator[Gpu]:
        yield Gpu(0, 0, 16 << 30, "GPU-0", "T4")

    def containers(self) -> Iterator[Container]:
        yield from self.registered

    def take_page(self, gpu: int) -> None:
        assert gpu == 0

    def say_witness(self, word: str) -> None:
        self.words.append(word)


@dataclass
class Node:
    """A witness whose loader is a script, and whose cgroups are files."""

    folder: Path
    engine: FakeEngine = field(default_factory=FakeEngine)
    events: list[Mapping[str, str | int]] = field(default_factory=list)
    config: Effective = field(default_factory=Effective)
    generations: Iterator[int] = field(default_factory=itertools.count)

    @property
    def orders(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def program(self, text: str) -> None:
        path = self.folder / "cgpu-witness"
        path.write_text(text)
        path.chmod(0o755)

    def counts(self, lost: int = 0) -> None:
        self.program(COUNTS.format(log=self.folder / "log", excess=EXCESS, lost=lost))

    def register(self, name: str, cgroup: str | None = None, passthrough: int = 0) -> Path:
        group = self.folder / name
        group.mkdir()
        for entry in ("cgroup.freeze", "cgroup.kill"):
            (group / entry).touch()
        found = Container(name, cgroup or f"/{name}", 1, 0, next(self.generations), passthrough)
        self.engine.registered.append(found)
        return group

    def start(self) -> Witness:
        def record(kind: str, fields: Mapping[str, str | int]) -> None:
            self.events.append({"event": kind, **fields})

        made = Witness(self.engine, lambda: self.config, record, simulated=False)  # type: ignore[arg-type]  # all that is asked
        made._groups = Groups(self.folder)
        made.start(WAIT_S)
        return made

    def await_word(self, word: str) -> None:
        wait_for(lambda: self.engine.words[-1] == word)


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(loader, "PROGRAM", tmp_path / "cgpu-witness")
    monkeypatch.setattr(subject, "PAUSES_S", (0.01, 0.01))
    monkeypatch.setattr(subject, "are_unified", lambda: True)
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (EXCESS, Excess(0, 3, 8388608, 5, 77, "a?b")),
        ("processors watched=1 online=2 missing=1: No space left on device", Processors(1, 2)),
        ("ok", None),
        (EXCESS + " ok", None),
    ],
)
def test_lines(line: str, meaning: object) -> None:
    """Only a whole line of its own form is no answer."""
    assert parse(line) == meaning


@pytest.mark.parametrize(
    ("config", "reaction"),
    [
        ({}, "report"),
        ({"shared_node": True}, "kill"),
        ({"shared_node": True, "on_gain": "report"}, "report"),
        ({"on_gain": "kill"}, "kill"),
        ({"on_gain": "kill", "enforce": False}, "ignore"),
    ],
)
def test_reactions(config: dict[str, bool | str], reaction: str) -> None:
    """A shared node ends containers, others name them; a node that enforces nothing watches nothing."""
    assert reaction_of(Effective(**config)) == reaction


@pytest.mark.parametrize("reaction", ["kill", "report"])
def test_a_gain(node: Node, reaction: str) -> None:
    """The container is watched before its registration is answered; a gain ends its group, and no other."""
    node.counts()
    node.config = Effective(on_gain=reaction)
    witness = node.start()
    group = node.register("one")
    witness.registered()
    number = group.stat().st_ino
    assert node.orders[-3:] == ["limit 0 3 16777216", "limit 32 3 16777216", f"watch 3 {number}"]
    wait_for(lambda: node.events)
    witness.close()
    (event,) = node.events
    message = str(event["message"])
    assert message.startswith("process 77 (a?b) took 8.0 MiB of GPU 0 past the engine; ")
    assert [event[key] for key in ("event", "id", "bytes", "gpu")] == ["gained", "one", 8388608, 0]
    written = "1" if reaction == "kill" else ""
    assert [(group / name).read_text() for name in ("cgroup.freeze", "cgroup.kill")] == [written] * 2
    assert node.engine.words == ["on"]


def test_a_whole_gpu(node: Node) -> None:
    """What a container takes of a GPU that it has whole is its own."""
    node.counts()
    node.register("whole", passthrough=1)
    node.start().close()
    assert {"limit 0 3 0", "limit 32 3 0"} <= set(node.orders)


def test_a_container_that_ends(node: Node) -> None:
    """Its cgroup is forgotten, and the next container has another number."""
    node.counts()
    number = node.register("one").stat().st_ino
    witness = node.start()
    node.engine.registered.clear()
    node.register("two")
    witness.registered()
    witness.close()
    assert f"unwatch {number}" in node.orders
    assert node.orders[-1].startswith("watch 4 ")


@pytest.mark.parametrize("cgroup", ["/", "pids:/a", "/../a", "/gone"])
def test_a_cgroup_that_is_not_its_own(node: Node, cgroup: str) -> None:
    """Whoever shares its group is not watched, as others would be ended with it; this is said."""
    node.counts()
    node.register("a", cgroup)
    node.start().close()
    assert not [order for order in node.orders if order.startswith("watch")]
    assert node.engine.words == ["incomplete"]


def test_an_incomplete_count(node: Node) -> None:
    """Calls that were not counted are said."""
    node.counts(lost=1)
    node.start().close()
    assert node.engine.words == ["incomplete"]


def test_an_order_that_fails(node: Node) -> None:
    """Where a container cannot be watched, another loader is tried: none counts as watched that is not."""
    node.program(
        COUNTS.format(log=node.folder / "log", excess=EXCESS, lost=0).replace("echo ok", "echo error: X")
    )
    node.start()
    wait_for(lambda: node.orders.count("start") == 3)
    assert node.engine.words == ["ended"]


def test_starts_are_bounded(node: Node) -> None:
    """A loader that ends is started again some times, and then no more."""
    node.program(f"#!/bin/sh\necho start >>{node.folder}/log\necho processors watched=1 online=1\nexit 1\n")
    witness = node.start()
    wait_for(lambda: len(node.orders) == 3)
    witness.close()
    assert node.orders == ["start"] * 3
    assert node.engine.words[-1] == "ended"


def test_a_driver_that_cannot_be_watched(node: Node) -> None:
    """The reason is said once, and nothing is tried again."""
    node.program(f"#!/bin/sh\necho start >>{node.folder}/log\necho refused symbols the driver hides X\n")
    witness = node.start()
    witness.registered()
    witness.close()
    assert (node.orders, node.engine.words) == (["start"], ["symbols"])


def test_settings_that_change(node: Node) -> None:
    """on_gain: ignore ends the loader, and another value starts it."""
    node.counts()
    witness = node.start()
    for reaction, word in (("ignore", "setting"), ("kill", "on")):
        node.config = Effective(on_gain=reaction)
        witness.configure()
        node.await_word(word)
    witness.close()
    assert node.orders.count("start") == 2


def test_an_installation_without_it(node: Node) -> None:
    """What was built without it says so."""
    node.start().close()
    assert node.engine.words == ["absent"]


def test_a_group_whose_path_another_has(tmp_path: Path) -> None:
    """A group's end reaches the directory that was watched, not the one that has its path now."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.kill").touch()
    watched = groups.Groups(tmp_path)
    watched.add(Container("a", "/a", 1, 0, 0), 3)
    (tmp_path / "a").rename(tmp_path / "old")
    (tmp_path / "b").rename(tmp_path / "a")
    watched.kill(3)
    assert [(tmp_path / name / "cgroup.kill").read_text() for name in ("old", "a")] == ["1", ""]


def test_a_group_of_others(tmp_path: Path) -> None:
    """A container in the group of whoever started it (`podman run --cgroups=disabled`) is not watched."""
    for pid, parent, group in ((10, 9, "/user"), (9, 1, "/user"), (11, 9, "/user/a")):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (a) b)) S {parent} {'0 ' * 20}")
        (folder / "cgroup").write_text(f"4:pids:/x\n0::{group}\n")
    (tmp_path / "user/a").mkdir(parents=True)
    watched = groups.Groups(tmp_path, tmp_path / "proc")
    assert watched.add(Container("a", "/user", 10, 0, 0), 3) is None
    assert watched.add(Container("a", "/user/a", 11, 0, 0), 3) is not None
