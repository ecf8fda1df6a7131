# SPDX-License-Identifier: Apache-2.0
"""The daemon's small parts: callers, mounts, cards, descriptions, control line, lock, settings, unit."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import paths
from cgpu.config.effective import Effective
from cgpu.config.load import schema
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import cdi, control, engine, simulate
from cgpu.kmod.daemon.arguments import settings_of, worker_arguments
from cgpu.kmod.daemon.engine import DeviceNode, Gpu
from cgpu.kmod.daemon.library import CSettings
from cgpu.kmod.daemon.main import arguments_of, parser
from cgpu.kmod.daemon.places import Places
from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.lock import HeldError, Lock
from cgpu.kmod.daemon.processes.process_identity import NOBODY, ProcessIdentity, is_unkillable
from cgpu.kmod.daemon.tree import callers, mounts
from cgpu.replace import replace_text
from tests.core.build import flags, generated, run, tool
from tests.integration.commands import eventually

UNIT = Path(__file__).resolve().parents[2] / "kmod" / "units" / "cgpud.service"
UNIT_OPTIONS = dict(re.findall(r"^([A-Za-z]+)=(.*)$", UNIT.read_text(), re.MULTILINE))


@contextlib.contextmanager
def running_cat(*command: str) -> Iterator[int]:
    """Have cat run by another program, which becomes it; give its number once it runs."""
    with subprocess.Popen([*command, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout.read(1) == b"x"
        yield child.pid
        child.stdin.close()


@pytest.mark.root
@pytest.mark.parametrize("dropped", ["-sys_admin", "-all", "+all", "-checkpoint_restore,-sys_ptrace"])
def test_capabilities(dropped: str) -> None:
    """They are those that the kernel shows of the thread, and sys_admin alone decides."""
    # On exec root has as effective what is in its bounding set.
    with running_cat("setpriv", f"--bounding-set={dropped}") as pid:
        status = Path(f"/proc/{pid}/status").read_text()
        shown = int(re.findall(r"^CapEff:\t([0-9a-f]{16})$", status, re.MULTILINE)[0], 16)
        assert callers.effective_capabilities(pid) == shown
        assert callers.may_write(pid) is bool(shown >> callers.CAP_SYS_ADMIN & 1)
        assert callers.may_write(pid) is (dropped not in ("-sys_admin", "-all"))


@pytest.mark.root
def test_capabilities_in_another_user_namespace() -> None:
    """All capabilities of a namespace of its own are none here."""
    with running_cat("unshare", "--user", "--map-root-user") as pid:
        assert callers.effective_capabilities(pid) >> callers.CAP_SYS_ADMIN & 1
        assert not callers.may_write(pid)


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


@pytest.mark.parametrize("cards", ["T4", "V100:2", "A10=1024", "H200=143771:32", "A100-80GB:2/mig=1"])
def test_cards(cards: str) -> None:
    """The forms of the command line; capitals or not is the same."""
    assert simulate.check_cards(cards) == cards
    assert simulate.check_cards(cards.lower()) == cards


@pytest.mark.parametrize(
    "cards", ["", "T4:0", "T4:33", "T4=0", "T4=-1", "T4:2=3", "T4 ", "T4\n", "4T", "T4=1:", "T4/MIG=0"]
)
def test_bad_cards(cards: str) -> None:
    """Anything else is refused with what is expected."""
    with pytest.raises(CgpuError, match="expected MODEL"):
        simulate.check_cards(cards)


@pytest.mark.parametrize(
    ("model", "near"),
    [("T5", "did you mean T4? "), ("a100-40gb", "did you mean A100 or A100-80GB? "), ("K80", "")],
)
def test_unknown_models(model: str, near: str) -> None:
    """An unknown model is refused by its name, with the known one that is like it."""
    with pytest.raises(CgpuError) as refused:
        simulate.check_cards(f"{model}:2")
    assert str(refused.value) == f"--simulate {model}: there is no such model; {near}all models: cgpud --help"


@pytest.mark.parametrize(
    ("program", "reason"),
    [("/bin/false", "exit status 1"), ("/etc/passwd", "Permission"), ("/none", "build it")],
)
def test_models_that_cannot_be_listed(monkeypatch: pytest.MonkeyPatch, program: str, reason: str) -> None:
    """A cgpu-sim that does not run is one line, as any fault of a start."""
    simulate.models.cache_clear()
    monkeypatch.setattr(simulate, "PROGRAM", Path(program))
    with pytest.raises(CgpuError, match=reason):
        simulate.check_cards("T4")


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
    own = Places()
    ours = (own.effective, own.control, own.seccomp, own.keeper, own.cdi, own.cdi_devices, own.sim)
    shared = (paths.EFFECTIVE, paths.CONTROL_SOCKET, paths.SECCOMP_SOCKET, paths.KEEPER_SOCKET)
    assert tuple(map(str, ours)) == (*shared, paths.CDI, paths.CDI_DEVICES, paths.SIM)


def test_unit_gives_no_mount_namespace() -> None:
    """The unit has readiness, the descriptor store, and nothing that would hide the tree from the host."""
    assert UNIT_OPTIONS["Type"] == "notify"
    assert int(UNIT_OPTIONS["FileDescriptorStoreMax"]) == 4096
    assert UNIT_OPTIONS["FileDescriptorStorePreserve"] == "yes"
    assert UNIT_OPTIONS["Restart"] == "always"
    hiding = re.compile(
        "Private|Protect|ReadOnly|ReadWrite|Inaccessible|TemporaryFile|BindPaths|MountFlags|Root|Dynamic"
    )
    assert [name for name in UNIT_OPTIONS if hiding.match(name)] == []


def test_unit_gives_no_seccomp_filter() -> None:
    """Nothing in the unit gives the daemon a filter: with one the kernel shows it none of containers."""
    filtering = re.compile("SystemCall|Restrict(?!ed)|LockPersonality|MemoryDeny|NoNewPrivileges")
    assert [name for name in UNIT_OPTIONS if filtering.match(name) and name != "RestartSec"] == []


def test_unit_gives_up_on_what_cannot_start() -> None:
    """A daemon that cannot start is not started for ever."""
    assert int(UNIT_OPTIONS["StartLimitIntervalSec"]) > 0
    assert int(UNIT_OPTIONS["StartLimitBurst"]) > 0


def test_one_question_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """--stop and --status exclude each other."""
    with pytest.raises(SystemExit):
        parser().parse_args(["--stop", "--status"])
    assert "not allowed with argument" in capsys.readouterr().err


PROGRAM = """
#include <stdio.h>
#include <stddef.h>
#include "cgpu_core.h"
typedef struct cgpu_settings S;
int main(void)
{
%s
	printf("%%zu\\n", sizeof(S));
	return 0;
}
"""
SLICE = """
#include <stdio.h>
#include "sched/scheduler.h"
int main(void)
{
	printf("%llu %llu %llu", CGPU_SCHED_SLICE_MIN, CGPU_SCHED_SLICE_MAX, CGPU_SCHED_SLICE_DEFAULT);
	return 0;
}
"""
OFFSET = '\tprintf("%%zu %%zu\\n", offsetof(S, %s), sizeof(((S *)0)->%s));'
NAMES = [str(field[0]) for field in CSettings._fields_]


def test_the_struct_is_that_of_the_header(tmp_path: Path) -> None:
    """Each field of the mirror lies where the compiler has it, and both are of one size."""
    source, program = tmp_path / "settings.c", tmp_path / "settings"
    source.write_text(PROGRAM % "\n".join(OFFSET % (name, name) for name in NAMES))
    run([tool("cc"), *flags(generated(tmp_path / "gen")), str(source), "-o", str(program)])
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    *fields, size = printed.splitlines()
    mirrored = [getattr(CSettings, name) for name in NAMES]
    assert fields == [f"{field.offset} {field.size}" for field in mirrored]
    assert int(size) == CSettings.drift_refuse.offset + 8


def test_every_key_of_the_core_is_passed_on() -> None:
    """A configuration without defaults has each of its values in the struct; slice_us becomes nanoseconds."""
    config = Effective(
        policy=3,
        max_inst=7,
        prio_ratio=60,
        slice_us=500,
        default_memsize=1,
        context_memory=2,
        drift_tolerance=3,
        drift_reaction="refuse",
        enforce=False,
        allow_zero_weight=True,
    )
    passed = engine._settings(settings_of(config))
    assert passed.slice == 500_000
    numbers = [getattr(passed, name) for name in ("policy", "max_inst", "prio_ratio")]
    assert numbers == [3, 7, 60]
    assert [passed.default_memsize, passed.context_memory, passed.drift_tolerance] == [1, 2, 3]
    assert [passed.drift_refuse, passed.enforce, passed.allow_zero_weight] == [1, 0, 1]


def test_the_default_slice_is_the_schedulers(tmp_path: Path) -> None:
    """Default and bounds of the key are those of the core."""
    source, program, rule = tmp_path / "slice.c", tmp_path / "slice", schema()["properties"]["slice_us"]
    source.write_text(SLICE)
    run([tool("cc"), *flags(generated(tmp_path / "gen")), str(source), "-o", str(program)])
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    expected = [rule[bound] * 1000 for bound in ("minimum", "maximum", "default")]
    assert [int(number) for number in printed.split()] == expected
    assert engine.Settings("1").slice == settings_of(Effective()).slice


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"12 345\n", ProcessIdentity(12, 345)),
        (b"12\n", ProcessIdentity(12, 0)),
        (b"", NOBODY),
        (b"12 345 6", NOBODY),
        (b"-1 345", NOBODY),
        (b"12 x", NOBODY),
        ("\N{ARABIC-INDIC DIGIT ONE}".encode(), NOBODY),
    ],
)
def test_forms(text: bytes, expected: ProcessIdentity) -> None:
    """Number and start are read, and the number alone as earlier versions wrote it; nothing else."""
    assert process_identity.parse(text) == expected


def test_own_comes_through() -> None:
    """What a process writes of itself names it, and nobody who started at another time."""
    own = process_identity.own()
    assert process_identity.parse(own.text().encode()) == own
    assert own.is_meant()
    assert not ProcessIdentity(own.pid, own.started + 1).is_meant()
    assert not NOBODY.is_meant()


def test_start_time() -> None:
    """A process has a start time as long as it lives; a zombie's does not count as living."""
    assert process_identity.start_time(os.getpid()) > 0
    assert process_identity.start_time(1 << 30) == 0
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert process_identity.start_time(ended.pid) > 0
    assert process_identity.living_start_time(ended.pid) == 0
    ended.wait()


def test_signals_reach_only_the_one_that_is_meant() -> None:
    """A process that started at another time, or whose start is not known, gets no signal."""
    sleeper = subprocess.Popen(["sleep", "1000"])
    there = process_identity.of(sleeper.pid)
    assert not ProcessIdentity(there.pid, there.started + 1).signal(signal.SIGKILL)
    assert not ProcessIdentity(there.pid, 0).signal(signal.SIGKILL)
    assert sleeper.poll() is None
    assert there.signal(signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM
    assert not there.signal(signal.SIGTERM)


def test_the_daemon_has_two_files(tmp_path: Path) -> None:
    """The second file counts only beside its own number: a former version leaves it as it was."""
    pid, started = tmp_path / "pid", tmp_path / "started"
    process_identity.write_daemon(pid, started)
    assert pid.read_text() == f"{os.getpid()}\n"
    assert process_identity.read_daemon(pid, started) == process_identity.own()
    pid.write_text("77\n")
    assert process_identity.read_daemon(pid, started) == ProcessIdentity(77, 0)
    started.unlink()
    assert process_identity.read_daemon(pid, started) == ProcessIdentity(77, 0)


def test_living_processes_can_end() -> None:
    """A process that lives is no unkillable one."""
    assert not is_unkillable(process_identity.own())
