# SPDX-License-Identifier: Apache-2.0
"""The variables of HAMi-core, for nodes that come from there (allow_hami_variables in the configuration).

CUDA_DEVICE_MEMORY_LIMIT is a size for each of the container's GPUs, CUDA_DEVICE_MEMORY_LIMIT_N one for GPU N
of them; CUDA_DEVICE_SM_LIMIT is a percentage of the compute (github.com/Project-HAMi/HAMi-core, README.md).
"""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.request.grants import is_number
from cgpu.request.validate import SourcedValue, expected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MEMORY = "CUDA_DEVICE_MEMORY_LIMIT"
COMPUTE = "CUDA_DEVICE_SM_LIMIT"
MAX_GPUS = 64


def amount(environment: Mapping[str, str]) -> SourcedValue | None:
    """Return the memory that is asked for, in the form of OPENCGPU_MEM. Raises CgpuError."""
    sizes = []
    for number in range(MAX_GPUS):
        size = environment.get(f"{MEMORY}_{number}", "")
        if not size:
            break
        sizes.append(_size(f"{MEMORY}_{number}", size))
    _refuse_gap(environment, len(sizes))
    if sizes:
        return SourcedValue(f"{MEMORY}_0", ",".join(sizes))
    every = environment.get(MEMORY, "")
    return SourcedValue(MEMORY, _size(MEMORY, every)) if every else None


def weight(environment: Mapping[str, str]) -> SourcedValue | None:
    """Return the compute that is asked for, as a percentage of a GPU's weights. Raises CgpuError."""
    for name in (COMPUTE, f"{COMPUTE}_0"):
        text = environment.get(name, "")
        if text and not (is_number(text, 3) and 1 <= int(text) <= 100):
            raise CgpuError(f"{name}={show(text)}: expected a whole number from 1 to 100, in percent")
        if text:
            return SourcedValue(name, f"{text}%")
    return None


def _size(name: str, text: str) -> str:
    if "," in text or expected("mem", text) is not None:
        raise CgpuError(f"{name}={show(text)}: expected a size such as 1g, 1024m or bytes")
    return text


def _refuse_gap(environment: Mapping[str, str], count: int) -> None:
    for name, text in environment.items():
        number = name.removeprefix(f"{MEMORY}_")
        if number != name and text and not (is_number(number, 2) and int(number) < count):
            raise CgpuError(
                f"{name}={show(text)}: expected CUDA_DEVICE_MEMORY_LIMIT_0 and so on, one for each GPU of "
                "the container"
            )
