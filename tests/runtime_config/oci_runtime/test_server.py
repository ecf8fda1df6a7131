# SPDX-License-Identifier: Apache-2.0
"""The wrapper's server: its work, its callers, and that all else is as without it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.runtime_config.oci_runtime.served import LEFT, NO_PYTHON, Served, assert_lets_go, workers
from tests.runtime_config.oci_runtime.wrapper import FIRST, Result
from tests.runtime_config.support import ASKING, ROOT, program, spec

SLICED = spec(*ASKING, FIRST)


@pytest.fixture
def node(any_launcher: Path, tmp_path: Path) -> Served:
    """Return a node whose launcher starts Python, and no server yet."""
    return Served(tmp_path / "node", program=any_launcher).build()


def test_needs_no_python(bare: Served) -> None:
    """The server prepares a start, of a bundle beside the caller too; the runtime gets the same arguments."""
    with bare.server():
        assert bare.call("create", "--bundle", "bundle", "c1").status == 0
    assert bare.edited()["hooks"]["prestart"][0]["args"][1] == "prestart"
    assert bare.started()[2:] == ["--log-format", "json", "create", "--bundle", "bundle", "c1"]


def test_holds_nothing(bare: Served) -> None:
    """After a start a worker has no folder of it, neither as its own nor as a descriptor."""
    with bare.server() as server:
        for _ in range(12):
            assert bare.create().status == 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.connect(str(bare.socket))
            with contextlib.suppress(ConnectionError):
                socket.send_fds(peer, [b"x"], [0, 1, 2])
        for worker in workers(server.pid):
            assert_lets_go(worker)


def test_without_a_server(bare: Served) -> None:
    """Without a server that listens the launcher starts Python."""
    raw = bare.bundle(SLICED)
    assert bare.create() == LEFT
    assert bare.config.read_bytes() == raw
    bare.socket.touch()
    assert bare.create() == LEFT


def test_a_vendor_runtime_that_does_not_start(node: Served) -> None:
    """Python then prepares the bundle as for any other runtime, and starts no other one without a slice."""
    raw = node.config.read_bytes()
    vendor = program(node.base / "nvidia-container-runtime")
    vendor.write_text("#!/nowhere/sh\n")
    node.settings(low_level_runtime=str(vendor))
    said = Result(1, f"opencgpu: {vendor}: cannot be started (No such file or directory)\n")
    assert node.create() == said
    with node.server():
        assert node.create() == said
    assert node.config.read_bytes() == raw


def test_signals(node: Served) -> None:
    """The low-level runtime ignores no signal for having been started from Python."""
    node.runtime(f"[ $1 = features ] || grep SigIgn /proc/$$/status >{node.base}/ignored")
    ignored = node.base / "ignored"
    # A shell ignores some for what it starts in the background.
    usual = subprocess.run(
        ["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True, check=True
    )
    assert (node.create().status, ignored.read_text()) == (0, usual.stdout)
    with node.server():
        assert (node.create().status, ignored.read_text()) == (0, usual.stdout)


def test_another_launcher(bare: Served, tmp_path: Path) -> None:
    """A launcher of another version is not served."""
    other = shutil.copy(bare.program, tmp_path / "other")
    with bare.server():
        served = Served(bare.base, program=Path(other))
        assert served.create().errors == NO_PYTHON
        assert bare.create().status == 0


def test_a_replaced_launcher(bare: Served, tmp_path: Path) -> None:
    """A server whose launcher was replaced ends, and has served none of the new version."""
    copy = tmp_path / "copy" / bare.program.name
    copy.parent.mkdir()
    shutil.copy(bare.program, copy)
    node = Served(bare.base, program=copy)
    with node.server() as server:
        assert node.create().status == 0
        shutil.copy(bare.program, copy.with_name("new"))
        copy.with_name("new").rename(copy)
        assert node.create().errors == NO_PYTHON
        server.wait(timeout=240)
        assert server.returncode == 0
        assert node.create().errors == NO_PYTHON


@pytest.mark.root
@pytest.mark.parametrize("options", ["--mount", "--user", "--pid --fork"])
def test_other_namespaces(bare: Served, options: str) -> None:
    """A caller in a mount, user or PID namespace of its own is not root of the host, so it is not served."""
    with bare.server():
        assert bare.run("unshare", *options.split(), *bare.creating()) == LEFT


@pytest.mark.root
def test_another_root(bare: Served, tmp_path: Path) -> None:
    """A caller in a folder where the same root is mounted a second time may see other files."""
    raw = bare.bundle(SLICED)
    root = tmp_path / "root"
    root.mkdir()
    inside = f"cd {bare.base} && exec {shlex.join(bare.creating())}"
    mounts = f"mount --bind / {root} && mount --bind /proc {root}/proc && mount --bind /tmp {root}/tmp"
    with bare.server(before=("unshare", "--mount", "--propagation", "private")) as server:
        enter = ["nsenter", "--target", str(server.pid), "--mount", "sh", "-c"]
        chroot = f"{mounts} && exec chroot {root} sh -c {shlex.quote(inside)}"
        assert bare.run(*enter, chroot) == LEFT
        assert bare.config.read_bytes() == raw
        assert bare.run(*enter, inside).status == 0


@pytest.mark.parametrize("message", [b"", b"-", b"x" * 70000, b"b\0create", b"-\0create\0--bundle\0/\0c1"])
def test_hostile_peers(bare: Served, message: bytes) -> None:
    """A peer that is no launcher gets no answer, whatever it says; the next start is served."""
    with bare.server():
        for _ in range(10):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
                peer.settimeout(10)
                peer.connect(str(bare.socket))
                with contextlib.suppress(ConnectionError):
                    peer.send(message)
                    assert peer.recv(100) == b""
        assert bare.create().status == 0


def test_a_second_server(bare: Served) -> None:
    """One that is started by hand leaves the place of one that runs, and says so; root alone connects."""
    with bare.server():
        assert bare.socket.stat().st_mode & 0o777 == 0o600
        second = bare.run(*bare.serving())
        assert second.status == 1
        assert second.errors.startswith(f"cgpu-container-runtime-server: {bare.socket}: a server listens")
        assert bare.create().status == 0


def test_a_launcher_that_is_killed(bare: Served) -> None:
    """A start that has ended before its bundle was written has none written."""
    raw = bare.bundle(SLICED)
    wait = f"touch {bare.base}/asked; while [ ! -e {bare.base}/go ]; do sleep 0.01; done; echo {{}}"
    bare.runtime(f"if [ $1 = features ]; then {wait}; fi")
    with bare.server() as server:
        starting = subprocess.Popen(bare.creating(), cwd=bare.base)
        eventually((bare.base / "asked").exists, "the server asks the runtime for its features")
        starting.kill()
        starting.wait(timeout=240)
        (bare.base / "go").touch()
        for worker in workers(server.pid):
            assert_lets_go(worker)
        assert bare.config.read_bytes() == raw
        assert bare.create().status == 0
        assert bare.edited()["hooks"]["prestart"]


@pytest.mark.parametrize(
    "other", ["cp config.json other; mv other config.json", "mv config.json o; ln -s o config.json"]
)
def test_another_file_meanwhile(bare: Served, other: str) -> None:
    """A config.json that is not the one that was read is left to Python."""
    raw = bare.bundle(SLICED)
    bare.runtime(f"if [ $1 = features ]; then cd {bare.place}; {other}; echo {{}}; fi")
    with bare.server():
        assert bare.create() == LEFT
    assert bare.config.read_bytes() == raw
    assert bare.config.is_symlink() == ("ln" in other)


def test_a_limit_of_file_sizes(node: Served) -> None:
    """A caller that may write no file of that size is told so, and has the bundle as it was."""
    raw = node.config.read_bytes()
    node.create()  # what is kept of the runtime's features is there now
    node.bundle(SLICED)
    said = f"opencgpu: {node.place}/config.json: cannot be replaced (File too large)\n"

    def limited() -> Result:
        result = node.run("prlimit", "--fsize=64", *node.creating())
        assert node.config.read_bytes() == raw
        assert [path.name for path in node.place.iterdir()] == ["config.json"]
        return result

    assert limited() == Result(1, said)
    with node.server():
        assert limited() == Result(1, said)


@pytest.mark.root
def test_needs_the_rights_of_its_unit(bare: Served) -> None:
    """The unit's capabilities are enough, also for a bundle of another user."""
    unit = (ROOT / "kmod/units/cgpu-container-runtime.service").read_text()
    kept = next(line for line in unit.splitlines() if line.startswith("CapabilityBoundingSet="))
    words = [f"+{word.removeprefix('CAP_').lower()}" for word in kept.partition("=")[2].split()]
    for path in (bare.place, bare.config):
        os.chown(path, 12, 34)
        path.chmod(path.stat().st_mode & 0o700)
    with bare.server(before=("setpriv", "--bounding-set", ",".join(("-all", *words)))):
        assert bare.create().status == 0
    assert bare.edited()["hooks"]["prestart"]


def test_a_socket_of_systemd(bare: Served) -> None:
    """The socket that systemd gives is served; a runtime that says its features gets no descriptor."""
    bare.runtime(f"if [ $1 = features ]; then ls -l /proc/$$/fd >{bare.base}/held; echo {{}}; fi")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as given:
        given.bind(str(bare.socket))
        given.listen()
        with bare.server(given.fileno()):
            assert bare.create().status == 0
    left = (bare.base / "held").read_text()
    assert "socket:" not in left
    assert f"{bare.base}\n" not in left
