# SPDX-License-Identifier: Apache-2.0
"""The container's seccomp profile, with the calls that reach the NVIDIA driver sent to the engine.

The driver looks only at the low 8 bits (the call's number) and at the size of an ioctl number, so type and
direction bits do not matter. Numbers without a size but with a type are terminal, socket and file calls: they
pass. All with a size, and the bare numbers of UVM, are notified. Mappings are notified when they are shared
(bit 0 of their flags) and of a file (no MAP_ANONYMOUS).

A second listener is refused with EBUSY, as the kernel does while the engine's is open. Once that one is
closed, the kernel would let the process have its own, which would get the driver's calls in its place.

The rules replace a profile's plain permission; what the profile denies stays denied, and a profile that
cannot be joined with them is refused. In a rule of the OCI runtime specification "value" of
SCMP_CMP_MASKED_EQ is the mask.
"""

from __future__ import annotations

import errno
import os

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.runtime_config.oci_runtime.fields import entries, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.runtime_config.oci_runtime.fields import Table

ALLOW = "SCMP_ACT_ALLOW"
NOTIFY = "SCMP_ACT_NOTIFY"
ERRNO = "SCMP_ACT_ERRNO"
ALLOWING = (ALLOW, "SCMP_ACT_LOG")
# SCMP_ACT_TRACE is not among them: a tracer in the container could let the call through.
DENYING = tuple("SCMP_ACT_" + name for name in ("ERRNO", "KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP"))
WAIT_KILLABLE = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"
SPEC_ALLOW = "SECCOMP_FILTER_FLAG_SPEC_ALLOW"
# A filter that names no architecture kills the calls of 32-bit processes.
ARCHITECTURES = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}

IOCTL_NUMBER = 1  # index of the argument
MMAP_FLAGS = 3
SIZE = 0x3FFF0000
TYPE = 0x0000FF00
SIZE_BITS = tuple(1 << bit for bit in range(16, 30))
TYPE_BITS = tuple(1 << bit for bit in range(8, 16))
SHARED = 0x01
ANONYMOUS = 0x20
SECCOMP_FLAGS = 1
NEW_LISTENER = 1 << 3  # SECCOMP_FILTER_FLAG_NEW_LISTENER, include/uapi/linux/seccomp.h

# (mask, value) of the numbers that are notified, and of those that pass; together they are all numbers.
IOCTL_NOTIFIED = (*((bit, bit) for bit in SIZE_BITS), (SIZE | TYPE, 0))
IOCTL_PASSED = tuple((SIZE | bit, bit) for bit in TYPE_BITS)


class Watched:
    """A system call with the values of one argument that are held, and those that pass."""

    __slots__ = ("errno", "held", "index", "name", "passed", "verdict")

    def __init__(
        self,
        name: str,
        index: int,
        held: Sequence[tuple[int, int]],
        passed: Sequence[tuple[int, int]],
        errno: int | None = None,
    ) -> None:
        """Store them; the values are (mask, value) pairs. errno: of what is held; None: it is notified."""
        self.name = name
        self.index = index
        self.held = held
        self.passed = passed
        self.errno = errno
        self.verdict: Table = {"action": NOTIFY} if errno is None else {"action": ERRNO, "errnoRet": errno}

    def rules(self, values: Sequence[tuple[int, int]], verdict: Table) -> list[Table]:
        """Return one rule for each (mask, value)."""
        return [
            {
                "names": [self.name],
                **verdict,
                "args": [{"index": self.index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}],
            }
            for mask, value in values
        ]


LISTENER = Watched(
    "seccomp",
    SECCOMP_FLAGS,
    ((NEW_LISTENER, NEW_LISTENER),),
    ((NEW_LISTENER, 0),),
    errno.EBUSY,
)
IOCTL = Watched("ioctl", IOCTL_NUMBER, IOCTL_NOTIFIED, IOCTL_PASSED)
MAPPING_NOTIFIED = ((SHARED | ANONYMOUS, SHARED),)
MAPPING_PASSED = ((SHARED, 0), (ANONYMOUS, ANONYMOUS))
MAPPINGS = tuple(Watched(name, MMAP_FLAGS, MAPPING_NOTIFIED, MAPPING_PASSED) for name in ("mmap", "mmap2"))


def watched(*, shared: bool) -> tuple[Watched, ...]:
    """Return the watched calls. shared: mappings too."""
    return (IOCTL, *MAPPINGS, LISTENER) if shared else (IOCTL, LISTENER)


def supervise(linux: Table, container: str, flags: Sequence[str], *, shared: bool) -> None:
    """Give a spec's linux object the engine's listener and rules, for mappings too when shared is set.

    flags are those the low-level runtime knows. Raises CgpuError when the profile already has a listener, or
    treats a call in a way that cannot be joined with ours.
    """
    if linux.get("seccomp") is None:
        linux["seccomp"] = _empty_profile()
    profile = linux["seccomp"]
    if not isinstance(profile, dict):
        raise CgpuError(f"config.json: linux.seccomp: {show(profile)}: expected an object")
    _undo(profile)
    _refuse_foreign_listener(profile)
    for call in watched(shared=shared):
        _watch(profile, call)
    profile["listenerPath"] = paths.SECCOMP_SOCKET
    profile["listenerMetadata"] = container
    _set_flags(profile, flags)


def _empty_profile() -> Table:
    profile: Table = {"defaultAction": ALLOW}
    architectures = ARCHITECTURES.get(os.uname().machine)
    if architectures is not None:
        profile["architectures"] = list(architectures)
    profile["syscalls"] = []
    return profile


def _undo(profile: Table) -> None:
    """Take off what an earlier start of the same bundle put on."""
    if profile.get("listenerPath") != paths.SECCOMP_SOCKET:
        return
    rules = entries(profile, "syscalls")
    for call in (IOCTL, *MAPPINGS, LISTENER):
        if not _take(rules, call.rules(call.held, call.verdict)):
            continue
        for action in ALLOWING:
            if _take(rules, call.rules(call.passed, {"action": action})):
                rules.append({"names": [call.name], "action": action})
    del profile["listenerPath"]
    profile.pop("listenerMetadata", None)


def _take(rules: list[object], wanted: list[Table]) -> bool:
    if not all(rule in rules for rule in wanted):
        return False
    for rule in wanted:
        rules.remove(rule)
    return True


def _refuse_foreign_listener(profile: Table) -> None:
    listener = profile.get("listenerPath")
    if listener:
        raise CgpuError(
            f"the seccomp profile has a listener of its own ({show(listener)}), and a container has only "
            "one: expected a profile without listenerPath"
        )
    actions = [rule.get("action") for rule in objects(profile, "syscalls")]
    if NOTIFY in (profile.get("defaultAction"), *actions):
        raise CgpuError(f"the seccomp profile notifies a listener of its own: expected one without {NOTIFY}")


def _watch(profile: Table, call: Watched) -> None:
    action = _disposition(profile, call.name)
    if action in DENYING:
        return
    _drop(profile, call.name)
    rules = entries(profile, "syscalls")
    rules.extend(call.rules(call.held, call.verdict))
    # A rule with the default's own action is an error for libseccomp.
    if action != profile.get("defaultAction"):
        rules.extend(call.rules(call.passed, {"action": action}))


def _disposition(profile: Table, name: str) -> str:
    rules = [rule for rule in objects(profile, "syscalls") if name in _names(rule)]
    if any(rule.get("args") for rule in rules):
        raise CgpuError(
            f"the seccomp profile has a rule for {name} that depends on its arguments, which cannot be "
            f"joined with the engine's: expected a profile that allows {name} or denies it"
        )
    found = [rule.get("action") for rule in rules] or [profile.get("defaultAction")]
    action = found[0]
    if any(other != action for other in found):
        raise CgpuError(f"the seccomp profile both allows and denies {name}: expected one rule for it")
    if not isinstance(action, str) or action not in (*ALLOWING, *DENYING):
        raise CgpuError(
            f"the seccomp profile has {show(action)} for {name}: expected an action that allows or denies "
            f"it, such as {ALLOW} or {DENYING[0]}"
        )
    return action


def _names(rule: Table) -> list[object]:
    names = rule.get("names")
    if names is None:
        return []
    if not isinstance(names, list):
        raise CgpuError(f"config.json: linux.seccomp.syscalls: names: {show(names)}: expected a list")
    return names


def _drop(profile: Table, name: str) -> None:
    kept: list[object] = []
    for rule in objects(profile, "syscalls"):
        names = _names(rule)
        if name in names:
            rule["names"] = names = [other for other in names if other != name]
            if not names:
                continue
        kept.append(rule)
    profile["syscalls"] = kept


def _set_flags(profile: Table, known: Sequence[str]) -> None:
    if WAIT_KILLABLE not in known:
        return
    # Naming a flag ends the runtime's own default, which is this one.
    if profile.get("flags") is None and SPEC_ALLOW in known:
        profile["flags"] = [SPEC_ALLOW]
    flags = entries(profile, "flags")
    if WAIT_KILLABLE not in flags:
        flags.append(WAIT_KILLABLE)
