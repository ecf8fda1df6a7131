# SPDX-License-Identifier: Apache-2.0
"""Programs that nothing is preloaded into, or that go past what is preloaded."""

from __future__ import annotations

from tests.attacks.attack import assert_held, attack, probe
from tests.attacks.build import (
    PROBE,
    PROBE_32,
    alone,
    dynamic_probe,
    guard,
    other_entry,
    own_loader,
    probe_library,
)
from tests.attacks.harness import Harness

MORE = (
    "ALIYUN_COM_GPU_MEM_CONTAINER=15",
    "ALIYUN_COM_GPU_MEM_DEV=15",
    "ALIYUN_COM_GPU_MEM_POD=0",
    "CGPU_DISABLE=true",
    "NVIDIA_VISIBLE_DEVICES=all",
    "CUDA_DEVICE_MEMORY_LIMIT=0",
    "CUDA_DISABLE_CONTROL=true",
    "LD_PRELOAD=",
)
NO_DRIVER = 1  # the probe's exit status


# Programs without the environment that a container was started with, or with another one.
#
# Preloaded libraries read their limit from variables; a program that unsets them has none. Users of HAMi:
# https://github.com/Project-HAMi/HAMi/issues/1112, https://github.com/Project-HAMi/HAMi-core/pull/235.


@attack(limit=True, native=True)
def unset_environment(harness: Harness) -> None:
    """Nothing in the environment, and one that asks for all, give the slice to the byte."""
    tenant = harness.tenant()
    assert_held(harness, tenant, "/usr/bin/env", "-i")
    assert_held(harness, tenant, "/usr/bin/env", *MORE)


# Programs that a dynamic loader of the container's own starts.
#
# Such a loader knows no /etc/ld.so.preload, so it does not load a tool's library into each program. HAMi,
# where a distribution has another file for it: https://github.com/Project-HAMi/HAMi/issues/971.


@attack(limit=True, native=True)
def own_loader_starts_it(harness: Harness) -> None:
    """A program with a loader and a libc of the container's own gets the slice to the byte."""
    folder = own_loader()
    command = (folder / "ld.so", "--inhibit-cache", "--library-path", folder, dynamic_probe())
    program = (*command, "--dev", harness.dev)
    assert_held(harness, harness.tenant(), "/usr/bin/env", "-i", program=program)


# Static programs, of either width, and by the kernel's 32-bit entry.
#
# Nothing can be preloaded into them. musl and static images: https://github.com/Project-HAMi/HAMi/issues/2101,
# https://github.com/Project-HAMi/HAMi/issues/2265; static programs: https://github.com/Project-HAMi/website/pull/741.


@attack(limit=True, native=True)
def static_binary(harness: Harness) -> None:
    """Static programs of 64 and of 32 bits get the slice to the byte."""
    tenant = harness.tenant()
    for program in (PROBE, PROBE_32):
        assert_held(harness, tenant, program=(program, "--dev", harness.dev))


@attack(limit=True, native=True)
def other_gate(harness: Harness) -> None:
    """So does a 64-bit program that makes its driver calls by int 0x80."""
    assert_held(harness, harness.tenant(), program=(other_entry(), "--dev", harness.dev))


# Libraries that bind past what is preloaded.
#
# RTLD_DEEPBIND and dlmopen have a library use its own libc first. Said of HAMi in
# https://github.com/Project-HAMi/website/pull/741.


def preloading(harness: Harness, how: str) -> tuple[str, ...]:
    """Return what is run with a library preloaded that lets no driver call pass."""
    seen = [harness.path(path) for path in (guard(), alone("deep_bind"), probe_library())]
    return ("/usr/bin/env", f"LD_PRELOAD={seen[0]}", seen[1], how, seen[2])


@attack(limit=True, native=True)
def deep_bind(harness: Harness) -> None:
    """A library that was bound past the preloaded one gets the slice to the byte, and no more."""
    tenant = harness.tenant()
    held_off = tenant.run(*preloading(harness, "plain"), *probe(harness, "info")[1:])
    assert held_off.returncode == NO_DRIVER, held_off.text
    for how in ("deep", "namespace"):
        assert_held(harness, tenant, program=(*preloading(harness, how), "--dev", harness.dev))
