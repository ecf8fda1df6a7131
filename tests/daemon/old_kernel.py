# SPDX-License-Identifier: Apache-2.0
"""Runs a command as on a kernel before 6.9, which gives no descriptor of a thread that leads no process.

Usage: old_kernel.py COMMAND...

pidfd_open() with PIDFD_THREAD fails with EINVAL, and PIDFD_GET_INFO (6.13) with ENOTTY, in the command and
all that it starts. All else is as the kernel has it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.daemon.harness import ROOT, Daemon
from tests.daemon.sliced import (
    ALLOW,
    ARCH_X86_64,
    LD_ARCH,
    LD_ARG1,
    LD_NR,
    SET_MODE_FILTER,
    SYS_SECCOMP,
    X86_64_IOCTL,
    _Program,
    bits,
    equal,
    load,
    result,
)

ERRNO = 0x00050000
PIDFD_OPEN = 434
PIDFD_THREAD = os.O_EXCL
PIDFD_GET_INFO = 0xFF0B  # type and number: its size goes with the kernel
LOW_HALF = 0xFFFF


def masked(mask: int) -> bytes:
    """Keep these bits of what was loaded."""
    return ctypes.string_at(ctypes.byref((ctypes.c_uint16 * 4)(0x54, 0, mask & 0xFFFF, mask >> 16)), 8)


def filter_program() -> bytes:
    return b"".join(
        [
            load(LD_ARCH),
            equal(ARCH_X86_64, 0, 9),
            load(LD_NR),
            equal(PIDFD_OPEN, 0, 3),
            load(LD_ARG1),
            bits(PIDFD_THREAD, 0, 5),
            result(ERRNO | errno.EINVAL),
            equal(X86_64_IOCTL, 0, 3),
            load(LD_ARG1),
            masked(LOW_HALF),
            equal(PIDFD_GET_INFO, 1, 0),
            result(ALLOW),
            result(ERRNO | errno.ENOTTY),
        ]
    )


class OldKernelDaemon(Daemon):
    """A daemon that has such a kernel."""

    def command(self, *options: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "cgpu.kmod.daemon.main", "--run", str(self.run), *options]
        line = [sys.executable, str(Path(__file__).resolve()), *line]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def main(*command: str) -> None:
    program = filter_program()
    argument = _Program(len(program) // 8, program)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, 0, ctypes.byref(argument)) < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    os.execv(command[0], list(command))


if __name__ == "__main__":
    main(*sys.argv[1:])
