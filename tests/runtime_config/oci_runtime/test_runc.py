# SPDX-License-Identifier: Apache-2.0
"""The launcher, the wrapper and a real runc together, without an engine."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shlex
import shutil
import socket
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.runtime_config.oci_runtime.seccomp import supervise
from tests.runtime_config.oci_runtime.wrapper import Wrapper
from tests.runtime_config.support import ASKING, JsonObject, Launcher, program

RUNC = shutil.which("runc") or ""
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not RUNC, reason="runc is not installed: apt install runc"),
]

PROGRAM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static const unsigned long numbers[] = { NUMBERS };
int main(void)
{
	int pair[2];
	pipe(pair);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		syscall(SYS_ioctl, pair[0], numbers[i], 0);
	int file = open("/program", O_RDONLY);
	void *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	void *nameless = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *private = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	puts(shared != MAP_FAILED && nameless != MAP_FAILED && private != MAP_FAILED ? "done" : "failed");
	return 0;
}
"""
NOTIFIED = (0xC020462A, 0x0020002A, 0x30000001, 0x00000001, 0x80045430)
PASSED = (0x5401, 0x8912, 0x541B, 0x462A)
# linux/seccomp.h
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1


def make_bundle(base: Path, numbers: tuple[int, ...], bits: int = 64) -> tuple[Path, JsonObject]:
    """Make a bundle whose program does these ioctls."""
    rootfs = base / "bundle" / "rootfs"
    for name in ("dev", "proc", "sys"):
        (rootfs / name).mkdir(parents=True)
    source = base / "program.c"
    source.write_text(PROGRAM.replace("NUMBERS", ", ".join(f"{number}UL" for number in numbers)))
    command = ["cc", "-static", "-w", f"-m{bits}", "-o", str(rootfs / "program"), str(source)]
    subprocess.run(command, check=True)
    subprocess.run([RUNC, "spec"], cwd=base / "bundle", check=True)
    spec = json.loads((base / "bundle" / "config.json").read_text())
    spec["process"].update(terminal=False, args=["/program"])
    # What the tests' own machine gives depends on where it runs itself.
    spec["linux"]["cgroupsPath"] = f"cgpu-test-{os.getpid()}-{base.name}"
    return base / "bundle", spec


@dataclass
class Listener:
    """An engine that lets every call go on and notes which it saw."""

    path: Path
    seen: list[tuple[int, int, int]] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)

    def serve(self) -> threading.Thread:
        """Take one listener and answer its calls until the container is gone."""
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(self.path))
        server.listen(1)
        server.settimeout(60)
        thread = threading.Thread(target=self._run, args=(server,), daemon=True)
        thread.start()
        return thread

    def _run(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        state, fds, _, _ = socket.recv_fds(connection, 1 << 16, 4)
        connection.close()
        server.close()
        self.metadata.append(json.loads(state)["metadata"])
        try:
            while True:
                self._answer(fds[0])
        except OSError:
            os.close(fds[0])

    def _answer(self, fd: int) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        ((_, event),) = poll.poll(60000)
        if event & select.POLLHUP:
            raise OSError
        request = bytearray(80)
        fcntl.ioctl(fd, RECEIVE, request)
        identity, _, _, call, arch = struct.unpack_from("=QIIiI", request)
        arguments = struct.unpack_from("=6Q", request, 32)
        self.seen.append((arch, call, arguments[3] if call in (9, 192) else arguments[1]))
        fcntl.ioctl(fd, SEND, struct.pack("=QqiI", identity, 0, 0, CONTINUE))


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listener:
    """Return an engine at a path of its own."""
    path = tmp_path / "seccomp.sock"
    monkeypatch.setattr("cgpu.paths.SECCOMP_SOCKET", str(path))
    return Listener(path)


PROFILES = {
    "unconfined": None,
    "denylist": {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["ptrace"], "action": "SCMP_ACT_ERRNO"}],
    },
    "allowlist": "shipped",
}


def shipped() -> JsonObject:
    """Return podman's default profile as it reaches a runtime for an ordinary container."""
    path = Path("/usr/share/containers/seccomp.json")
    if not path.exists():
        pytest.skip("podman's default profile is not installed: apt install golang-github-containers-common")
    profile = json.loads(path.read_text())
    rules = [
        rule
        for rule in profile["syscalls"]
        if not rule.get("excludes")
        and set(rule.get("includes", {}).get("arches", ["amd64"])) & {"amd64", "x86"}
        if not rule.get("includes", {}).get("caps")
    ]
    plain = [{key: rule[key] for key in ("names", "action", "args") if rule.get(key)} for rule in rules]
    architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    return {"defaultAction": "SCMP_ACT_ERRNO", "architectures": architectures, "syscalls": plain}


def run_to_its_end(program: str | Path, place: Path, container: str) -> None:
    """Run a bundle by a runtime; it has to say that it is done, and nothing else."""
    command = [program, "--root", place.parent / "root", "run", "--bundle", place, container]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def supervised_run(place: Path, spec: JsonObject, listener: Listener) -> None:
    """Run a bundle with the listener's filter."""
    supervise(spec["linux"], "the-container", (), shared=True)
    (place / "config.json").write_text(json.dumps(spec))
    thread = listener.serve()
    run_to_its_end(RUNC, place, f"cgpu-{place.parent.name}-{os.getpid()}")
    thread.join(60)


@pytest.mark.parametrize("name", list(PROFILES))
def test_the_kernel_notifies_what_it_should(tmp_path: Path, listener: Listener, name: str) -> None:
    """Under a real runc, driver calls in any disguise and shared file mappings are notified, no others."""
    place, spec = make_bundle(tmp_path, NOTIFIED + PASSED)
    profile = PROFILES[name]
    spec["linux"]["seccomp"] = shipped() if profile == "shipped" else profile
    supervised_run(place, spec, listener)
    assert listener.metadata == ["the-container"]
    ioctls = [argument for _, call, argument in listener.seen if call == 16]
    assert [number for number in ioctls if number in (*NOTIFIED, *PASSED)][-len(NOTIFIED) :] == list(NOTIFIED)
    assert not set(ioctls) & set(PASSED)
    mappings = [argument for _, call, argument in listener.seen if call == 9]
    assert mappings
    assert all(flags & 0x21 == 1 for flags in mappings)


def test_a_32_bit_process_is_notified_too(tmp_path: Path, listener: Listener) -> None:
    """The calls of a 32-bit program run under the same rules."""
    place, spec = make_bundle(tmp_path, NOTIFIED, bits=32)
    supervised_run(place, spec, listener)
    i386 = [(call, argument) for arch, call, argument in listener.seen if arch == 0x40000003]
    assert [argument for call, argument in i386 if call == 54 and argument in NOTIFIED] == list(NOTIFIED)
    assert [argument & 0x21 for call, argument in i386 if call == 192] == [1]


@pytest.mark.parametrize("variables", [(), ("NVIDIA_VISIBLE_DEVICES=all",)])
def test_a_container_that_asks_for_nothing_runs(tmp_path: Path, variables: tuple[str, ...]) -> None:
    """Through the launcher, with and without Python, an ordinary container runs with its own spec."""
    wrapper = Wrapper(tmp_path / "node").build().settings(low_level_runtime=RUNC)
    python = program(tmp_path / "python", f'shift 2\nexec {shlex.join(wrapper.command())} "$@"')
    launcher = Launcher(tmp_path / "launcher").build(python=str(python))
    launcher.config.write_text(json.dumps({"low_level_runtime": RUNC}))
    place, spec = make_bundle(tmp_path, ())
    spec["process"]["env"] += variables
    raw = json.dumps(spec)
    (place / "config.json").write_text(raw)
    run_to_its_end(launcher.program, place, f"cgpu-plain-{os.getpid()}")
    assert (place / "config.json").read_text() == raw
    list_all: list[str | Path] = [launcher.program, "--root", tmp_path / "root", "list", "-q"]
    assert subprocess.run(list_all, capture_output=True, text=True, check=True).stdout == ""


def test_a_slice_without_an_engine_is_refused(tmp_path: Path) -> None:
    """Through the wrapper a request without an engine ends in one line, and runc never sees the container."""
    wrapper = Wrapper(tmp_path / "node").build()
    shutil.rmtree(wrapper.tree)
    wrapper.settings(low_level_runtime=RUNC)
    place, spec = make_bundle(tmp_path, ())
    spec["process"]["env"] += ASKING
    (place / "config.json").write_text(json.dumps(spec))
    result = wrapper.call("--root", str(tmp_path / "root"), "run", "--bundle", str(place), "c1")
    assert (result.status, result.errors.count("\n")) == (1, 1)
    assert f"cannot start; start it: {paths.daemon_command('start')}" in result.errors
    assert not (tmp_path / "root").exists()
