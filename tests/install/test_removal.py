# SPDX-License-Identifier: Apache-2.0
"""Obstacles to a removal, also to one that goes on; units that are stopped for good."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cgpu import shares
from cgpu.errors import CgpuError
from cgpu.install import drain
from cgpu.install.runner import TIMEOUT_S, Done
from cgpu.install.store import Store
from cgpu.shares import Share
from cgpu.slice import Slice
from tests.grants import OTHERS
from tests.install.engines import ENGINES, Lines
from tests.install.support import DAEMON, System, installer, is_draining, snapshot
from tests.install.test_installer import a_tree

ENABLED = "system/enabled/cgpud.service"
# systemd holds descriptors of cgpud.
HOLDING = {"systemctl show": Done(0, "2\n")}
# podman runs a container with the runtime.
RUNNING = {"podman ps": Done(0, "abc123\n"), "podman": Done(0, "cgpu|runs\n")}
PODMAN = {**ENGINES, "podman": Lines("podman", "etc/podman.conf")}


@pytest.fixture
def interrupted(root: Path) -> Path:
    """Return the root of a node whose removal failed before it came to the engine."""
    installer(root, engines=PODMAN).install(DAEMON)
    refusing = System(root, "disable --now cgpu-smi-publish.path")
    with pytest.raises(CgpuError, match="does not work today; what is left stays: cgpu uninstall goes on"):
        installer(root, refusing, PODMAN).uninstall(None)
    assert Store.load(root).command == "uninstall"
    assert (root / ENABLED).exists()
    return root


def move_tree(root: Path) -> None:
    """Have the tree where a configuration in force names it, and not at its usual place."""
    (root / "srv").mkdir()
    (root / "run/cgpu_km").rename(root / "srv/gpus")
    (root / "run/cgpu").mkdir()
    (root / "run/cgpu/config.json").write_text(json.dumps({"tree": "/srv/gpus"}))


def test_it_waits_for_slices(interrupted: Path) -> None:
    """Containers that have come up since an uninstall was ended keep their engine until they are drained."""
    tree = a_tree(interrupted, "3f2a")
    expected = "sliced containers run: 3f2a: end them, or: cgpu uninstall --drain"
    with pytest.raises(CgpuError, match=expected):
        installer(interrupted, engines=PODMAN).uninstall(None)
    assert not is_draining(interrupted)
    assert (interrupted / ENABLED).exists()
    shutil.rmtree(tree)
    installer(interrupted, engines=PODMAN).uninstall(5)
    assert not Store.load(interrupted).is_there


@pytest.mark.root
def test_it_waits_for_claims(root: Path) -> None:
    """A share reserved for a pod in Kubernetes stops the removal, too; the message names its claim."""
    installer(root, engines=PODMAN).install(DAEMON)
    tree = a_tree(root)
    known, other = (f"0000000{number}-0000-4000-8000-000000000000" for number in (1, 2))
    (tree / "0/reserved").write_text(f"{known} 1048576 {OTHERS} -\n{other} 1048576 {OTHERS} -\n")
    share = Share(known, ("team", "train", known), f"GPU-{known}", Slice(1048576, 1, 0), {})
    (root / "run/cgpu").mkdir()
    shares.write(share, str(root / "run/cgpu/shares"))
    before = snapshot(root)
    with pytest.raises(
        CgpuError, match=rf"run: {other} \(reserved\), claim team/train \(reserved\): end them"
    ):
        installer(root, engines=PODMAN).uninstall(None)
    assert snapshot(root) == before
    (tree / "0/reserved").write_text("")
    installer(root, engines=PODMAN).uninstall(None)
    assert not Store.load(root).is_there


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        (HOLDING, "cgpud is down and systemd may hold"),
        (RUNNING, "podman containers with the runtime cgpu run: runs: .* podman rm -f runs"),
    ],
)
def test_what_stops_a_removal(interrupted: Path, replies: dict[str, Done], expected: str) -> None:
    """An engine that is down, whose containers nobody knows, and containers that podman could not stop."""
    with pytest.raises(CgpuError, match=expected):
        installer(interrupted, System(interrupted, replies=replies), PODMAN).uninstall(None)
    assert (interrupted / ENABLED).exists()


def test_no_slices_are_given_out_meanwhile(interrupted: Path) -> None:
    """From before the engine is looked at until its end hooks and agents refuse, and no longer."""
    marks: list[bool] = []
    for_agents = interrupted / "run/cgpu/draining"
    for_agents.parent.mkdir(exist_ok=True)

    class Watching(System):
        def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
            marks.append(is_draining(interrupted) and for_agents.exists())
            return super().run(words, timeout)

    system = Watching(interrupted)
    installer(interrupted, system, PODMAN).uninstall(None)
    assert any(line.startswith("systemctl show") for line in system.commands)
    assert "systemctl disable --now cgpud.service" in system.commands
    assert all(marks)
    assert not is_draining(interrupted)
    assert not for_agents.exists()


def test_a_hook_on_its_way(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has passed the mark before it was there, and registers after the first look, is seen."""
    installer(root).install(DAEMON)
    before = snapshot(root)
    tree = a_tree(root, "3f2a")
    (tree / "0/3f2a").rmdir()
    look = drain.sliced

    def look_and_register(where: Path) -> list[str]:
        found = look(where)
        (tree / "0/3f2a").mkdir(exist_ok=True)
        return found

    monkeypatch.setattr(drain, "sliced", look_and_register)
    with pytest.raises(CgpuError, match="sliced containers run: 3f2a"):
        installer(root).uninstall(None)
    shutil.rmtree(tree)
    assert snapshot(root) == before


def test_a_tree_elsewhere(root: Path, restored: Path) -> None:
    """An engine whose tree the configuration names is not down, and its containers count."""
    installer(root).install(DAEMON)
    a_tree(root, "3f2a")
    move_tree(root)
    with pytest.raises(CgpuError, match="sliced containers run: 3f2a"):
        installer(root).uninstall(None)
    (root / "srv/gpus/0/3f2a").rmdir()
    assert installer(root, System(root, replies=HOLDING)).uninstall(None)
    for name in ("srv", "run/cgpu"):
        shutil.rmtree(root / name)


@pytest.mark.parametrize("text", ['{"tree": null}', '{"tree": "srv"}', "[", None])
def test_a_configuration_that_names_no_tree(root: Path, text: str | None) -> None:
    """Then it is one of the usual two."""
    installer(root).install(DAEMON)
    a_tree(root, "3f2a")
    if text is not None:
        (root / "run/cgpu").mkdir()
        (root / "run/cgpu/config.json").write_text(text)
    with pytest.raises(CgpuError, match="sliced containers run: 3f2a"):
        installer(root).uninstall(None)


UNIT = "etc/systemd/system/cgpud.service"


def test_a_unit_that_was_removed(root: Path, restored: Path) -> None:
    """A removed unit stays removed: uninstall stops its service, and takes the rest back."""
    installer(root).install(DAEMON)
    (root / UNIT).unlink()
    (root / ENABLED).unlink()
    system = System(root)
    assert "+ systemctl stop cgpud.service" in list(installer(root, system).show_uninstall())
    assert installer(root, system).uninstall(None)
    assert "systemctl stop cgpud.service" in system.commands
    assert not any("disable" in line and "cgpud" in line for line in system.commands)


@pytest.mark.parametrize(("status", "is_said"), [(0, False), (5, False), (1, True)])
def test_a_removed_unit_that_does_not_stop(root: Path, status: int, *, is_said: bool) -> None:
    """The removal goes on and leaves the unit to the user, without a word if systemd does not know it."""
    installer(root).install(DAEMON)
    (root / UNIT).unlink()
    one = installer(root, System(root, replies={"systemctl stop": Done(status, "busy\n")}))
    assert one.uninstall(None)
    told = "To do: systemctl stop cgpud.service (systemctl stop cgpud.service: exit status 1: busy)"
    assert (told in one.notes) == is_said


def test_a_unit_of_the_package(root: Path) -> None:
    """A unit that only a package has is disabled before all else goes."""
    installer(root).install(DAEMON)
    package = root / "usr/lib/systemd/system/cgpud.service"
    package.parent.mkdir(parents=True)
    (root / UNIT).rename(package)
    assert installer(root).uninstall(None)
    assert not (root / ENABLED).exists()
    assert package.exists()
