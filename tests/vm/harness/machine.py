# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with the host's files in it: emulated in software, so that it runs wherever the tests do.

Without a disk the guest sees the host's root read-only below a layer in its own memory, or the root with the
programs of another processor. That view is cached:
`seen(path)` gives the path of a file that the host makes after the boot.
"""

from __future__ import annotations

import itertools
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.vm.harness import channel
from tests.vm.harness.channel import Channel
from tests.vm.harness.emulators import EMULATORS
from tests.vm.harness.firmware import Firmware
from tests.vm.harness.initramfs import FROM_DISK, FROM_HOST, build_initramfs
from tests.vm.harness.kernel_log import FAULT, KernelLog
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.monitor import PANIC_ARGUMENTS, Monitor, what_is_at_work
from tests.vm.harness.process import CommandError, Finished, MachineDiedError, Process
from tests.vm.harness.store import ROOT

LIVE_VIEW = "/run/host"  # guest/init mounts it
BOOT_SECONDS = 120.0
SYNC_SECONDS = 60.0
PANIC_SECONDS = 60.0  # for a kernel to print what all its tasks are at
DEBUG_FACTOR = 5.0  # how much slower a kernel is that checks itself
CPUS = 2  # that there are; the second is off until a test wants it
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
# Counted instructions: idle time passes at once, and timers come when they are due.
COUNTED_ARGUMENTS = ("highres=on", "tsc_early_khz=1000000")
KERNEL_ARGUMENTS = (
    "quiet", "loglevel=5", "panic=-1", "log_buf_len=4M", "printk.devkmsg=on",
    "maxcpus=1", "mitigations=off", "tsc=reliable", "no_timer_check", "random.trust_cpu=on",
    "cryptomgr.notests",
    # Go's programs set timers of microseconds, which are as dear as work: they come with the next tick.
    "highres=off",
    # The emulator keeps what it has translated by virtual address: so each start of a program finds it again.
    "norandmaps",
    # An emulator on a busy host stands still at times.
    "rcupdate.rcu_cpu_stall_timeout=60", "watchdog_thresh=30",
    *PANIC_ARGUMENTS,
)  # fmt: skip


def share(name: str, root: Path) -> list[str]:
    """Return the options that give the guest a view of a root of the host, for reading only."""
    return [
        "-fsdev", f"local,id={name},path={root},security_model=none,readonly=on,multidevs=remap",
        "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}",
    ]  # fmt: skip


def drive(disk: Path) -> list[str]:
    """Return the options that give the guest a disk. Its content is lost when the host goes down."""
    return ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]


class Machine:
    """One guest. Starts when it is made; `wait_ready` ends the start. A context manager that ends it.

    The emulator dies with the thread that makes the Machine: make it in the main thread.
    """

    def __init__(
        self,
        kernel: Kernel,
        directory: Path,
        *,
        cgroup: str = "v2",
        memory: int = 2048,
        arguments: Sequence[str] = (),
        cpus: int = 1,
        at_once: bool = False,
        counted: int = 0,
        disk: Path | None = None,
        firmware: Firmware | None = None,
    ) -> None:
        """Start the emulator. `cgroup`: v2, v1 or hybrid; `arguments` go on the kernel's command line.

        `cpus`: one processor, or two, which wait for each other often: that costs an emulator much. Two run
        in turn. With `at_once` they run at the same time, and code must not change meanwhile: see
        `one_cpu`. QEMU before 8.1 translates code without a lock on its page, and one processor may run on
        in what another has just changed (mended by "accel/tcg: Always lock pages before translation"). The
        kernel's code changes when a probe comes or goes, and with the users of many a part: where it did all
        the time, with both processors busy, a guest stood still in a breakpoint that was there no more.

        With `counted`, a power of two, the guest's clock goes by so many nanoseconds with each instruction of
        its one processor, whatever else the host does; where the guest idles, it jumps to the next timer.

        With a `disk` the guest has the system on that, which starts by its own systemd, and writes to it. The
        host's files are at LIVE_VIEW. `firmware` starts the kernel where it is given, else the emulator does.
        """
        self.kernel = kernel
        self.cpus, self.at_once, self.counted = cpus, at_once, counted
        self.disk, self.firmware = disk, firmware
        self.console = directory / "console"
        self.emulator_log = directory / "emulator"
        self.log = KernelLog()
        self.ready = threading.Event()
        self.ended: str | None = None
        self.told = False  # whether `problems` has told of the end
        self.processes: dict[int, Process] = {}
        self.syncs: dict[int, threading.Event] = {}
        self.numbers = itertools.count(1)
        self.began = time.monotonic()
        self.model = EMULATORS[kernel.machine]
        line = [f"console={self.model.console}", *KERNEL_ARGUMENTS]
        line += [f"cgpu.cgroup={cgroup}", f"cgpu.checkout={ROOT}"]
        line += [*(COUNTED_ARGUMENTS if counted else ()), *arguments]
        ours, theirs = socket.socketpair()
        asking, asked = socket.socketpair()
        with theirs, asked, self.emulator_log.open("wb") as errors:
            command = self.command(theirs.fileno(), asked.fileno(), memory, " ".join(line))
            self.emulator = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno(), asked.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        self.monitor = Monitor(asking)
        self.link = Channel(ours, self.receive, self.on_end)

    def command(self, agent: int, monitor: int, memory: int, arguments: str) -> list[str]:
        """Return the emulator's command line. The emulator may not outlive us, however we end."""
        # In turn is a tenth slower for one processor. Instructions are counted in turn only.
        is_multi = self.at_once or (self.cpus == 1 and not self.counted)
        thread = "multi" if is_multi else "single"
        start = FROM_DISK if self.disk else FROM_HOST
        return [
            "setpriv", "--pdeathsig", "KILL", self.model.program, *self.model.options,
            "-accel", f"tcg,thread={thread},tb-size=512", "-m", str(memory),
            "-smp", "1" if self.counted else str(CPUS),
            *(("-icount", f"shift={self.counted.bit_length() - 1},sleep=off") if self.counted else ()),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            *self.boot_options(build_initramfs(self.kernel, start), arguments),
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent}",
            "-device", "virtserialport,chardev=agent,name=agent",
            "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor",
            *share("live", Path("/")),
            *(drive(self.disk) if self.disk else share("host", self.kernel.programs)),
        ]  # fmt: skip

    def boot_options(self, initramfs: Path, arguments: str) -> list[str]:
        """Return the options of what starts the kernel, and of the serial line."""
        if self.firmware:
            return self.firmware.options(self.kernel, initramfs, arguments, self.console)
        image = str(self.kernel.bootable())
        return ["-kernel", image, "-initrd", str(initramfs), "-append", arguments,
                "-serial", f"file:{self.console}"]  # fmt: skip

    # --- frames, in the channel's thread ---

    def receive(self, job: int, kind: int, payload: bytes) -> None:
        if kind == channel.LOG:
            self.log.add(payload)
        elif kind == channel.HELLO:
            self.ready.set()
        elif kind == channel.SYNC:
            self.syncs[job].set()
        elif job in self.processes:
            self.processes[job].receive(kind, payload)

    def on_end(self) -> None:
        """Wake all who wait for a guest that is no more."""
        self.ended = self.ended or "the machine has ended"
        self.ready.set()
        for event in list(self.syncs.values()):
            event.set()
        for process in list(self.processes.values()):
            process.wake()

    # --- life ---

    def scaled(self, seconds: float) -> float:
        """Return a deadline that suits the kernel."""
        return seconds * (DEBUG_FACTOR if self.kernel.debug else 1.0)

    def wait_ready(self, timeout: float = BOOT_SECONDS) -> Self:
        """Wait until the guest takes commands."""
        if not self.ready.wait(self.scaled(timeout)) or self.ended:
            reason = self.why_ended() or self.end_silent()
            self.close()
            raise MachineDiedError(f"the machine did not start: {reason}")
        if self.cpus > 1:
            self.switch_second_cpu(on=True)
        return self

    def console_lines(self) -> list[str]:
        return self.console.read_text(errors="replace").splitlines() if self.console.exists() else []

    def post_mortem(self) -> str:
        lines = self.console_lines()
        fault = next((at for at, text in enumerate(lines) if FAULT.search(text)), max(0, len(lines) - 40))
        return "\n".join(
            [
                self.ended or "no answer",
                *lines[fault : fault + 60],
                self.emulator_log.read_text(errors="replace"),
            ]
        )

    def end_silent(self) -> str:
        """End a guest that does not answer; return the state of its processors and tasks, and its output."""
        said = self.post_mortem()
        self.ended = self.ended or "it did not answer before this"
        registers = self.monitor.panic()
        with suppress(subprocess.TimeoutExpired):
            self.emulator.wait(self.scaled(PANIC_SECONDS))
        at_work = what_is_at_work(self.console_lines())
        self.close()
        return "\n".join([registers, *at_work, "before that:", said])

    def why_ended(self) -> str | None:
        """Return what became of the machine, None while it lives."""
        return self.post_mortem() if self.ended else None

    def close(self) -> None:
        self.told = True
        self.ended = self.ended or "closed by the test"
        self.emulator.kill()
        self.emulator.wait()
        self.link.close()
        self.monitor.close()

    def __enter__(self) -> Self:
        return self.wait_ready()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what tests do ---

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        input: bytes | str | None = b"",  # noqa: A002 - named as subprocess.run names it
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a command in a process group of its own. With input=None standard input stays open."""
        words = [str(word) for word in argv]
        process = Process(self.link, next(self.numbers), words, self.why_ended, self.end_silent)
        self.processes[process.job] = process
        self.link.send_run(process.job, words, {**ENVIRONMENT, **(env or {})})
        if input is not None:
            process.write(input)
            process.close_input()
        return process

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        input: bytes | str | None = None,  # noqa: A002 - named as subprocess.run names it
        timeout: float = 60,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run a command to its end; kill its process group and fail when it takes longer than `timeout`."""
        process = self.start(argv, input=input or b"", env=env)
        done = process.wait(self.scaled(timeout))
        del self.processes[process.job]
        return done.check() if check else done

    def shell(self, script: str, *words: str | Path, timeout: float = 60, check: bool = True) -> Finished:
        """Run a shell script, with `words` as $1 and so on: one start for many small steps."""
        return self.run(["/bin/busybox", "sh", "-euc", script, "sh", *words], timeout=timeout, check=check)

    def switch_second_cpu(self, *, on: bool) -> None:
        self.shell('echo "$1" >/sys/devices/system/cpu/cpu1/online', str(int(on)))

    @contextmanager
    def one_cpu(self) -> Iterator[None]:
        """Have one processor while code changes, where two would run at the same time."""
        if self.at_once:
            self.switch_second_cpu(on=False)
        try:
            yield
        finally:
            if self.at_once and not self.ended:
                self.switch_second_cpu(on=True)

    def write_file(self, path: str | Path, data: bytes | str, mode: int = 0o644) -> None:
        """Make a file in the guest, and the directories above it."""
        script = f"mkdir -p {shlex.quote(str(Path(path).parent))}; cat >$1; chmod {mode:o} $1"
        self.run(["/bin/busybox", "sh", "-euc", script.replace("$1", '"$1"'), "sh", str(path)], input=data)

    def read_file(self, path: str | Path) -> bytes:
        return self.run(["/bin/busybox", "cat", str(path)]).stdout_bytes

    @staticmethod
    def seen(path: Path) -> str:
        """Return where the guest finds a file of the host, however new it is."""
        return f"{LIVE_VIEW}{path.resolve()}"

    # --- the kernel's log ---

    def sync(self) -> None:
        """Wait until all that the kernel has said by now is here."""
        number = next(self.numbers)
        answered = self.syncs[number] = threading.Event()
        self.link.send(number, channel.SYNC)
        if self.ended or not answered.wait(self.scaled(SYNC_SECONDS)) or self.ended:
            raise MachineDiedError(self.why_ended() or f"the guest does not answer\n{self.end_silent()}")
        del self.syncs[number]

    def dmesg(self) -> str:
        self.sync()
        return self.log.text()

    def problems(self) -> list[str]:
        """Return the faults in the kernel's log since the last call, and the machine's own end, each once."""
        told = self.told
        try:
            self.sync()
        except MachineDiedError as error:
            self.told = True
            return [*self.log.check(), *([] if told else [str(error)])]
        return self.log.check()


__all__ = ["CommandError", "Finished", "Machine", "MachineDiedError", "Process"]
