# SPDX-License-Identifier: Apache-2.0
"""From options to grants on this node's GPUs, with the rules that hold for containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgpu.ask import NAMES, Said
from cgpu.errors import CgpuError
from cgpu.request import Request, check_size, named, spread, weight_of
from cgpu.run.sizes import parse_sizes
from cgpu.schema.request_validator import check
from cgpu.sizes import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.effective import Effective
    from cgpu.run.options import Options
    from cgpu.tree import Gpu

LIST = "see: cgpu-smi"


def resolve(options: Options, gpus: Sequence[Gpu], config: Effective) -> Request:
    """Work out the slices. Raises CgpuError: whoever asks here is sliced, or is refused."""
    if not gpus:
        raise CgpuError(f"the engine knows no GPU: {LIST}")
    sliced = _gpus(options.gpus, gpus)
    sizes = _sizes(options.mem, sliced, config)
    weight = _weight(options.weight)
    grants = tuple(
        (gpu.index, size * MIB, weight_of(weight, gpu, config), int(options.high_prio))
        for gpu, size in zip(sliced, sizes, strict=True)
    )
    return Request(grants, (), tuple(gpu.uuid for gpu in sliced))


def _gpus(text: str | None, gpus: Sequence[Gpu]) -> list[Gpu]:
    if text is not None:
        said = Said("--gpus", text)
        _check_form(said, "devices")
        return named(said, gpus)
    if len(gpus) == 1:
        return list(gpus)
    raise CgpuError(
        f"--gpus: not given, and there are {len(gpus)} GPUs; accepted are indexes, UUIDs or all, {LIST}"
    )


def _sizes(text: str | None, sliced: Sequence[Gpu], config: Effective) -> tuple[int, ...]:
    if text is not None:
        said = Said("--mem", text)
        amounts = parse_sizes(said)
    elif config.default_memsize:
        said = Said("default_memsize", str(config.default_memsize))
        amounts = (config.default_memsize // MIB,)
    else:
        raise CgpuError(
            "--mem: not given, and this node has no default_memsize; accepted is a size such as 6G"
        )
    sizes = spread(said, amounts, sliced)
    for size, gpu in zip(sizes, sliced, strict=True):
        check_size(said, size, gpu, config)
    return sizes


def _weight(text: str | None) -> Said | None:
    if text is None:
        return None
    said = Said("--weight", text)
    _check_form(said, "weight")
    return said


def _check_form(said: Said, key: str) -> None:
    """Refuse what a container's variable of the same meaning does not take, and an empty text."""
    variable = NAMES[key][0]
    # An empty variable is none. An empty argument is somebody's mistake: a blank stands for it, which never
    # fits.
    problem = check({"environment": {variable: said.text or " "}, "annotations": {}})
    if problem is not None:
        raise said.refuse(problem[3])
