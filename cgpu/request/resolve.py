# SPDX-License-Identifier: Apache-2.0
"""What a container gets: its request, worked out for this node's GPUs. docs/variables.md has the rules."""

from __future__ import annotations

from cgpu.config import effective
from cgpu.errors import CgpuError, show
from cgpu.request.spec import MIG_REFUSED, VENDOR, VENDOR_NOTHING, SourcedValue, mig_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.client.tree import Gpu, Tree
    from cgpu.config.effective import Effective
    from cgpu.request.grants import Grant
    from cgpu.request.spec import Request

MIB = 1 << 20


class Allocation:
    """The GPUs of one container. Sizes in bytes. Treat it as read-only.

    grants: (GPU index, bytes, weight, high priority) of each sliced GPU, in the order they were named.
    passthrough: indexes of GPUs that stay whole. uuids: of the sliced ones, then of the others.
    """

    __slots__ = ("grants", "passthrough", "uuids")

    def __init__(
        self, grants: tuple[Grant, ...], passthrough: tuple[int, ...], uuids: tuple[str, ...]
    ) -> None:
        self.grants = grants
        self.passthrough = passthrough
        self.uuids = uuids


def amounts_in_force(
    request: Request, tree: Tree, config: Effective
) -> tuple[tuple[int, ...] | None, Effective]:
    """Return a request's amounts, None where it gets no slice, and the configuration that says so.

    Raises CgpuError.
    """
    if not request.is_silent():
        effective.check_started()
    if request.defers(config):
        config = tree.refresh(config)
    return request.amounts(config), config


def resolve(request: Request, amounts: tuple[int, ...], gpus: Sequence[Gpu], config: Effective) -> Allocation:
    """Work out the slices of a container on the node's GPUs. amounts: those of the request.

    Raises CgpuError with one line that names the variable or annotation, its value and what is expected.
    """
    if not gpus:
        raise CgpuError("a slice is asked for, but the engine knows no GPU: see cgpu-smi")
    sliced, passthrough = _devices(request, gpus, config)
    sizes = _sizes(request, amounts, sliced, config)
    highprio = int(request.highprio.text) if request.highprio is not None else 0
    grants = tuple(
        (gpu.index, size, weight_of(request.weight, gpu, config), highprio)
        for gpu, size in zip(sliced, sizes, strict=True)
    )
    uuids = tuple(gpu.uuid for gpu in (*sliced, *passthrough))
    return Allocation(grants, tuple(gpu.index for gpu in passthrough), uuids)


def _devices(request: Request, gpus: Sequence[Gpu], config: Effective) -> tuple[list[Gpu], list[Gpu]]:
    if request.devices is None:
        return _fallback(request, gpus), []
    sliced = named_gpus(request.devices, gpus)
    # The environment gives a whole GPU beside the slices only where it has named the slices, too.
    trusted = request.devices.trusted or (request.container is not None and request.container.trusted)
    if trusted or not config.allow_environment or request.vendor in (*VENDOR_NOTHING, "all"):
        return sliced, []
    value = SourcedValue(VENDOR, request.vendor)
    passthrough = [gpu for gpu in named_gpus(value, gpus) if gpu not in sliced]
    if passthrough and not config.allow_disable:
        raise value.refuse(
            f"GPU {passthrough[0].index} would not be sliced, and slicing cannot be switched off on this "
            "node (allow_disable: false in /etc/cgpu/config.yaml); name it in "
            f"{request.devices.source} too, or not at all"
        )
    return sliced, passthrough


def _fallback(request: Request, gpus: Sequence[Gpu]) -> list[Gpu]:
    if request.vendor not in VENDOR_NOTHING:
        return named_gpus(SourcedValue(VENDOR, request.vendor), gpus)
    if request.nodes is not None and (request.container is None or request.nodes.minors is not None):
        return request.nodes.pick(gpus)
    if len(gpus) == 1:
        return list(gpus)
    raise CgpuError(
        f"a slice is asked for, but none of the {len(gpus)} GPUs is named: set "
        f"ALIYUN_COM_GPU_VISIBLE_DEVICES or {VENDOR} to indexes, UUIDs or all"
    )


def named_gpus(value: SourcedValue, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs that a list of indexes and UUIDs, or `all`, names. Raises CgpuError."""
    if value.text == "all":
        return list(gpus)
    by_name = {str(gpu.index): gpu for gpu in gpus}
    by_name.update((gpu.uuid.lower(), gpu) for gpu in gpus)
    chosen: list[Gpu] = []
    for name in value.text.split(","):
        gpu = by_name.get(name.lower())
        if gpu is None and mig_device(name):
            raise value.refuse(MIG_REFUSED)
        if gpu is None:
            named, indexes = show(name) or "with an empty name", ", ".join(str(one.index) for one in gpus)
            raise value.refuse(
                f"there is no GPU {named}; expected {indexes}, the UUIDs that cgpu-smi --json shows, or all"
            )
        if gpu in chosen:
            raise value.refuse(f"GPU {gpu.index} is named twice; name each GPU once")
        chosen.append(gpu)
    return chosen


def _sizes(request: Request, amounts: tuple[int, ...], sliced: list[Gpu], config: Effective) -> list[int]:
    if request.container is None:
        value = SourcedValue("default_memsize", str(config.default_memsize))
        sizes = [config.default_memsize // MIB] * len(sliced)
    else:
        value = request.container
        amounts = spread(value, amounts, sliced)
        sizes = [_mib(value, request.dev, amount, gpu) for amount, gpu in zip(amounts, sliced, strict=True)]
    for size, gpu in zip(sizes, sliced, strict=True):
        check_size(value, size, gpu, config)
    return [size * MIB for size in sizes]


def spread(value: SourcedValue, amounts: tuple[int, ...], sliced: Sequence[Gpu]) -> tuple[int, ...]:
    """Return one amount for each GPU: they go in order, and the last one repeats. Raises CgpuError."""
    if len(amounts) > len(sliced):
        count = "1 GPU" if len(sliced) == 1 else f"{len(sliced)} GPUs"
        raise value.refuse(f"{len(amounts)} values for {count}; give at most one for each")
    return amounts + amounts[-1:] * (len(sliced) - len(amounts))


def _mib(value: SourcedValue, dev: SourcedValue | None, amount: int, gpu: Gpu) -> int:
    card = gpu.memtotal // MIB
    whole = int(dev.text) if dev is not None else card // 1024
    if whole == 0:
        raise value.refuse(
            f"GPU {gpu.index} has only {card} MiB: say what a whole card is in ALIYUN_COM_GPU_MEM_DEV"
        )
    if amount > whole:
        origin = f"{dev.source}={dev.text}" if dev is not None else f"{whole} GiB of GPU {gpu.index}"
        raise value.refuse(f"{amount} is more than the whole card ({origin}); expected at most {whole}")
    return card * amount // whole


def check_size(value: SourcedValue, size: int, gpu: Gpu, config: Effective) -> None:
    """Raise CgpuError unless a slice of so many MiB can be one of this GPU and is allowed on this node."""
    card = gpu.memtotal // MIB
    if size == 0:
        raise value.refuse(f"that is less than 1 MiB of GPU {gpu.index} ({card} MiB); ask for more")
    if size > card:
        raise value.refuse(f"that is {size} MiB, and GPU {gpu.index} has {card} MiB; expected at most that")
    bound = config.max_mem_container_mib
    if bound is not None and size > bound:
        raise value.refuse(
            f"that is {size} MiB of GPU {gpu.index}; this node allows {bound} (max_mem_container_mib)"
        )


def weight_of(value: SourcedValue | None, gpu: Gpu, config: Effective) -> int:
    """Return the weight that well-formed text asks for, 1 without one. Raises CgpuError out of bounds."""
    if value is None:
        return 1
    weight = int(value.text)
    least = 0 if config.allow_zero_weight else 1
    most, source = gpu.max_inst, f"max_inst of GPU {gpu.index}"
    if config.max_schd_weight is not None and config.max_schd_weight < most:
        most, source = config.max_schd_weight, "max_schd_weight of this node"
    if not least <= weight <= most:
        raise value.refuse(f"expected a whole number from {least} to {most} ({source})")
    return weight
