# SPDX-License-Identifier: Apache-2.0
"""Put a sliced process under the daemon engine: install a container's filter, send its listener to cgpud.

For a container, the OCI runtime has libseccomp make the filter. This module assembles the filter by hand:
runtimes bring libseccomp in different ways (Go programs link it in), PyPI has no Python binding of it, and
each of the engine's rules needs only four instructions. A profile with anything else in it is refused: no
part of a profile is ever left out. A test compares this module's filter with libseccomp's.

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
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.run import calls
from cgpu.runtime_config.oci_runtime.fields import objects
from cgpu.runtime_config.oci_runtime.seccomp import ALLOW, ERRNO, NOTIFY, SIZE_BITS, supervise

if TYPE_CHECKING:
    from cgpu.runtime_config.oci_runtime.fields import Table

MACHINE = "x86_64"
# include/uapi/linux/bpf_common.h, filter.h
LOAD_WORD, JUMP_EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06
INSTRUCTION = struct.Struct("=HBBI")
# include/uapi/linux/seccomp.h: offsets in struct seccomp_data, and return values of a filter.
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
KILL_PROCESS, USER_NOTIF, ALLOWED, FAILS_WITH = 0x80000000, 0x7FC00000, 0x7FFF0000, 0x00050000
# The arch field of seccomp_data (include/uapi/linux/audit.h), and the bit in the number of x32 system calls.
X86_64, I386, X32_BIT = 0xC000003E, 0x40000003, 0x40000000
# System call numbers: arch/x86/entry/syscalls/*.tbl.
NUMBERS = {
    "SCMP_ARCH_X86_64": (X86_64, {"ioctl": 16, "mmap": 9, "seccomp": 317}),
    "SCMP_ARCH_X32": (X86_64, {"ioctl": X32_BIT + 514, "mmap": X32_BIT + 9, "seccomp": X32_BIT + 317}),
    "SCMP_ARCH_X86": (I386, {"ioctl": 54, "mmap": 90, "mmap2": 192, "seccomp": 354}),
}
MAX_JUMP = 255  # jump offsets of struct sock_filter are 8 bits wide
WORD = 0xFFFFFFFF
MAX_ERRNO = 4095
# Place of the mask and the value of an SCMP_CMP_MASKED_EQ in the OCI runtime specification.
MASK_AND_VALUE = ("value", "valueTwo")
Code = list[bytes]
OCI_VERSION = "1.2.0"
# An ioctl number that the filter notifies. _check_listener() uses it on NO_FILE, no valid descriptor.
QUESTION = SIZE_BITS[0]
NO_FILE = -1


@dataclass(frozen=True, slots=True)
class Rule:
    """Return `verdict` for the call `name` if the low word of argument `index`, under `mask`, is `value`."""

    name: str
    verdict: int
    index: int
    mask: int
    value: int


def assemble(profile: Table) -> bytes:
    """Return the filter, an array of struct sock_filter. Raises CgpuError: unsupported profile or machine."""
    if os.uname().machine != MACHINE:
        raise CgpuError(f"this machine is {os.uname().machine}: expected {MACHINE}")
    if profile.get("defaultAction") != ALLOW:
        raise CgpuError(f"seccomp: defaultAction {show(profile.get('defaultAction'))}: expected {ALLOW}")
    rules = [_rule(entry) for entry in objects(profile, "syscalls")]
    code = [_op(LOAD_WORD, ARCHITECTURE_AT)]
    for architecture, numbers in _architectures(profile).items():
        code += _block_for(
            architecture, [_op(LOAD_WORD, NUMBER_AT), *_call_blocks(numbers, rules), _op(RETURN, ALLOWED)]
        )
    code.append(_op(RETURN, KILL_PROCESS))
    return b"".join(code)


def _rule(entry: Table) -> Rule:
    names, tests = entry.get("names"), objects(entry, "args")
    verdict = _verdict(entry)
    if verdict is None or not isinstance(names, list) or len(names) != 1 or len(tests) != 1:
        raise CgpuError(
            f"seccomp: a rule for {show(names)}: expected one call, one argument, and {NOTIFY} or {ERRNO}"
        )
    if not any(names[0] in numbers for _, numbers in NUMBERS.values()):
        raise CgpuError(f"seccomp: a rule for {show(names[0])}: its number is not known here")
    test = tests[0]
    if test.get("op") != "SCMP_CMP_MASKED_EQ":
        raise CgpuError(f"seccomp: {show(test.get('op'))}: expected SCMP_CMP_MASKED_EQ")
    rule = Rule(
        str(names[0]),
        verdict,
        _number(test, "index", 5),
        *(_number(test, key, WORD) for key in MASK_AND_VALUE),
    )
    if rule.value & ~rule.mask:
        raise CgpuError(f"seccomp: value {rule.value} is never met under mask {rule.mask}")
    return rule


def _verdict(entry: Table) -> int | None:
    if entry.get("action") == NOTIFY:
        return USER_NOTIF
    return FAILS_WITH | _number(entry, "errnoRet", MAX_ERRNO) if entry.get("action") == ERRNO else None


def _number(test: Table, key: str, most: int) -> int:
    number = test.get(key)
    if not isinstance(number, int) or not 0 <= number <= most:
        raise CgpuError(f"seccomp: {key} {show(number)}: expected a number up to {most}")
    return number


def _architectures(profile: Table) -> dict[int, list[dict[str, int]]]:
    names = profile.get("architectures")
    if not isinstance(names, list) or sorted(map(str, names)) != sorted(NUMBERS):
        raise CgpuError(f"seccomp: architectures {show(names)}: expected {', '.join(NUMBERS)}, together")
    found: dict[int, list[dict[str, int]]] = {}
    for name in names:
        architecture, numbers = NUMBERS[name]
        found.setdefault(architecture, []).append(numbers)
    return found


def _call_blocks(tables: list[dict[str, int]], rules: list[Rule]) -> Code:
    """Return one block for each call that has rules. The accumulator must hold the system call number."""
    code: Code = []
    for numbers in tables:
        for name, number in numbers.items():
            tests = [rule for rule in rules if rule.name == name]
            if tests:
                checks = [instruction for rule in tests for instruction in _rule_check(rule)]
                code += _block_for(number, [*checks, _op(RETURN, ALLOWED)])
    return code


def _rule_check(rule: Rule) -> Code:
    return [
        # x86 is little-endian: the low 32 bits of an argument come first. No rule masks the high 32.
        _op(LOAD_WORD, ARGUMENTS_AT + 8 * rule.index),
        _op(AND, rule.mask),
        _op(JUMP_EQUAL, rule.value, 0, 1),
        _op(RETURN, rule.verdict),
    ]


def _block_for(value: int, code: Code) -> Code:
    """Run the block `code` if the accumulator is `value`, else skip it. The block must end with a return."""
    if len(code) > MAX_JUMP:
        raise CgpuError(f"seccomp: {len(code)} instructions in one block: expected at most {MAX_JUMP}")
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


def profile(container: str, *, shared: bool) -> Table:
    """Return the profile of a container that brings none of its own. shared: notify shared mappings too."""
    linux: Table = {}
    supervise(linux, container, (), shared=shared)
    made = linux["seccomp"]
    assert isinstance(made, dict)
    return made


def plan(container: str, *, shared: bool) -> Supervision:
    """Do before the fork all that needs no child: make the profile, assemble the filter. Raises CgpuError."""
    return Supervision(container, assemble(profile(container, shared=shared)))


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
