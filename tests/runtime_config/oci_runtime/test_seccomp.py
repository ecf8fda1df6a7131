# SPDX-License-Identifier: Apache-2.0
"""The profile of a sliced container: notified calls, passed calls, denied calls, refused profiles."""

from __future__ import annotations

import copy
import errno
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.run.calls import I386, X86_64
from cgpu.run.supervision import USER_NOTIF
from cgpu.runtime_config.oci_runtime.seccomp import (
    ALLOW,
    NEW_LISTENER,
    NOTIFY,
    SPEC_ALLOW,
    WAIT_KILLABLE,
    supervise,
)
from tests.run.libseccomp import compile_profile
from tests.run.test_bpf import ALLOWED, BUSY, Call, verdict

DENY = "SCMP_ACT_ERRNO"
LOG = "SCMP_ACT_LOG"
DEFAULT_PROFILE = Path("/usr/share/containers/seccomp.json")
JsonObject = dict[str, Any]


def rule(name: str, action: str, **more: object) -> JsonObject:
    return {"names": ["read", name, "write"], "action": action, **more}


def profile(default: str, *rules: JsonObject, **more: object) -> JsonObject:
    return {"defaultAction": default, "architectures": ["SCMP_ARCH_X86_64"], "syscalls": list(rules), **more}


def supervised(seccomp: object, *, shared: bool = True, flags: tuple[str, ...] = ()) -> JsonObject:
    """Return the edited profile; the given one stays as it is."""
    linux: JsonObject = {"seccomp": copy.deepcopy(seccomp)}
    supervise(linux, "id", flags, shared=shared)
    edited: JsonObject = linux["seccomp"]
    return edited


def decide(seccomp: JsonObject, name: str, *values: int) -> object:
    """Return the action of a profile for a call, as libseccomp builds it: a more exact rule wins."""
    found: list[object] = []
    for entry in seccomp["syscalls"]:
        if name not in entry["names"]:
            continue
        tests = entry.get("args") or []
        assert all(test["op"] == "SCMP_CMP_MASKED_EQ" for test in tests)
        if all(values[test["index"]] & test["value"] == test["valueTwo"] for test in tests):
            found.append(entry["action"])
    assert len(set(found)) <= 1, "two rules with different actions match one call"
    return found[0] if found else seccomp["defaultAction"]


def ioctl(seccomp: JsonObject, number: int) -> object:
    return decide(seccomp, "ioctl", 3, number)


def mapping(seccomp: JsonObject, flags: int, name: str = "mmap") -> object:
    return decide(seccomp, name, 0, 4096, 3, flags)


ALLOWING = [
    profile(DENY, rule("ioctl", ALLOW), rule("mmap", ALLOW), rule("mmap2", ALLOW)),
    profile(DENY, rule("ioctl", ALLOW, args=[]), rule("mmap", ALLOW, args=None), rule("mmap2", ALLOW)),
    profile(ALLOW),
    profile(ALLOW, rule("ptrace", DENY)),
    profile(ALLOW, rule("ioctl", ALLOW), rule("mmap", ALLOW)),
    {"defaultAction": ALLOW},
    {"defaultAction": ALLOW, "syscalls": None},
    None,
]


@given(st.sampled_from(ALLOWING), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_what_is_notified(seccomp: object, number: int, flags: int) -> None:
    """An ioctl with a size, or neither size nor type, and a shared mapping of a file: no other bit counts."""
    edited = supervised(seccomp)
    concerns = bool(number & 0x3FFF0000) or not number & 0xFF00
    assert ioctl(edited, number) == (NOTIFY if concerns else ALLOW)
    for name in ("mmap", "mmap2"):
        assert mapping(edited, flags, name) == (NOTIFY if flags & 0x21 == 1 else ALLOW)


ALLOWING_SECCOMP = [
    *((one, ALLOW) for one in ALLOWING[2:]),
    (profile(DENY, rule("seccomp", ALLOW)), ALLOW),
    (profile(ALLOW, rule("seccomp", LOG)), LOG),
]


@given(st.sampled_from(ALLOWING_SECCOMP), st.integers(0, 2**32 - 1), st.booleans())
def test_a_second_listener_is_refused(one: tuple[object, str], flags: int, shared: bool) -> None:
    """A filter with a listener of its own is refused with EBUSY; other filters are treated as before."""
    before, action = one
    edited = supervised(before, shared=shared)
    assert decide(edited, "seccomp", 1, flags) == (DENY if flags & NEW_LISTENER else action)
    (refusal,) = (entry for entry in edited["syscalls"] if entry.get("errnoRet"))
    assert (refusal["names"], refusal["errnoRet"]) == (["seccomp"], errno.EBUSY)


def shipped() -> JsonObject:
    """Return podman's default profile as it reaches a runtime for an ordinary container."""
    if not DEFAULT_PROFILE.exists():
        pytest.skip("podman's default profile is not installed: apt install golang-github-containers-common")
    rules = [
        entry
        for entry in json.loads(DEFAULT_PROFILE.read_text())["syscalls"]
        if not entry.get("excludes")
        and set(entry.get("includes", {}).get("arches", ["amd64"])) & {"amd64", "x86"}
        and not entry.get("includes", {}).get("caps")
    ]
    architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    return {"defaultAction": DENY, "architectures": architectures, "syscalls": rules}


def test_the_default_profile_of_podman() -> None:
    """An edit changes no other call of the profile that podman ships, nor their order."""
    before = shipped()
    edited = supervised(before)
    assert other_calls(edited) == other_calls(before)


def other_calls(seccomp: JsonObject) -> list[str]:
    """Return the rules of a profile for each call that is not watched."""
    watched = ("ioctl", "mmap", "mmap2", "seccomp")
    return [
        repr((name, entry["action"], entry.get("args")))
        for entry in seccomp["syscalls"]
        for name in entry["names"]
        if name not in watched
    ]


KNOWN = {"ioctl", "mmap", "mmap2", "read", "ptrace", "openat", "seccomp"}


@pytest.mark.parametrize("name", ["unconfined", "denylist", "allowlist"])
def test_what_libseccomp_makes_of_it(name: str) -> None:
    """In the program that runc loads, driver calls of 64 and of 32 bits and shared mappings are notified."""
    denylist = profile(ALLOW, rule("ptrace", DENY), architectures=["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"])
    before = {"unconfined": None, "denylist": denylist, "allowlist": shipped()}[name]
    edited = supervised(before)
    # runc leaves out calls that libseccomp does not know, here all but some, and rules that repeat the
    # default.
    rules = [
        {**entry, "names": [*KNOWN.intersection(entry["names"])], "args": entry.get("args") or []}
        for entry in edited["syscalls"]
        if entry["action"] != edited["defaultAction"] or entry.get("errnoRet")
    ]
    program = compile_profile({**edited, "syscalls": rules})
    for architecture, number in ((X86_64, 317), (I386, 354)):
        for flags, wanted in ((8, BUSY), (0xFF, BUSY), (0, ALLOWED), (0xF7, ALLOWED)):
            assert verdict(program, Call(architecture, number, (1, flags, 0, 0, 0, 0))) == wanted
    for architecture, ioctl_number, map_number in ((X86_64, 16, 9), (I386, 54, 192)):
        # RM_CONTROL, the same disguised, UVM_INITIALIZE, UVM's bare numbers, TIOCGPTN, which has a size.
        for number in (0xC020462A, 0xFFFFFFFFC020462A, 0x0020002A, 0x30000001, 0x00000001, 0x80045430):
            call = Call(architecture, ioctl_number, (3, number, 0, 0, 0, 0))
            assert verdict(program, call) == USER_NOTIF
        # TCGETS, SIOCGIFCONF, FIONREAD, and RM_CONTROL without a size, which the driver itself refuses.
        for number in (0x5401, 0x8912, 0x541B, 0x462A):
            assert verdict(program, Call(architecture, ioctl_number, (3, number, 0, 0, 0, 0))) == ALLOWED
        for flags, wanted in ((1, USER_NOTIF), (0x21, ALLOWED), (2, ALLOWED)):
            assert verdict(program, Call(architecture, map_number, (0, 4096, 1, flags, 3, 0))) == wanted


def test_without_a_profile_nothing_else_is_restricted() -> None:
    """An unconfined container gets a filter that allows all, for 32-bit processes too."""
    edited = supervised(None)
    assert edited["defaultAction"] == ALLOW
    assert edited["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    assert decide(edited, "ptrace") == ALLOW


def test_a_profile_keeps_its_architectures() -> None:
    """A profile that leaves an architecture out does not get it added."""
    assert supervised(profile(ALLOW))["architectures"] == ["SCMP_ARCH_X86_64"]


@pytest.mark.parametrize("action", [DENY, "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_TRAP"])
def test_what_is_denied_stays_denied(action: str) -> None:
    """A profile that denies a call keeps denying it, by default or by a rule."""
    by_default = supervised(profile(action, rule("mmap", ALLOW)))
    by_rule = supervised(profile(ALLOW, rule("ioctl", action, errnoRet=38)))
    assert ioctl(by_default, 0xC020462A) == ioctl(by_rule, 0xC020462A) == action
    assert mapping(by_default, 1) == NOTIFY
    assert mapping(by_default, 1, "mmap2") == action
    assert by_rule["syscalls"][0] == rule("ioctl", action, errnoRet=38)


def test_logged_calls_stay_logged() -> None:
    """Calls that pass under a profile that allows and logs are still logged."""
    edited = supervised(profile(DENY, rule("ioctl", LOG)))
    assert (ioctl(edited, 0x5401), ioctl(edited, 0xC020462A)) == (LOG, NOTIFY)


def test_mappings_are_left_alone_when_the_node_says_so() -> None:
    """supervise_shared_mappings: false leaves every mapping as the profile has it."""
    edited = supervised(ALLOWING[0], shared=False)
    assert (mapping(edited, 1), ioctl(edited, 0xC020462A)) == (ALLOW, NOTIFY)


OWN = "notifies a listener of its own"
REFUSED = [
    (profile(DENY, listenerPath="/run/other.sock"), "has a listener of its own (/run/other.sock)"),
    (profile(DENY, rule("ptrace", NOTIFY)), OWN),
    (profile(NOTIFY), OWN),
    (profile(ALLOW, rule("ioctl", DENY, args=[{"index": 1, "value": 1}])), "depends on its arguments"),
    (
        profile(DENY, rule("mmap", ALLOW, args=[{"index": 2}]), rule("ioctl", ALLOW)),
        "rule for mmap that depends",
    ),
    (profile(DENY, rule("ioctl", ALLOW), rule("ioctl", "SCMP_ACT_KILL")), "both allows and denies ioctl"),
    (profile(DENY, rule("ioctl", "SCMP_ACT_TRACE")), "SCMP_ACT_TRACE for ioctl"),
    (profile("SCMP_ACT_TRACE"), "SCMP_ACT_TRACE for ioctl"),
    (profile(ALLOW, rule("seccomp", "SCMP_ACT_TRACE")), "SCMP_ACT_TRACE for seccomp"),
    (profile(DENY, rule("ioctl", "SCMP_ACT_NEW")), "SCMP_ACT_NEW for ioctl"),
    (profile(DENY, rule("ioctl", ALLOW), rule("ioctl", ["x"])), "both allows and denies"),  # type: ignore[arg-type]
    ({}, "None for ioctl"),
    ("text", "linux.seccomp: text: expected an object"),
    ({"defaultAction": ALLOW, "syscalls": {}}, "syscalls: an object: expected a list"),
    ({"defaultAction": ALLOW, "syscalls": ["ioctl"]}, "syscalls: ioctl: expected objects"),
    (
        {"defaultAction": ALLOW, "syscalls": [{"names": "ioctl", "action": DENY}]},
        "names: ioctl: expected a list",
    ),
    # The engine's path does not make foreign rules ours.
    (profile(DENY, rule("ptrace", NOTIFY), listenerPath=paths.SECCOMP_SOCKET), OWN),
]


@pytest.mark.parametrize(("seccomp", "message"), REFUSED)
def test_what_cannot_be_kept_is_refused(seccomp: object, message: str) -> None:
    """A profile that cannot be joined with the engine's rules refuses the container by name."""
    with pytest.raises(CgpuError, match=re.escape(message)):
        supervised(seccomp)


def test_the_listener_is_the_engines() -> None:
    """The low-level runtime gets the engine's socket and the container's id."""
    edited = supervised(None)
    assert (edited["listenerPath"], edited["listenerMetadata"]) == (paths.SECCOMP_SOCKET, "id")


ACTIONS = st.sampled_from([ALLOW, LOG, DENY, "SCMP_ACT_KILL"])
PROFILES = st.none() | st.builds(
    lambda default, first, second: profile(default, *first, *second, seen={"later": 1.5}),
    ACTIONS,
    st.lists(
        st.builds(rule, st.sampled_from(["ioctl", "mmap", "mmap2", "ptrace", "seccomp"]), ACTIONS), max_size=2
    ),
    st.lists(st.builds(rule, st.sampled_from(["open", "clone"]), ACTIONS), max_size=2),
)


@given(PROFILES, st.booleans(), st.sampled_from([(), (WAIT_KILLABLE,), (SPEC_ALLOW, WAIT_KILLABLE)]))
def test_doing_it_twice_is_like_doing_it_once(seccomp: object, shared: bool, flags: tuple[str, ...]) -> None:
    """A bundle that is started a second time gets the very same profile."""
    try:
        once = supervised(seccomp, shared=shared, flags=flags)
    except CgpuError:
        return
    assert supervised(once, shared=shared, flags=flags) == once


@pytest.mark.parametrize(
    ("before", "known", "after"),
    [
        (None, (), None),
        (None, (WAIT_KILLABLE,), [WAIT_KILLABLE]),
        (None, (SPEC_ALLOW, WAIT_KILLABLE), [SPEC_ALLOW, WAIT_KILLABLE]),
        ([], (SPEC_ALLOW, WAIT_KILLABLE), [WAIT_KILLABLE]),
        (["SECCOMP_FILTER_FLAG_LOG"], (WAIT_KILLABLE,), ["SECCOMP_FILTER_FLAG_LOG", WAIT_KILLABLE]),
        (["SECCOMP_FILTER_FLAG_LOG"], (), ["SECCOMP_FILTER_FLAG_LOG"]),
    ],
)
def test_the_flag_that_spares_restarts(before: object, known: tuple[str, ...], after: object) -> None:
    """WAIT_KILLABLE_RECV is set where the runtime knows it, beside the runtime's own default."""
    more = {} if before is None else {"flags": before}
    assert supervised(profile(ALLOW, **more), flags=known).get("flags") == after
