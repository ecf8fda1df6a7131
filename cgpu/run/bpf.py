# SPDX-License-Identifier: Apache-2.0
"""From the seccomp profile of a sliced container to the program that the kernel runs.

A container's runtime has libseccomp make this program. Here it is put together by hand: runtimes bring
libseccomp in different ways (Go programs link it in), Python has no binding of it on PyPI, and the engine's
rules need four instructions each. Anything else in a profile is refused, never left out. A test runs this
program and libseccomp's side by side.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cgpu.errors import CgpuError, show
from cgpu.runtime_config.oci_runtime.fields import objects
from cgpu.runtime_config.oci_runtime.seccomp import ALLOW, NOTIFY

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
