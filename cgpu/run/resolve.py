# SPDX-License-Identifier: Apache-2.0
"""From options to grants on this node's GPUs, with the rules that hold for containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgpu.errors import CgpuError
from cgpu.request.resolve import Allocation, attributes, check_size, memory_mib, named_gpus
from cgpu.request.spec import malformed
from cgpu.request.validate import SourcedValue, expected
from cgpu.sizes import MIB
from cgpu.slice import BESIDE_MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.client.tree import Gpu
    from cgpu.config.effective import Effective
    from cgpu.run.main import Options
    from cgpu.slice import Attribute

SEE = "see: cgpu-smi"


def resolve(options: Options, gpus: Sequence[Gpu], config: Effective) -> Allocation:
    """Work out the slices. Raises CgpuError for a command that gets none: it never runs without a slice."""
    if not gpus:
        raise CgpuError(f"the engine has no GPU: {SEE}")
    sliced = _gpus(options.gpus, gpus)
    sizes = _sizes(options.mem, sliced, config)
    asked = {
        one.name: _value(one, options.values[one.name]) for one in BESIDE_MEMORY if one.name in options.values
    }
    grants = tuple(
        (gpu.index, size * MIB, *attributes(asked, gpu, config))
        for gpu, size in zip(sliced, sizes, strict=True)
    )
    return Allocation(grants, (), tuple(gpu.uuid for gpu in sliced))


def _gpus(text: str | None, gpus: Sequence[Gpu]) -> list[Gpu]:
    if text is not None:
        value = SourcedValue("--gpus", text)
        _check_form(value, "devices")
        return named_gpus(value, gpus)
    if len(gpus) == 1:
        return list(gpus)
    raise CgpuError(f"this node has {len(gpus)} GPUs; choose with --gpus 0 (or 0,1, a UUID, all); {SEE}")


def _sizes(text: str | None, sliced: Sequence[Gpu], config: Effective) -> list[int]:
    if text is not None:
        value = SourcedValue("--mem", text)
        _check_form(value, "mem")
        return memory_mib(value, sliced, config)
    if not config.default_memsize:
        raise CgpuError("how much memory? choose with --mem 6G (this node has no default_memsize)")
    value = SourcedValue("default_memsize", str(config.default_memsize))
    for gpu in sliced:
        check_size(value, config.default_memsize // MIB, gpu, config)
    return [config.default_memsize // MIB] * len(sliced)


def _value(attribute: Attribute, text: str) -> SourcedValue:
    value = SourcedValue(attribute.option, text)
    _check_form(value, attribute.asked)
    return value


def _check_form(value: SourcedValue, key: str) -> None:
    """Refuse what a container's variable of the same meaning does not take, and an empty text."""
    # An empty variable counts as unset. An empty argument is a mistake: a blank stands for it, which never
    # fits.
    wanted = expected(key, value.text or " ")
    if wanted is not None:
        raise value.refuse(malformed(key, value.source, value.text))
