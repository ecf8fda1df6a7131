# SPDX-License-Identifier: Apache-2.0
"""A sliced process under the daemon engine: the filter of containers on it, its listener with cgpud.

A container's runtime has libseccomp make the filter. Here it is put together by hand: runtimes bring
libseccomp in different ways (Go programs link it in), Python has no binding of it on PyPI, and the engine's
rules need four instructions each. Anything else in a profile is refused, never left out. A test runs this
filter and libseccomp's side by side.

What is sent to cgpud is what a container's runtime sends, the OCI container process state:
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
from cgpu.runtime_config.oci_runtime.seccomp import ALLOW, NOTIFY, SIZE_BITS, supervise

if TYPE_CHECKING:
    from cgpu.runtime_config.oci_runtime.fields import Table

MACHINE = "x86_64"
# include/uapi/linux/bpf_common.h, filter.h
LOAD_WORD, JUMP_EQUAL, AND, RETURN = 0x20, 0x15, 0x54, 0x06
INSTRUCTION = struct.Struct("=HBBI")
# include/uapi/linux/seccomp.h: offsets in struct seccomp_data, and answers.
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
KILL_PROCESS, USER_NOTIF, ALLOWED = 0x80000000, 0x7FC00000, 0x7FFF0000
# The arch field of seccomp_data (include/uapi/linux/audit.h), and numbers from arch/x86/entry/syscalls/*.tbl.
X86_64, I386, X32_BIT = 0xC000003E, 0x40000003, 0x40000000
NUMBERS = {
    "SCMP_ARCH_X86_64": (X86_64, {"ioctl": 16, "mmap": 9}),
    "SCMP_ARCH_X32": (X86_64, {"ioctl": X32_BIT + 514, "mmap": X32_BIT + 9}),
    "SCMP_ARCH_X86": (I386, {"ioctl": 54, "mmap": 90, "mmap2": 192}),
}
MAX_JUMP = 255
WORD = 0xFFFFFFFF
# Of SCMP_CMP_MASKED_EQ, as the OCI runtime specification has it.
MASK_AND_VALUE = ("value", "valueTwo")
Code = list[bytes]
OCI_VERSION = "1.2.0"
# A number that the filter sends to the engine, for a descriptor that is none.
QUESTION = SIZE_BITS[0]
NO_FILE = -1


@dataclass(frozen=True, slots=True)
class Rule:
    """A call is notified when the low 32 bits of an argument have this value under this mask."""

    name: str
    index: int
    mask: int
    value: int


def assemble(profile: Table) -> bytes:
    """Return the program, an array of struct sock_filter. Raises CgpuError for what it does not know."""
    if os.uname().machine != MACHINE:
        raise CgpuError(f"this machine is {os.uname().machine}: expected {MACHINE}")
    if profile.get("defaultAction") != ALLOW:
        raise CgpuError(f"seccomp: defaultAction {show(profile.get('defaultAction'))}: expected {ALLOW}")
    rules = [_rule(entry) for entry in objects(profile, "syscalls")]
    code = [_op(LOAD_WORD, ARCHITECTURE_AT)]
    for architecture, numbers in _architectures(profile).items():
        code += _guarded(
            architecture, [_op(LOAD_WORD, NUMBER_AT), *_calls(numbers, rules), _op(RETURN, ALLOWED)]
        )
    code.append(_op(RETURN, KILL_PROCESS))
    return b"".join(code)


def _rule(entry: Table) -> Rule:
    names, tests = entry.get("names"), objects(entry, "args")
    if entry.get("action") != NOTIFY or not isinstance(names, list) or len(names) != 1 or len(tests) != 1:
        raise CgpuError(f"seccomp: a rule for {show(names)}: expected one call, one argument and {NOTIFY}")
    if not any(names[0] in numbers for _, numbers in NUMBERS.values()):
        raise CgpuError(f"seccomp: a rule for {show(names[0])}: its number is not known here")
    test = tests[0]
    if test.get("op") != "SCMP_CMP_MASKED_EQ":
        raise CgpuError(f"seccomp: {show(test.get('op'))}: expected SCMP_CMP_MASKED_EQ")
    rule = Rule(
        str(names[0]), _number(test, "index", 5), *(_number(test, key, WORD) for key in MASK_AND_VALUE)
    )
    if rule.value & ~rule.mask:
        raise CgpuError(f"seccomp: value {rule.value} is never met under mask {rule.mask}")
    return rule


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


def _calls(tables: list[dict[str, int]], rules: list[Rule]) -> Code:
    """Check the number in the accumulator against each call that has rules."""
    code: Code = []
    for numbers in tables:
        for name, number in numbers.items():
            tests = [rule for rule in rules if rule.name == name]
            if tests:
                checks = [part for rule in tests for part in _check(rule)]
                code += _guarded(number, [*checks, _op(RETURN, ALLOWED)])
    return code


def _check(rule: Rule) -> Code:
    return [
        # The low half comes first. Mask and value have no upper half, so that one does not matter.
        _op(LOAD_WORD, ARGUMENTS_AT + 8 * rule.index),
        _op(AND, rule.mask),
        _op(JUMP_EQUAL, rule.value, 0, 1),
        _op(RETURN, USER_NOTIF),
    ]


def _guarded(value: int, code: Code) -> Code:
    """Run code, which does not come back, when the accumulator has a value; else go on behind it."""
    if len(code) > MAX_JUMP:
        raise CgpuError(f"seccomp: {len(code)} instructions in one block: expected at most {MAX_JUMP}")
    return [_op(JUMP_EQUAL, value, 0, len(code)), *code]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return INSTRUCTION.pack(code, if_true, if_false, value)


@dataclass(frozen=True, slots=True)
class Supervision:
    """What the child needs for it. program: the filter, as the kernel takes it."""

    container: str
    program: bytes
    socket: str = paths.SECCOMP_SOCKET

    def begin(self) -> None:
        """Put this process under the engine's supervision, for good. Raises CgpuError.

        Until the listener is delivered this process must make no call that the filter notifies.
        """
        state = self._state(os.getpid())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as runtime:
                runtime.connect(self.socket)
                listener = _listen(self.program)
                try:
                    socket.send_fds(runtime, [state], [listener])
                finally:
                    # While this copy is open, the check below cannot see that nothing serves the listener.
                    os.close(listener)
        except OSError as error:
            raise CgpuError(f"{self.socket}: {error.strerror}: {paths.daemon_command('start')}") from error
        self._check()

    def _check(self) -> None:
        # The engine says nothing when it takes a listener. A listener that it closed makes calls fail.
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
    """Return the profile that a container gets which brings none of its own. shared: mappings as well."""
    linux: Table = {}
    supervise(linux, container, (), shared=shared)
    made = linux["seccomp"]
    assert isinstance(made, dict)
    return made


def plan(container: str, *, shared: bool) -> Supervision:
    """Prepare all that can be prepared before the fork. Raises CgpuError."""
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
