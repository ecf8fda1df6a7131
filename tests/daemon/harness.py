# SPDX-License-Identifier: Apache-2.0
"""A daemon of one's own with simulated cards, and programs in its slices, without any runtime."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from cgpu import process_identity
from tests.attacks.build import client
from tests.integration.commands import ENFORCE, PATIENCE, eventually
from tests.vm.harness import cross

SILENCE_S = 120.0
PROC = Path("/proc")
OURS = ("cgpud", "cgpu-sim", "kmod.daemon")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").replace("\0", " ").strip()
    except OSError as error:
        return f"({error.strerror})"


def _threads(process: Path) -> Iterator[str]:
    for thread in sorted(process.glob("task/*"), key=lambda one: int(one.name)):
        name, call, stack = (_text(thread / node) for node in ("comm", "syscall", "stack"))
        yield f"  {thread.name} {name}: system call {call}\n    {stack.replace(chr(10), chr(10) + '    ')}"


def waiting(pid: int) -> str:
    """Return where each thread of a process waits, and each of an engine or a simulated card."""
    lines = []
    for process in PROC.iterdir():
        if not process.name.isdecimal():
            continue
        line = _text(process / "cmdline")
        if int(process.name) == pid or any(name in line for name in OURS):
            lines += [f"{process.name}: {line}", *_threads(process)]
    return "\n".join(lines)


@contextmanager
def no_silence(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a program from which nothing comes for long; pytest shows then who waited for what."""

    def end() -> None:
        print(waiting(process.pid), file=sys.stderr)
        process.kill()

    timer = threading.Timer(SILENCE_S, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def next_line(process: subprocess.Popen[str], start: str, printed: list[str]) -> str:
    """Wait for the next line that begins so, and keep all that came until then."""
    assert process.stdout is not None
    with no_silence(process):
        for line in process.stdout:
            printed.append(line)
            if line.startswith(start):
                return line
    raise AssertionError(f"the program ended before it printed {start!r}: {''.join(printed)}")


ROOT = Path(__file__).resolve().parents[2]
BUILD = cross.BUILD
PROBE = BUILD / "cgpu-probe"
PROGRAMS = Path(__file__).with_name("programs")
SLICED = Path(__file__).with_name("sliced.py")
MIB = 1 << 20
PAGE = 64 << 10
# Files of a stopped daemon: settings, whose prohibitions stay in force, and links for calls of the wrapper.
LEFT = ["cgpud.log", "command", "config.json", "events.log", "low-level-runtime", "low-level-runtime.plain"]
D = TypeVar("D", bound="Daemon")


@contextmanager
def short_path() -> Iterator[Path]:
    """Have a folder with a short path: names of sockets have at most 107 characters."""
    path = Path(tempfile.mkdtemp(prefix="cgpud-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def serving(kind: Callable[..., D], *arguments: str) -> Iterator[D]:
    """Have one daemon for several tests; arguments: behind its folder."""
    with short_path() as base:
        running = kind(base, *arguments)
        yield running
        running.close()


def long_id(seed: int) -> str:
    return f"{seed:012x}" + "5" * 52


def built(name: str) -> Path:
    """Return one of the C programs of these tests, a client of the driver."""
    return client(name, PROGRAMS)


def piped(command: list[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, that is written to and read from."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=env, process_group=0
    )


def serve_cards(run: Path, cards: str, driver: str, *options: str) -> subprocess.Popen[bytes]:
    """Have simulated cards where a daemon with this folder looks for those of an earlier one."""
    mount = run / "sim"
    run.mkdir(exist_ok=True)
    line = [str(BUILD / "cgpu-sim"), "--mount", str(mount), "--cards", cards, "--driver", driver, *options]
    nothing = subprocess.DEVNULL
    server = subprocess.Popen(line, start_new_session=True, stdout=nothing, stderr=nothing)
    record = {"pid": server.pid, "started": process_identity.start_time(server.pid), "cards": cards}
    eventually((mount / "driver" / "version").exists, "the cards are served")
    (run / "sim.json").write_text(json.dumps(record))
    return server


class Sliced:
    """A program in a slice."""

    def __init__(self, process: subprocess.Popen[str], container_id: str) -> None:
        self.process = process
        self.id = container_id

    def finish(self, text: str = "") -> str:
        """Wait for its end and return what it printed; its exit status is in self.process."""
        out, _ = self.process.communicate(text, timeout=PATIENCE)
        return out

    def succeeds(self, text: str = "") -> str:
        """Return the same of a program that has to end with status 0."""
        out = self.finish(text)
        assert self.process.returncode == 0, out
        return out

    def go_on(self) -> None:
        """Give it a line of input, for which it waits."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def line(self, start: str) -> str:
        """Return the next line that begins so."""
        return next_line(self.process, start, [])


def stop_process(pid: int) -> None:
    """Stop a process, and wait until none of its threads runs.

    A thread that is at work answers until it takes notice; one that waits in the driver (state D)
    stops when it has its answer.
    """
    threads = [path / "stat" for path in Path(f"/proc/{pid}/task").iterdir()]
    os.kill(pid, signal.SIGSTOP)

    def states() -> set[str]:
        return {thread.read_text().rpartition(") ")[2][0] for thread in threads}

    eventually(lambda: states() in ({"T"}, {"T", "D"}), f"all threads of process {pid} stand still")


class Daemon:
    """One daemon in a directory of its own."""

    def __init__(self, base: Path, cards: str = "T4", config: str | None = None) -> None:
        """Start it. Under CGPU_TEST_ENFORCE=off it enforces nothing, unless config says whether."""
        self.run = base / "run"
        self.tree = base / "tree"
        self._options = ["--simulate", cards, "--tree", str(self.tree)]
        if os.environ.get(ENFORCE) == "off" and "enforce:" not in (config or ""):
            config = f"enforce: false\n{config or ''}"
        if config is not None:
            file = base / "config.yaml"
            file.write_text(config)
            self._options += ["--config", str(file)]
        self._slices: list[Sliced] = []
        self.start()

    def command(self, *options: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "cgpu.kmod.daemon.main", "--run", str(self.run), *options]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def options(self) -> list[str]:
        return ["--run", str(self.run), *self._options]

    def start(self) -> None:
        done = self.command(*self._options)
        assert done.returncode == 0, done.stderr + self.log()

    def log(self) -> str:
        file = self.run / "cgpud.log"
        return file.read_text() if file.exists() else ""

    def status(self) -> dict[str, Any]:
        done = self.command("--status")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def lock_holder(self) -> int:
        """Return the process that the lock names: the keeper."""
        return process_identity.parse((self.run / "cgpud.lock").read_bytes()).pid

    def pid(self) -> int:
        return int((self.run / "cgpud.pid").read_text())

    def read(self, node: str) -> str:
        return (self.tree / node).read_text()

    def write(self, node: str, text: str) -> None:
        fd = os.open(self.tree / node, os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def refusal(self, gpus: str) -> int:
        """Return the errno of a registration of this process, which does not stay."""
        try:
            self.write("inst_ctl", f"create id=refused pid={os.getpid()} {gpus}")
        except OSError as error:
            return error.errno or 0
        self.write("inst_ctl", "destroy id=refused")
        return 0

    def used(self, sliced: Sliced, gpu: int = 0) -> int:
        node = f"{gpu}/{sliced.id[:12]}"
        free = int(self.read(f"{node}/meminfo").split("\n", 1)[0].removeprefix("Free: "))
        return int(self.read(f"{node}/memsize")) - free

    def instances(self, gpu: int = 0) -> list[str]:
        return sorted(p.name for p in (self.tree / str(gpu)).iterdir() if p.is_dir())

    def left(self) -> str:
        """Return which containers are there, where the engine's threads wait, and the end of its log."""
        return "\n".join([str(self.instances()), waiting(self.pid()), self.log()[-2000:]])

    def is_registered(self, container_id: str) -> bool:
        return any((gpu / container_id[:12]).exists() for gpu in self.tree.iterdir() if gpu.is_dir())

    def crash(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Kill it, and wait until the next one serves; meanwhile: an action before that one is there."""
        old = self.pid()
        os.kill(old, signal.SIGKILL)
        meanwhile()
        eventually(lambda: self.is_another(old), "the keeper did not start it again")

    @contextmanager
    def stopped_driver(self) -> Iterator[Callable[[], None]]:
        """Stop the simulated card, whose calls then have no answer. Yields what lets it go on earlier."""
        pid = int(json.loads((self.run / "sim.json").read_text())["pid"])
        try:
            stop_process(pid)
            yield lambda: os.kill(pid, signal.SIGCONT)
        finally:
            os.kill(pid, signal.SIGCONT)

    def is_another(self, old: int) -> bool:
        """Say whether another process serves. A daemon serves its tree before it writes its number."""
        with suppress(OSError, ValueError):
            return self.pid() != old and self.read("version") != ""
        return False

    def slice(
        self, seed: int, gpus: str, *words: str, register: bool = True, program: Path = PROBE, until: str = ""
    ) -> Sliced:
        """Start the probe in a slice, and wait until it has printed a line that begins with `until`.

        gpus: the part of the registration that names GPUs and limits.
        """
        container_id = long_id(seed)
        if register:
            # One that has just ended is reclaimed soon, not at once.
            eventually(lambda: not self.is_registered(container_id), "the container before it stayed")
        command = [str(program), "--dev", str(self.run / "sim"), *words]
        sliced = self._launch(container_id, command, gpus if register else None)
        if until:
            sliced.line(until)
        return sliced

    def _launch(self, container_id: str, command: list[str], gpus: str | None) -> Sliced:
        """Start a command under a listener, in a process group of its own; gpus: register it first."""
        line = ["/usr/bin/python3", "-I", str(SLICED), str(self.run / "seccomp.sock"), container_id, *command]
        names = ("PATH", "SLICED_ALSO", "SLICED_LISTENS")
        passed = {name: os.environ[name] for name in names if name in os.environ}
        process = piped(line, {"SLICED_WAIT": "1", **passed})
        sliced = Sliced(process, container_id)
        self._slices.append(sliced)
        self.place(sliced)
        if gpus is not None:
            self.write("inst_ctl", f"create id={container_id} pid={process.pid} {gpus}\n")
        sliced.go_on()
        return sliced

    def place(self, sliced: Sliced) -> None:
        """Do what a runtime does with a container's first process before it is registered."""

    def join(self, other: Sliced, *command: str) -> Sliced:
        return self._launch(other.id, list(command), None)

    def enter(self, other: Sliced, *words: str, until: str = "") -> Sliced:
        return self.slice(int(other.id[:12], 16), "", *words, register=False, until=until)

    def outside(self, *words: str) -> list[str]:
        return [str(PROBE), "--dev", str(self.run / "sim"), *words]

    def given(self) -> int:
        """Return what the first card has given to all, as one hears it outside of slices."""
        printed = subprocess.run(self.outside("info"), capture_output=True, text=True, check=True).stdout
        return int(printed.split(" used=")[1].split()[0])

    def end_slices(self) -> None:
        """Kill all programs in slices, and wait until nothing of them is left."""
        self._kill_slices()
        eventually(lambda: self.instances() == [], "the containers have gone", instead=self.left)

    def _kill_slices(self) -> None:
        """Kill programs with what they have started, which may keep their output open."""
        for sliced in self._slices:
            if sliced.process.poll() is None:
                os.killpg(sliced.process.pid, signal.SIGKILL)
            sliced.process.communicate()
        self._slices.clear()

    def close(self) -> None:
        self._kill_slices()
        self.command("--stop", "--force")
