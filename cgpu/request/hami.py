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
    _check_names(environment)
    sizes = []
    for number in range(MAX_GPUS):
        size = environment.get(f"{MEMORY}_{number}", "")
        if not size:
            break
        sizes.append(_size(f"{MEMORY}_{number}", size))
    _refuse_gap(environment, len(sizes))
    every = environment.get(MEMORY, "")
    if sizes and every:
        raise CgpuError(f"{MEMORY}={show(every)}: {MEMORY}_0 is set too, and means the same; set one of them")
    if sizes:
        return SourcedValue(f"{MEMORY}_0", ",".join(sizes))
    return SourcedValue(MEMORY, _size(MEMORY, every)) if every else None


def empty_amount(environment: Mapping[str, str]) -> SourcedValue | None:
    """Return a variable of the memory that is set to nothing."""
    for name, text in environment.items():
        if name.startswith(MEMORY) and not text:
            return SourcedValue(name, "")
    return None


def weight(environment: Mapping[str, str]) -> SourcedValue | None:
    """Return the compute that is asked for, as a percentage of a GPU's weights. Raises CgpuError.

    0 asks for none.
    """
    found: SourcedValue | None = None
    for name, text in environment.items():
        if not name.startswith(COMPUTE) or not text:
            continue
        if not is_number(text, 3) or int(text) > 100:
            raise CgpuError(f"{name}={show(text)}: expected a whole number from 0 to 100, in percent")
        if found is not None and found.text != f"{text}%":
            raise CgpuError(f"{name}={text}: {found.source} says something else; expected one for all GPUs")
        found = SourcedValue(name, f"{text}%")
    return None if found is None or found.text == "0%" else found


def _check_names(environment: Mapping[str, str]) -> None:
    for name in environment:
        for base in (MEMORY, COMPUTE):
            rest = name.removeprefix(base)
            if rest != name and rest and not (rest[0] == "_" and is_number(rest[1:], 2)):
                raise CgpuError(f"variable {show(name)}: there is none of that name; did you mean {base}?")


def _size(name: str, text: str) -> str:
    if text == "0":
        raise CgpuError(
            f"{name}=0: without a limit in HAMi-core; expected a size, such as 1g: a slice has one"
        )
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
