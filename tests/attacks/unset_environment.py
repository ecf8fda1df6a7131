# SPDX-License-Identifier: Apache-2.0
"""Programs without the environment that a container was started with, or with another one.

Preloaded libraries read their limit from variables; who unsets them has none. Users of HAMi:
https://github.com/Project-HAMi/HAMi/issues/1112, https://github.com/Project-HAMi/HAMi-core/pull/235.
"""

from __future__ import annotations

from tests.attacks.arena import Arena
from tests.attacks.attack import assert_held, attack

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


@attack(limit=True)
def unset_environment(arena: Arena) -> None:
    """Nothing in the environment, and one that asks for all, give the slice to the byte."""
    tenant = arena.tenant()
    assert_held(arena, tenant, "/usr/bin/env", "-i")
    assert_held(arena, tenant, "/usr/bin/env", *MORE)
