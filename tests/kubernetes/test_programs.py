# SPDX-License-Identifier: Apache-2.0
"""How the cluster's programs are found and built, without building them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kubernetes import modules, programs
from tests.kubernetes.harness.settings import Settings
from tests.kubernetes.programs import UnavailableError

REPLACED = re.compile(r"^\t(k8s\.io/\S+) => (k8s\.io/\S+) (v\S+)$", re.MULTILINE)


def fake_go(folder: Path, version: str) -> Path:
    """Make a program that says it is this version of Go."""
    program = folder / "go"
    program.write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("file", programs.VERSIONS.values())
def test_libraries_are_of_the_same_release(file: str) -> None:
    """Every library of Kubernetes has the version that belongs to Kubernetes' own."""
    path = modules.SOURCES / file
    text = path.read_text()
    _, minor, patch = programs.version_in(text, programs.MODULE_KUBERNETES)
    replaced = REPLACED.findall(text)
    assert len(replaced) > 25
    assert {(old == new, version) for old, new, version in replaced} == {(True, f"v0.{minor}.{patch}")}
    assert f"k8s.io/kubernetes v1.{minor}.{patch} h1:" in path.with_suffix(".sum").read_text()


def test_module_file_names_each_library() -> None:
    """A library that Kubernetes has in its own tree is replaced, another module is not."""
    theirs = {
        "Go": "1.26.0",
        "Replace": [
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "example.org/a"}, "New": {"Path": "example.org/b", "Version": "v1.0.0"}},
        ],
    }
    lines = modules.module_file("1.36.5", theirs).splitlines()
    assert "go 1.26.0" in lines
    assert "require k8s.io/kubernetes v1.36.5" in lines
    assert [line for line in lines if "=>" in line] == ["\tk8s.io/api => k8s.io/api v0.36.5"]


def test_an_old_go_is_not_taken(tmp_path: Path) -> None:
    """A Go of this machine counts from the version on that the modules need; a broken one never does."""
    assert programs.have(fake_go(tmp_path, "1.26.10"), (1, 26, 3))
    assert programs.have(fake_go(tmp_path, "1.27"), (1, 26, 3))
    assert not programs.have(fake_go(tmp_path, "1.26.2"), (1, 26, 3))
    assert not programs.have(fake_go(tmp_path, "nonsense"), (1, 26, 3))
    assert not programs.have(tmp_path / "none", (1, 26, 3))


def test_the_go_from_pypi_is_new_enough() -> None:
    """The package that is taken where there is no Go builds every module."""
    files = [modules.SOURCES / name for name in programs.VERSIONS.values()]
    needed = programs.needed([*files, programs.HERE / "containerd" / "go.mod"])
    assert programs.version_in(programs.GO_PACKAGE.replace("-bin==", ""), programs.GO_VERSION) >= needed


def test_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that nobody built modules for is one line that says which there are."""
    monkeypatch.delenv(programs.OWN_PROGRAMS, raising=False)
    with pytest.raises(
        UnavailableError, match=r"^Kubernetes 1\.2: expected 1\.36 or 1\.34, or KUBERNETES_BIN="
    ):
        programs.build("1.2")


def test_failed_build_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where modules cannot be had, the error names the command that failed."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho no such host >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(programs, "find_go", lambda _: go)
    with pytest.raises(UnavailableError, match=r"^containerd from the module proxy .*: status 1, see above$"):
        programs.build("1.36")


def test_own_programs_take_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KUBERNETES_BIN names each program by its usual name."""
    settings = Settings(Path("/programs"), "1.36", "/group", tmp_path)
    monkeypatch.delenv(programs.OWN_PROGRAMS, raising=False)
    assert settings.program("etcd") == ["/programs/cluster", "etcd"]
    monkeypatch.setenv(programs.OWN_PROGRAMS, "/own")
    assert settings.program("etcd") == ["/own/etcd"]


def test_linker_flags_have_the_version() -> None:
    """What a component says of its version is that of its module."""
    flags = programs.stamped(modules.SOURCES / "go.mod")
    assert re.search(r"-X k8s\.io/component-base/version\.gitVersion=v1\.36\.\d+ ", flags)
    assert flags.count("-X ") == 3
