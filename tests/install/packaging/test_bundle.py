# SPDX-License-Identifier: Apache-2.0
"""The bundle, on a node that has nothing which it could use instead of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu import __version__
from tests.install.packaging.bare_node import (
    RUNTIME,
    SLICE,
    TOTAL,
    BareNode,
    contents,
    make_container,
    unpack,
)
from tests.integration.commands import eventually, must
from tests.packages import EPOCH, ROOT

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1200)]

NO_MEMORY = "status=0x51"
BUILD_S = 1000  # a minute where nothing else runs


@pytest.fixture
def node(root: Path, bundle: Path) -> Iterator[BareNode]:
    """Run a node of which only /var and /run can be written; the bundle is in /var."""
    unpack(bundle, root / "var")
    made = BareNode(root, "usr etc opt")
    yield made
    made.attempt("/var/opencgpu/current/bin/cgpud", "--stop", "--force")
    made.end()


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()


def test_same_anywhere(bundle: Path, tmp_path: Path) -> None:
    """Another folder with the same sources, compiled anew, gives the same archive to the byte."""
    git = ["git", "-c", f"safe.directory={ROOT}"]
    names = must([*git, "-C", ROOT, "ls-files", "-co", "--exclude-standard"]).stdout.splitlines()
    copy = tmp_path / "elsewhere"
    for name in filter(lambda name: os.path.lexists(ROOT / name), names):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    (copy / "kmod/build").mkdir()
    (copy / "kmod/build/bundled").symlink_to(ROOT / "kmod/build/bundled")
    (copy / ".venv").symlink_to(ROOT / ".venv")
    environment = EPOCH | {"CGPU_BOOTSTRAP_OFFLINE": "1"}
    must([copy / "install/packaging/build-bundle", tmp_path / "dist"], environment, BUILD_S)
    assert (tmp_path / "dist" / bundle.name).read_bytes() == bundle.read_bytes()


def test_own_libraries(bundle: Path, tmp_path: Path) -> None:
    """Each program and library finds what it needs in the bundle; none names a loader outside but by need."""
    unpack(bundle, tmp_path)
    folder = tmp_path / "opencgpu" / __version__
    own = {path.name for path in (folder / "lib").glob("*.so*")}
    for path in (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        if path.read_bytes()[:4] != b"\x7fELF":
            continue
        said = must(["readelf", "--dynamic", "--program-headers", path]).stdout
        needed = {line.rpartition("[")[2].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line}
        assert needed <= own, path
        by_loader = path.parent.name == "programs" or path.name == "libc.so.6"
        assert by_loader or "interpreter: " not in said, path


@pytest.mark.parametrize("name", ["a:b", "a;b", "$ORIGIN"])
def test_path_that_the_loader_takes_apart(bundle: Path, tmp_path: Path, name: str) -> None:
    """No library comes from the current folder: the program is not started, and one line says why."""
    (tmp_path / name).mkdir()
    unpack(bundle, tmp_path / name)
    program = tmp_path / name / "opencgpu" / __version__ / "bin/cgpu"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "in a path without :;$\n" in done.stderr) == (1, True), done


def check_slice(node: BareNode, home: str) -> None:
    """A container by runc has its slice, and not a byte more."""
    run = (f"{home}/{RUNTIME}", "run", "--bundle", "/run/bundle")
    make_container(node, "/cgpu-probe", "info")
    assert TOTAL in node.run(*run, "first")
    make_container(node, "/cgpu-probe", "alloc=1025M")
    assert NO_MEMORY in node.attempt(*run, "second").stdout


def test_slice_on_read_only_node(node: BareNode) -> None:
    """Engine, tools, hook, runtime and its server work from /var alone."""
    home = "/var/opencgpu/current"
    node.run(f"{home}/bin/cgpud", "--simulate", "T4")
    assert "Tesla T4" in node.run(f"{home}/bin/cgpu-smi")
    # The launcher starts Python.
    check_slice(node, home)
    server = node.start(f"{home}/bin/cgpu-container-runtime-server")
    eventually(lambda: node.path("/run/cgpu-container-runtime.sock").exists(), "the server listens")
    check_slice(node, home)
    end(server)
    assert TOTAL in node.run(f"{home}/bin/cgpu", "run", "--mem", "1G", "--", "/rootfs/cgpu-probe", "info")
    node.run(f"{home}/bin/cgpu", "upgrade", "--hot")
    doctor = json.loads(node.attempt(f"{home}/bin/cgpu", "doctor", "--json").stdout)
    found = {one["name"]: one for one in doctor["findings"]}
    for name in ("interpreter", "runtime", "hook", "ownership", "fuse"):
        assert found[name]["verdict"] == "ok", found[name]


def run_installer(node: BareNode, bundle: Path, word: str) -> None:
    """Run the installer of a cluster as its pod on the node would."""
    own = {"CGPU_NODE_PID": str(node.pid), "CGPU_BUNDLE": str(bundle), "CGPU_WAIT": "true"}
    must([ROOT / "install/packaging/kubernetes/node-installer", word], own)


def enabled(node: BareNode) -> list[str]:
    return sorted(path.name for path in node.path("/run/made-up/enabled").glob("*"))


@pytest.mark.parametrize("has_systemd", [False, True])
def test_install_and_back(root: Path, bundle: Path, has_systemd: bool) -> None:
    """A cluster's installer brings the bundle and takes it back; settings and units name a lasting path.

    The systemd is a made-up one: see bare_node.py.
    """
    home = "/opt/opencgpu/current"
    if has_systemd:
        (root / "bin/systemctl").symlink_to("made-up-systemd")
    node = BareNode(root, "usr")
    if has_systemd:
        node.run("systemctl", "daemon-reload")
    containerd = node.start("/bin/sh", "-c", "exec containerd 2>/run/containerd.log")
    try:
        eventually(lambda: node.attempt("ctr", "version").returncode == 0, "containerd serves")
        before = contents(root)
        run_installer(node, bundle, "install")
        assert bool(enabled(node)) == has_systemd
        for unit in node.path("/etc/systemd/system").glob("cgpu*.service"):
            assert f"ExecStart={home}/bin/" in unit.read_text()
        node.run(f"{home}/bin/cgpud", "--simulate", "T4")
        runtime = f"{home}/{RUNTIME}"
        assert f'BinaryName = "{runtime}"' in node.path("/etc/containerd/config.toml").read_text()
        run = ("ctr", "run", "--rm", "--env", SLICE, "--runc-binary", runtime, "--rootfs", "/rootfs")
        assert TOTAL in node.run(*run, "first", "/cgpu-probe", "info")
        assert NO_MEMORY in node.attempt(*run, "second", "/cgpu-probe", "alloc=1025M").stdout
        run_installer(node, bundle, "uninstall")
        assert enabled(node) == []
    finally:
        end(containerd)
        node.attempt(f"{home}/bin/cgpud", "--stop", "--force")
        node.end()
    after = contents(root)
    changed = [name for name in after if after[name] != before.get(name)]
    assert [name for name in changed if not name.startswith("var/lib/containerd")] == []
    assert before.keys() <= after.keys()
