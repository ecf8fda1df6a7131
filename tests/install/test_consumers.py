# SPDX-License-Identifier: Apache-2.0
"""Containers that have the runtime and no slice, as the engines tell of them before an uninstallation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install import removal
from cgpu.install.runner import TIMEOUT_S, Done, SystemRunner
from cgpu.runtime_config.engines import containerd, engine
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER
from tests.install.support import DAEMON, System, installer
from tests.runtime_config.engines.nodes import Machine

ENGINES = ("docker", "podman", "containerd")


class Said:
    """A runner that answers by a function and keeps what it was asked."""

    def __init__(self, answer: Callable[[str], Done]) -> None:
        """answer: what a command line ends with."""
        self._answer = answer
        self.commands: list[list[str]] = []

    def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
        assert timeout <= removal.TIMEOUT_S
        self.commands.append(list(words))
        return self._answer(" ".join(words))


def lines(root: Path, answer: Callable[[str], Done], *engines: str) -> list[str]:
    return list(removal.consumers(root, Said(answer), engines))


def docker(line: str) -> Done:
    """Answer as docker does, with a container that has gone meanwhile."""
    if " ps " in line:
        return Done(0, 'aaa\nbbb\ntime="1" level=warning msg="--all is old"\nccc\nddd\n')
    assert line.endswith("}} aaa bbb ccc ddd")
    return Done(1, "runc|/plain\ncgpu|/web\ncgpu|/db\nError response from daemon: No such container: ddd\n")


def test_docker(tmp_path: Path) -> None:
    """The warning names docker's containers with our runtime, and the command that removes them."""
    first, last = lines(tmp_path, docker, "docker")
    advice = "they run on, and cannot be started again; to remove them, now or later: docker rm -f db web"
    assert first == f"warning: docker: db, web with the runtime cgpu: {advice}"
    assert last == f"warning: {removal.KEEPS}"


def test_many(tmp_path: Path) -> None:
    """Many containers are asked for in pieces, and only some of them are named."""
    identities = [f"c{number:04}" for number in range(engine.AT_ONCE + 1)]

    def answer(line: str) -> Done:
        if " ps " in line:
            return Done(0, "\n".join(identities))
        return Done(0, "".join(f"cgpu|/{name}\n" for name in line.partition(".Name}} ")[2].split()))

    runner = Said(answer)
    said, _ = removal.consumers(tmp_path, runner, ["docker"])
    assert len(runner.commands) == 3
    assert said.endswith("docker rm -f " + " ".join(identities[: removal.NAMED]) + " ...")


def test_engines_that_are_not_asked(tmp_path: Path) -> None:
    """The check is silent without containers, and about engines that the node was not installed for."""
    assert lines(tmp_path, lambda _: Done(0, ""), *ENGINES, "crio", "nvidia") == []
    assert lines(tmp_path, docker, "crio") == []


def test_containerd(tmp_path: Path) -> None:
    """Tasks with our runtime are named by their pods, or by namespace and id; docker tells of its own."""
    pod = {"annotations": {containerd.POD[0]: "tests", containerd.POD[1]: "one"}}
    specs: dict[str, object] = {
        "k8s.io/a": pod,
        "k8s.io/b": pod,
        "default/c": {},
        "default/e": [1],
        "moby/d": {},
    }
    for place, spec in specs.items():
        folder = tmp_path / "run/containerd" / containerd.TASKS / place
        folder.mkdir(parents=True)
        (folder / "runtime").write_text(str(LAUNCHER))
        (folder / "config.json").write_text(json.dumps(spec))
    for place, runtime in (("default/f", "runc"), ("default/g", "")):
        folder = tmp_path / "run/containerd" / containerd.TASKS / place
        folder.mkdir(parents=True)
        (folder / "runtime").write_text(runtime)
    said = lines(tmp_path, lambda _: Done(0, ""), "containerd")
    assert said[0].startswith("warning: containerd: default/c, default/e, tests/one with the runtime cgpu: ")


def no_answer(line: str) -> Done:
    """Fail as a runner does whose command takes too long."""
    raise CgpuError(f"{line}: did not end within 10 s")


@pytest.mark.parametrize("answer", [no_answer, lambda _: Done(1, "Cannot connect to the Docker daemon\n")])
def test_an_engine_that_does_not_answer(tmp_path: Path, answer: Callable[[str], Done]) -> None:
    """An engine that does not answer makes one line of warning, and no more."""
    (said,) = lines(tmp_path, answer, "docker")
    assert said.startswith("warning: docker does not say which containers have the runtime cgpu (")


def test_a_command_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is no program makes one line of warning, too."""
    Machine(tmp_path).program("docker", "").write_bytes(b"\x7fELF")
    monkeypatch.setattr("cgpu.runtime_config.programs.find", lambda name: str(tmp_path / "bin" / name))
    (said,) = removal.consumers(tmp_path, SystemRunner(), ["docker"])
    assert "does not say which containers have the runtime cgpu (" in said


def test_uninstall_goes_on(root: Path, restored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines come before anything is taken back, in --dry-run too, and all is taken back."""
    asked: list[tuple[str, ...]] = []

    def found(_root: Path, _runner: object, engines: Sequence[str]) -> list[str]:
        asked.append(tuple(engines))
        return ["warning: these"]

    system = System(root)
    installer(root, system).install(DAEMON)
    monkeypatch.setattr(removal, "consumers", found)
    assert "warning: these" in list(installer(root, system).show_uninstall())
    one = installer(root, system)
    assert one.uninstall(None)
    assert one.notes[0] == "warning: these"
    assert asked == [("whale", "crate", "seal")] * 2


def test_stuck(tmp_path: Path) -> None:
    """Stuck containers are those of podman that run with our runtime, where podman answers."""

    def answer(line: str) -> Done:
        if " ps " in line:
            assert "--filter=status=running" in line
            return Done(0, "a\nb\n")
        return Done(0, f"{LAUNCHER}|p\ncrun|q\n")

    assert removal.stuck(Said(answer), ENGINES) == {"podman": ["p"]}
    assert removal.stuck(Said(answer), ["docker"]) == {}
    assert removal.stuck(Said(no_answer), ENGINES) == {}
