# SPDX-License-Identifier: Apache-2.0
"""Put a sliced process under the daemon engine: install a container's filter, send its listener to cgpud.

For a container, the OCI runtime has libseccomp make the filter. This module assembles the same rules by hand:
runtimes bring libseccomp in different ways (Go programs link it in), PyPI has no Python binding of it, and
each rule needs only four instructions. A test compares this module's filter with libseccomp's.

cgpud gets the same message as from a container's OCI runtime, the OCI container process state:
https://github.com/opencontainers/runtime-spec/blob/v1.2.0/config-linux.md#the-container-process-state
"""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from dataclasses import dataclass

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.run import calls
from cgpu.runtime_config.oci_runtime.seccomp import SIZE_BITS, Watched, watched

# include/uapi/linux/bpf_common.h, filter.h
LOAD_WORD, JUMP_EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06
INSTRUCTION = struct.Struct("=HBBI")
# include/uapi/linux/seccomp.h: offsets in struct seccomp_data, and return values of a filter.
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
KILL_PROCESS, USER_NOTIF, ALLOWED, FAILS_WITH = 0x80000000, 0x7FC00000, 0x7FFF0000, 0x00050000
Code = list[bytes]
OCI_VERSION = "1.2.0"
# An ioctl number that the filter notifies. _check_listener() uses it on NO_FILE, no valid descriptor.
QUESTION = SIZE_BITS[0]
NO_FILE = -1


def assemble(machine: str, *, shared: bool) -> bytes:
    """Return a machine's filter, an array of struct sock_filter. shared: notify shared mappings too.

    Raises CgpuError for a machine of another kind.
    """
    code = [_op(LOAD_WORD, ARCHITECTURE_AT)]
    for architecture, numbers in calls.numbers(machine).items():
        checks = [
            instruction
            for call in watched(shared=shared)
            for number in numbers.get(call.name, ())
            for instruction in _block_for(number, [*_checks(call), _op(RETURN, ALLOWED)])
        ]
        code += _block_for(architecture, [_op(LOAD_WORD, NUMBER_AT), *checks, _op(RETURN, ALLOWED)])
    code.append(_op(RETURN, KILL_PROCESS))
    return b"".join(code)


def _checks(call: Watched) -> Code:
    """Return what answers a call for the values that are held. All machines have low words first."""
    code: Code = []
    for mask, value in call.held:
        code += [
            _op(LOAD_WORD, ARGUMENTS_AT + 8 * call.index),
            _op(AND, mask),
            _op(JUMP_EQUAL, value, 0, 1),
            _op(RETURN, USER_NOTIF if call.errno is None else FAILS_WITH | call.errno),
        ]
    return code


def _block_for(value: int, code: Code) -> Code:
    """Run the block `code` if the accumulator is `value`, else skip it. The block must end with a return."""
    return [_op(JUMP_EQUAL, value, 0, len(code)), *code]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return INSTRUCTION.pack(code, if_true, if_false, value)


@dataclass(frozen=True, slots=True)
class Supervision:
    """Data with which the forked child puts itself under supervision. program: the result of assemble()."""

    container: str
    program: bytes
    socket: str = paths.SECCOMP_SOCKET

    def begin(self) -> None:
        """Put this process under the engine's supervision for the rest of its life. Raises CgpuError.

        Until cgpud has the listener, this process must make no call that the filter notifies: it would hang.
        """
        state = self._state(os.getpid())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as runtime:
                runtime.connect(self.socket)
                listener = _listen(self.program)
                try:
                    socket.send_fds(runtime, [state], [listener])
                finally:
                    # While this process keeps the listener open, _check_listener() would wait for ever for an
                    # answer if cgpud had closed its own copy, instead of failing with ENOSYS.
                    os.close(listener)
        except OSError as error:
            raise CgpuError(f"{self.socket}: {error.strerror}: {paths.daemon_command('start')}") from error
        self._check_listener()

    def _check_listener(self) -> None:
        # The engine does not confirm that it took a listener. If it closed the listener, notified calls fail
        # with ENOSYS.
        if calls.ioctl_errno(NO_FILE, QUESTION) == errno.ENOSYS:
            raise CgpuError(
                f"{self.socket}: the engine did not take the listener of {self.container}: its log says why "
                f"({paths.RUN}/cgpud.log, or journalctl -u cgpud)"
            )

    def _state(self, pid: int) -> bytes:
        state = {
            "ociVersion": OCI_VERSION,
            "fds": ["seccompFd"],
            "pid": pid,
            "metadata": self.container,
            "state": {
                "ociVersion": OCI_VERSION,
                "id": self.container,
                "status": "creating",
                "pid": pid,
                "bundle": "/",
            },
        }
        return json.dumps(state).encode()


def _listen(program: bytes) -> int:
    try:
        return calls.listen(program)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise CgpuError(
                "seccomp: this process has a listener already, and can have only one: start from outside of "
                "other slices and containers"
            ) from error
        raise CgpuError(
            f"seccomp: the filter is refused ({error.strerror}); it takes CAP_SYS_ADMIN"
        ) from error
