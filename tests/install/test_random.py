# SPDX-License-Identifier: Apache-2.0
"""Random histories of a node: install, uninstall, kill -9 of either, and other people's edits."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgpu.install.store import Store
from tests.install import faults
from tests.install.engines import ENGINES, OURS
from tests.install.support import DAEMON, installer, make_node, snapshot

POINTS = 130  # more calls than one command makes: the rest come to their end
COMMANDS = st.sampled_from(["install", "uninstall"])
# A command and the call after which it is killed, or an engine whose settings are edited.
STEP = st.one_of(
    st.tuples(COMMANDS, st.none()),
    st.tuples(COMMANDS, st.integers(0, POINTS)),
    st.tuples(st.sampled_from(sorted(ENGINES)), st.none()),
)
Step = tuple[str, int | None]


@dataclass
class History:
    """A node, and what others have written into each engine's settings."""

    root: Path
    foreign: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in ENGINES})

    def take(self, step: Step) -> None:
        """Do one step, and see that every engine still starts."""
        name, at = step
        if name in ENGINES:
            self.edit(name)
        elif at is None:
            self.run(name)
        else:
            faults.in_child(lambda: self.run(name), at)
        for engine in ENGINES.values():
            engine.check(self.root)

    def run(self, command: str) -> None:
        if command == "install":
            installer(self.root).install(DAEMON)
        else:
            installer(self.root).uninstall(None)

    def edit(self, name: str) -> None:
        """Add a line at the end, as somebody else does."""
        path = self.root / ENGINES[name].path
        line = f"foreign={len(self.foreign[name])}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(line)
        self.foreign[name].append(line)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=8))
def test_any_history_comes_back(steps: list[Step]) -> None:
    """After any history one uninstall leaves what was there before, and what others have written since."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root = make_node(Path(folder, "node"))
        before = snapshot(root)
        texts = {name: engine.read(root) or "" for name, engine in ENGINES.items()}
        history = History(root)
        for step in steps:
            history.take(step)
        history.run("install")
        assert all(OURS in (engine.read(root) or "") for engine in ENGINES.values())
        history.run("uninstall")
        for name, engine in ENGINES.items():
            assert (engine.read(root) or "") == texts[name] + "".join(history.foreign[name])
        assert not Store.load(root).is_there
        if not any(history.foreign.values()):
            assert snapshot(root) == before
