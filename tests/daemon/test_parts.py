# SPDX-License-Identifier: Apache-2.0
"""The daemon's small parts: callers, mounts, cards, the container description, the control line, the lock."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import cdi, control, simulate
from cgpu.kmod.daemon.arguments import worker_arguments
from cgpu.kmod.daemon.engine import DeviceNode, Gpu
from cgpu.kmod.daemon.main import arguments_of, parser
from cgpu.kmod.daemon.places import Places
from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.lock import HeldError, Lock
from cgpu.kmod.daemon.processes.process_identity import is_unkillable
from cgpu.kmod.daemon.tree import callers, mounts
from cgpu.replace import replace_text
from tests.integration.commands import eventually

UNIT = Path(__file__).resolve().parents[2] / "kmod" / "units" / "cgpud.service"


@pytest.mark.parametrize(
    ("status", "has"),
    [
        (b"Name:\tx\nCapEff:\t000001ffffffffff\n", True),
        (b"Name:\tx\nCapEff:\t0000000000200000\n", True),
        (b"Name:\tx\nCapEff:\t0000000000000000\n", False),
        (b"Name:\tx\nCapPrm:\t000001ffffffffff\n", False),
        (b"Name:\tCapEff:\\n000001ffffffffff\n", False),
        (b"", False),
    ],
)
def test_capability(status: bytes, *, has: bool) -> None:
    """The effective set alone decides."""
    assert callers.has_capability(status, callers.CAP_SYS_ADMIN) is has


@pytest.mark.parametrize("pid", [0, -1, 1 << 30])
def test_unknown_caller_may_not_write(pid: int) -> None:
    """A caller that cannot be looked at may not write."""
    assert not callers.may_write(pid)


def test_mounts_are_read_from_their_list(tmp_path: Path) -> None:
    """Mounts on a path are found by name, escapes and layers included."""
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 2 0:3 / /run/a\\040b rw - tmpfs none rw\n"
        "2 2 0:4 / /run/a\\040b rw shared:1 - fuse cgpud rw\n"
        "3 2 0:5 / /run/a rw - fuse.other x rw\nnonsense\n"
    )
    assert mounts.mounted("/run/a b", table) == ["tmpfs", "fuse"]
    assert mounts.mounted("/run", table) == []


@given(st.text(max_size=30))
def test_unescape_any(field: str) -> None:
    """Any field can be read, and one without escapes is itself."""
    assert mounts.unescape(field.replace("\\", "")) == field.replace("\\", "")
    mounts.unescape(field)


@pytest.mark.parametrize("cards", ["T4", "V100:2", "A10=1024", "H200=143771:32"])
def test_cards(cards: str) -> None:
    """The forms of the command line."""
    assert simulate.check_cards(cards) == cards


@pytest.mark.parametrize(
    "cards", ["", "t4", "T4:0", "T4:33", "T4=0", "T4=-1", "T4:2=3", "T4 ", "T4\n", "K80", "T4=1:"]
)
def test_bad_cards(cards: str) -> None:
    """Anything else is refused with what is expected."""
    with pytest.raises(CgpuError, match="expected MODEL"):
        simulate.check_cards(cards)


GPUS = (Gpu(0, 3, 1 << 34, "GPU-1", "Tesla T4"), Gpu(1, 5, 1 << 34, "", "Tesla T4"))


def test_description_of_files() -> None:
    """Cards that are files are mounted where programs look for them, under index and UUID."""
    nodes = [DeviceNode(f"/run/cgpu/sim/{name}", False, 0, 0) for name in ("nvidiactl", "nvidia3", "nvidia5")]
    document = cdi.specification(GPUS, nodes)
    assert [device["name"] for device in document["devices"]] == ["0", "GPU-1", "1"]
    mount = document["devices"][2]["containerEdits"]["mounts"][0]
    assert mount["hostPath"] == "/run/cgpu/sim/nvidia5"
    assert mount["containerPath"] == "/dev/nvidia5"
    assert document["containerEdits"]["mounts"][0]["containerPath"] == "/dev/nvidiactl"
    assert document["annotations"] == {"opencgpu.io/vendor-toolkit": "false"}


def test_description_of_devices() -> None:
    """Cards that are devices become device nodes; what all need is common; modeset is left out."""
    names = ("nvidiactl", "nvidia3", "nvidia5", "nvidia-uvm", "nvidia-modeset")
    nodes = [DeviceNode(f"/dev/{name}", True, 195, number) for number, name in enumerate(names)]
    document = cdi.specification(GPUS, nodes)
    common = [node["path"] for node in document["containerEdits"]["deviceNodes"]]
    assert common == ["/dev/nvidiactl", "/dev/nvidia-uvm"]
    assert document["devices"][0]["containerEdits"]["deviceNodes"][0]["minor"] == 1
    assert document["annotations"] == {"opencgpu.io/vendor-toolkit": "true"}


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    """A file is put in place for root only, and leaves nothing beside it."""
    replace_text(tmp_path / "cdi.json", "{}")
    replace_text(tmp_path / "cdi.json", "[]")
    assert (tmp_path / "cdi.json").read_text() == "[]"
    assert (tmp_path / "cdi.json").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 1


@given(st.binary(max_size=100))
def test_any_control_line(line: bytes) -> None:
    """Any line is a request with a command, or is refused."""
    try:
        assert isinstance(control.parse(line)["command"], str)
    except CgpuError:
        return


def test_control_socket(base: Path) -> None:
    """One line in, one out; a fault in a command is an answer too."""

    def fail(request: dict[str, object]) -> dict[str, object]:
        raise CgpuError("not now")

    path = str(base / "control.sock")
    assert control.ask(path, {"command": "status"}) is None
    sock = control.ControlSocket(path, {"status": lambda request: {"x": request.get("n")}, "fail": fail})
    sock.sock.setblocking(True)

    def serve() -> None:
        for _ in range(4):
            sock.handle()

    server = threading.Thread(target=serve)
    server.start()
    assert control.ask(path, {"command": "status", "n": 5}) == {"ok": True, "x": 5}
    assert control.ask(path, {"command": "fail"}) == {"ok": False, "error": "not now"}
    assert control.ask(path, {"command": "other"}) == {
        "ok": False,
        "error": "no such command; expected one of status, fail",
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        client.sendall(b"x" * 5000 + b"\n")
        assert json.loads(client.recv(1000))["ok"] is False
    server.join()
    sock.close()
    assert not Path(path).exists()


def test_dripping_client_does_not_hold_the_daemon_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is for the whole line, not for each byte of it."""
    monkeypatch.setattr(control, "WAIT_S", 0.3)
    path = str(base / "control.sock")
    sock = control.ControlSocket(path, {})
    sock.sock.setblocking(True)
    server = threading.Thread(target=sock.handle)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        server.start()
        sent = 0
        while server.is_alive() and sent < 50:
            with contextlib.suppress(OSError):
                client.send(b" ")
            sent += 1
            server.join(0.1)
        assert sent < 50
    server.join()
    sock.close()


def test_lock_names_its_holder(tmp_path: Path) -> None:
    """The second one is told who is first; a lock of a dead process is no lock."""
    lock = Lock(tmp_path / "lock")
    with pytest.raises(HeldError, match=f"already runs as process {os.getpid()} "):
        Lock(tmp_path / "lock")
    lock.release()
    Lock(tmp_path / "lock").release()


# The first thread ends, and another one keeps the process; so does a thread that no signal reaches.
HOLDING = """
import ctypes, os, sys, threading, time
from pathlib import Path
from cgpu.kmod.daemon.processes.lock import Lock
lock = Lock(Path(sys.argv[1]))
threading.Thread(target=time.sleep, args=(60,)).start()
print("locked", flush=True)
sys.stdin.readline()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_lock_of_a_daemon_that_cannot_end(tmp_path: Path) -> None:
    """A killed holder that threads keep from ending is no holder; while its first thread lives it is."""
    path, pipe = tmp_path / "lock", subprocess.PIPE
    command = [sys.executable, "-c", HOLDING, str(path)]
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[2])
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(HeldError, match=f"already runs as process {holder.pid} "):
        Lock(path)
    holder.stdin.write("\n")
    holder.stdin.flush()
    eventually(lambda: is_unkillable(process_identity.of(holder.pid)), "its first thread goes on")
    lock = Lock(path)
    with pytest.raises(HeldError, match=f"already runs as process {os.getpid()} "):
        Lock(path)
    lock.release()
    holder.kill()
    holder.communicate()


def test_arguments_come_through() -> None:
    """What the command was given is what the daemon below the keeper is given."""
    line = ["--run", "/r", "--simulate", "T4:2", "--tree", "/t", "--config", "/c"]
    arguments = arguments_of(parser().parse_args(line))
    again = arguments_of(parser().parse_args(worker_arguments(arguments)))
    assert again == arguments
    assert arguments.places == Places(Path("/r"))


def test_places_are_the_shared_ones() -> None:
    """The daemon's files are where hook and wrapper look for them."""
    places = Places()
    assert str(places.effective) == paths.EFFECTIVE
    assert str(places.control) == paths.CONTROL_SOCKET
    assert str(places.seccomp) == paths.SECCOMP_SOCKET
    assert str(places.keeper) == paths.KEEPER_SOCKET
    assert str(places.cdi) == paths.CDI
    assert str(places.sim) == paths.SIM


def test_unit_gives_no_mount_namespace() -> None:
    """The unit has readiness, the descriptor store, and nothing that would hide the tree from the host."""
    options = dict(re.findall(r"^([A-Za-z]+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert options["Type"] == "notify"
    assert int(options["FileDescriptorStoreMax"]) == 4096
    assert options["FileDescriptorStorePreserve"] == "yes"
    assert options["Restart"] == "always"
    hiding = re.compile(
        "Private|Protect|ReadOnly|ReadWrite|Inaccessible|TemporaryFile|BindPaths|MountFlags|Root|Dynamic"
    )
    assert [name for name in options if hiding.match(name)] == []


def test_unit_gives_no_seccomp_filter() -> None:
    """Nothing in the unit gives the daemon a filter: with one the kernel shows it none of containers."""
    options = dict(re.findall(r"^([A-Za-z]+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    filtering = re.compile("SystemCall|Restrict(?!ed)|LockPersonality|MemoryDeny|NoNewPrivileges")
    assert [name for name in options if filtering.match(name) and name != "RestartSec"] == []


def test_unit_gives_up_on_what_cannot_start() -> None:
    """A daemon that cannot start is not started for ever."""
    options = dict(re.findall(r"^([A-Za-z]+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert int(options["StartLimitIntervalSec"]) > 0
    assert int(options["StartLimitBurst"]) > 0


def test_one_question_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """--stop and --status exclude each other."""
    with pytest.raises(SystemExit):
        parser().parse_args(["--stop", "--status"])
    assert "not allowed with argument" in capsys.readouterr().err
