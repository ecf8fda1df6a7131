# SPDX-License-Identifier: Apache-2.0
"""What a container gets: its request, worked out for this node's GPUs. docs/variables.md has the rules."""

from __future__ import annotations

from cgpu.ask import MIG_REFUSED, VENDOR, VENDOR_NOTHING, Ask, Said, mig_device, read
from cgpu.errors import CgpuError, show
from cgpu.grants import format_grants, parse_grant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cgpu.effective import Effective
    from cgpu.grants import Grant
    from cgpu.tree import Gpu

__all__ = [
    "Request",
    "check_size",
    "defers",
    "format_grants",
    "is_silent",
    "named",
    "parse_grant",
    "resolve",
    "spread",
    "wants",
    "weight_of",
]

MIB = 1 << 20


class Request:
    """The GPUs of one container. Sizes in bytes.

    grants: (GPU index, bytes, weight, high priority) of each sliced GPU, in the order they were named.
    native: indexes of GPUs that stay whole. uuids: of the sliced ones, then of the native ones.
    """

    __slots__ = ("grants", "native", "uuids")

    def __init__(self, grants: tuple[Grant, ...], native: tuple[int, ...], uuids: tuple[str, ...]) -> None:
        """Keep the three."""
        self.grants = grants
        self.native = native
        self.uuids = uuids


def wants(spec: Mapping[str, object], config: Effective) -> bool:
    """Return whether the container is to be sliced. Needs no tree. Raises CgpuError when malformed."""
    return read(spec, config).amounts(config) is not None


def is_silent(spec: Mapping[str, object], config: Effective) -> bool:
    """Return whether a container says nothing of GPUs, neither to us nor to the vendor's toolkit."""
    return read(spec, config).is_silent()


def defers(spec: Mapping[str, object], config: Effective) -> bool:
    """Return whether only the node's default_memsize decides if the container is sliced.

    Such a container names a GPU and no amount. Ask the tree then: `config = Tree(...).refresh(config)`.
    """
    ask = read(spec, config)
    return ask.container is None and ask.amounts(config.replace(default_memsize=1)) is not None


def resolve(spec: Mapping[str, object], gpus: Sequence[Gpu], config: Effective) -> Request | None:
    """Work out the slices of a container; None when it is not to be sliced.

    spec is its config.json, gpus are those of the node. Raises CgpuError with one line that names
    the variable or annotation, its value and what is accepted.
    """
    ask = read(spec, config)
    amounts = ask.amounts(config)
    if amounts is None:
        return None
    if not gpus:
        raise CgpuError("a slice is asked for, but the engine knows no GPU: see cgpu-smi")
    sliced, native = _devices(ask, gpus, config)
    sizes = _sizes(ask, amounts, sliced, config)
    highprio = int(ask.highprio.text) if ask.highprio is not None else 0
    grants = tuple(
        (gpu.index, size, weight_of(ask.weight, gpu, config), highprio)
        for gpu, size in zip(sliced, sizes, strict=True)
    )
    uuids = tuple(gpu.uuid for gpu in (*sliced, *native))
    return Request(grants, tuple(gpu.index for gpu in native), uuids)


# --- which GPUs ---


def _devices(ask: Ask, gpus: Sequence[Gpu], config: Effective) -> tuple[list[Gpu], list[Gpu]]:
    if ask.devices is None:
        return _fallback(ask, gpus), []
    sliced = named(ask.devices, gpus)
    # A whole GPU beside the slices is given only by the same, accepted voice that named the slices.
    trusted = ask.devices.trusted or (ask.container is not None and ask.container.trusted)
    if trusted or not config.allow_environment or ask.vendor in (*VENDOR_NOTHING, "all"):
        return sliced, []
    said = Said(VENDOR, ask.vendor)
    native = [gpu for gpu in named(said, gpus) if gpu not in sliced]
    if native and not config.allow_disable:
        raise said.refuse(
            f"GPU {native[0].index} would not be sliced, and slicing cannot be switched off on this node "
            f"(allow_disable: false in /etc/cgpu/config.yaml); name it in {ask.devices.label} too, or not at "
            "all"
        )
    return sliced, native


def _fallback(ask: Ask, gpus: Sequence[Gpu]) -> list[Gpu]:
    if ask.vendor not in VENDOR_NOTHING:
        return named(Said(VENDOR, ask.vendor), gpus)
    if ask.nodes is not None and (ask.container is None or ask.nodes.minors is not None):
        return ask.nodes.pick(gpus)
    if len(gpus) == 1:
        return list(gpus)
    raise CgpuError(
        f"a slice is asked for, but none of the {len(gpus)} GPUs is named: set "
        f"ALIYUN_COM_GPU_VISIBLE_DEVICES or {VENDOR} to indexes, UUIDs or all"
    )


def named(said: Said, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs that a list of indexes and UUIDs, or `all`, names. Raises CgpuError."""
    if said.text == "all":
        return list(gpus)
    by_name = {str(gpu.index): gpu for gpu in gpus}
    by_name.update((gpu.uuid.lower(), gpu) for gpu in gpus)
    chosen: list[Gpu] = []
    for name in said.text.split(","):
        gpu = by_name.get(name.lower())
        if gpu is None and mig_device(name):
            raise said.refuse(MIG_REFUSED)
        if gpu is None:
            raise said.refuse(f"there is no GPU {_short(name)}; accepted are {_accepted(gpus)}")
        if gpu in chosen:
            raise said.refuse(f"GPU {gpu.index} is named twice; name each GPU once")
        chosen.append(gpu)
    return chosen


def _short(name: str) -> str:
    return show(name) or "with an empty name"


def _accepted(gpus: Sequence[Gpu]) -> str:
    indexes = ", ".join(str(gpu.index) for gpu in gpus)
    return f"{indexes}, the UUIDs that cgpu-smi --json shows, or all"


# --- how much of each ---


def _sizes(ask: Ask, amounts: tuple[int, ...], sliced: list[Gpu], config: Effective) -> list[int]:
    if ask.container is None:
        said = Said("default_memsize", str(config.default_memsize))
        sizes = [config.default_memsize // MIB] * len(sliced)
    else:
        said = ask.container
        amounts = spread(said, amounts, sliced)
        sizes = [_mib(said, ask.dev, amount, gpu) for amount, gpu in zip(amounts, sliced, strict=True)]
    for size, gpu in zip(sizes, sliced, strict=True):
        check_size(said, size, gpu, config)
    return [size * MIB for size in sizes]


def spread(said: Said, amounts: tuple[int, ...], sliced: Sequence[Gpu]) -> tuple[int, ...]:
    """Return one amount for each GPU: they go in order, and the last one repeats. Raises CgpuError."""
    if len(amounts) > len(sliced):
        raise said.refuse(f"{len(amounts)} values for {_count(sliced)}; give at most one for each")
    return amounts + amounts[-1:] * (len(sliced) - len(amounts))


def _count(gpus: Sequence[Gpu]) -> str:
    return "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"


def _mib(said: Said, dev: Said | None, amount: int, gpu: Gpu) -> int:
    card = gpu.memtotal // MIB
    whole = int(dev.text) if dev is not None else card // 1024
    if whole == 0:
        raise said.refuse(
            f"GPU {gpu.index} has only {card} MiB: say what a whole card is in ALIYUN_COM_GPU_MEM_DEV"
        )
    if amount > whole:
        origin = f"{dev.label}={dev.text}" if dev is not None else f"{whole} GiB of GPU {gpu.index}"
        raise said.refuse(f"{amount} is more than the whole card ({origin}); accepted is at most {whole}")
    return card * amount // whole


def check_size(said: Said, size: int, gpu: Gpu, config: Effective) -> None:
    """Raise CgpuError unless a slice of so many MiB can be one of this GPU and is allowed on this node."""
    card = gpu.memtotal // MIB
    if size == 0:
        raise said.refuse(f"that is less than 1 MiB of GPU {gpu.index} ({card} MiB); ask for more")
    if size > card:
        raise said.refuse(f"that is {size} MiB, and GPU {gpu.index} has {card} MiB; accepted is at most that")
    bound = config.max_mem_container_mib
    if bound is not None and size > bound:
        raise said.refuse(
            f"that is {size} MiB of GPU {gpu.index}; this node allows {bound} (max_mem_container_mib)"
        )


# --- compute ---


def weight_of(said: Said | None, gpu: Gpu, config: Effective) -> int:
    """Return the weight that well-formed text asks for, 1 without one. Raises CgpuError out of bounds."""
    if said is None:
        return 1
    weight = int(said.text)
    least = 0 if config.allow_zero_weight else 1
    most, source = gpu.max_inst, f"max_inst of GPU {gpu.index}"
    if config.max_schd_weight is not None and config.max_schd_weight < most:
        most, source = config.max_schd_weight, "max_schd_weight of this node"
    if not least <= weight <= most:
        raise said.refuse(f"a whole number from {least} to {most} ({source}) is accepted")
    return weight
