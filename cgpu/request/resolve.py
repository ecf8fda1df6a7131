# SPDX-License-Identifier: Apache-2.0
"""A container's allocation: its request, worked out for this node's GPUs. docs/variables.md has the rules."""

from __future__ import annotations

from cgpu.config import effective
from cgpu.errors import CgpuError, show
from cgpu.request.request import decide, is_silent
from cgpu.request.spec import MIG_REFUSED, VENDOR, VENDOR_NOTHING, mig_device, read
from cgpu.request.validate import SourcedValue
from cgpu.sizes import MIB, memory_in_bytes
from cgpu.slice import BESIDE_MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cgpu.client.tree import Gpu, Tree
    from cgpu.config.effective import Effective
    from cgpu.request.grants import Grant
    from cgpu.request.request import Request

LISTED = 5


class Allocation:
    """The GPUs of one container. Sizes in bytes. Treat it as read-only.

    grants: (GPU index, bytes, weight, high priority) of each sliced GPU, in the order they were named.
    passthrough: indexes of GPUs that stay whole. uuids: of the sliced ones, then of the others. shares: ids
    of those that the grants are made of, where Kubernetes has given them.
    """

    __slots__ = ("grants", "passthrough", "shares", "uuids")

    def __init__(
        self,
        grants: tuple[Grant, ...],
        passthrough: tuple[int, ...],
        uuids: tuple[str, ...],
        shares: tuple[str, ...] = (),
    ) -> None:
        self.grants = grants
        self.passthrough = passthrough
        self.uuids = uuids
        self.shares = shares

    def line_parts(self) -> tuple[tuple[Grant, ...], tuple[int, ...], tuple[str, ...]]:
        """Return what the line that registers the container has: grants and whole GPUs, or shares."""
        return ((), (), self.shares) if self.shares else (self.grants, self.passthrough, ())


def allocate(spec: Mapping[str, object], tree: Tree, config: Effective) -> Allocation | None:
    """Work out what a container gets on the node's GPUs, by its specification; None where it gets no slice.

    Raises CgpuError with one line that names the variable or annotation, its value and what is expected.
    """
    words = read(spec, config)
    if not is_silent(words):
        effective.check_started()
        tree.await_restart(config.hook_timeout)
    request = decide(words, config)
    if request is None:
        return None
    if request.is_by_default():
        config = tree.refresh(config)
    return resolve(request, tree.gpus(), config) if has_size(request, config) else None


def has_size(request: Request, config: Effective) -> bool:
    """Return whether something says how large the slices are. Raises CgpuError where they have to be.

    config: with the default_memsize that the tree has.
    """
    if not request.is_by_default() or config.default_memsize:
        return True
    if request.refusal is not None:
        raise request.refusal
    return False


def resolve(request: Request, gpus: Sequence[Gpu], config: Effective) -> Allocation:
    """Work out the slices of a request that has a size on the node's GPUs. Raises CgpuError."""
    words = request.words
    if request.pod is not None:
        from cgpu.request.by_shares import work_out

        grants, uuids = work_out(request, request.pod, gpus)
        return Allocation(grants, (), uuids, request.shares)
    if not gpus:
        raise CgpuError("a slice is asked for, but the engine knows no GPU: see cgpu-smi")
    sliced, passthrough = _devices(request, gpus, config)
    sizes = _sizes(request, sliced, config)
    asked = {one.name: getattr(words, one.asked) for one in BESIDE_MEMORY}
    grants = tuple(
        (gpu.index, size, *attributes(asked, gpu, config)) for gpu, size in zip(sliced, sizes, strict=True)
    )
    uuids = tuple(gpu.uuid for gpu in (*sliced, *passthrough))
    return Allocation(grants, tuple(gpu.index for gpu in passthrough), uuids)


def _devices(request: Request, gpus: Sequence[Gpu], config: Effective) -> tuple[list[Gpu], list[Gpu]]:
    words = request.words
    if words.devices is None:
        return _fallback(request, gpus, config), []
    sliced = named_gpus(words.devices, gpus)
    # The environment gives a whole GPU beside the slices only where it has named the slices, too.
    trusted = words.devices.trusted or (request.amount is not None and request.amount.trusted)
    if trusted or not config.allow_environment or words.vendor in (*VENDOR_NOTHING, "all"):
        return sliced, []
    value = SourcedValue(VENDOR, words.vendor)
    passthrough = [gpu for gpu in named_gpus(value, gpus) if gpu not in sliced]
    if passthrough and not config.allow_disable:
        raise value.refuse(
            f"GPU {passthrough[0].index} would not be sliced, and slicing cannot be switched off on this "
            "node (allow_disable: false in /etc/cgpu/config.yaml); name it in "
            f"{words.devices.source} too, or not at all"
        )
    return sliced, passthrough


def _fallback(request: Request, gpus: Sequence[Gpu], config: Effective) -> list[Gpu]:
    words = request.words
    if words.vendor not in VENDOR_NOTHING:
        return named_gpus(SourcedValue(VENDOR, words.vendor), gpus)
    if words.nodes is not None and (request.amount is None or words.nodes.minors is not None):
        return words.nodes.pick(gpus)
    if len(gpus) == 1:
        return list(gpus)
    name = "OPENCGPU_GPUS" if config.allow_environment else "the annotation opencgpu.io/gpus"
    raise CgpuError(
        f"this node has {len(gpus)} GPUs; choose with {name}=0 (or 0,1, a UUID, or all); cgpu-smi lists them"
    )


def named_gpus(value: SourcedValue, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs that a list of indexes and UUIDs, or `all`, names. Raises CgpuError."""
    if value.text == "all":
        return list(gpus)
    chosen: list[Gpu] = []
    for name in value.text.split(","):
        gpu = _named_gpu(value, name, gpus)
        if gpu in chosen:
            raise value.refuse(f"GPU {gpu.index} is named twice; name each GPU once")
        chosen.append(gpu)
    return chosen


def _named_gpu(value: SourcedValue, name: str, gpus: Sequence[Gpu]) -> Gpu:
    """Return the GPU of an index, of a UUID, or of the beginning of one that no other GPU has."""
    wanted = name.lower()
    found = [gpu for gpu in gpus if wanted in (str(gpu.index), gpu.uuid.lower())]
    if not found and wanted.startswith("gpu-") and wanted != "gpu-":
        found = [gpu for gpu in gpus if gpu.uuid.lower().startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(str(gpu.index) for gpu in found[:LISTED])
        raise value.refuse(
            f"{show(name)} is the beginning of {len(found)} UUIDs (GPU {which}); write more of it or an index"
        )
    if mig_device(name):
        raise value.refuse(MIG_REFUSED)
    if not name:
        raise value.refuse(f"an empty name in the list; available: {_listed(gpus)}, or all")
    raise value.refuse(f"no GPU {show(name)} here; available: {_listed(gpus)}, or all")


def _listed(gpus: Sequence[Gpu]) -> str:
    shown = ", ".join(f"{gpu.index} ({gpu.uuid[:12]})" for gpu in gpus[:LISTED])
    return shown if len(gpus) <= LISTED else f"{shown} and {len(gpus) - LISTED} more (cgpu-smi lists them)"


def _sizes(request: Request, sliced: list[Gpu], config: Effective) -> list[int]:
    words = request.words
    if request.amount is None:
        value = SourcedValue("default_memsize", str(config.default_memsize))
        sizes = [config.default_memsize // MIB] * len(sliced)
    elif words.mem is not None:
        return [size * MIB for size in memory_mib(words.mem, sliced, config)]
    else:
        value = request.amount
        parts = zip(spread(value, tuple(value.text.split(",")), sliced), sliced, strict=True)
        sizes = [_mib(value, words.dev, int(part), gpu) for part, gpu in parts]
    for size, gpu in zip(sizes, sliced, strict=True):
        check_size(value, size, gpu, config)
    return [size * MIB for size in sizes]


def memory_mib(value: SourcedValue, sliced: Sequence[Gpu], config: Effective) -> list[int]:
    """Return the whole MiB on each GPU of a well-formed list of sizes and percentages. Raises CgpuError."""
    sizes = []
    parts = tuple(value.text.split(","))
    _refuse_decimal_comma(value, parts, sliced)
    for part, gpu in zip(spread(value, parts, sliced), sliced, strict=True):
        size = (memory_in_bytes(part, gpu.memtotal) or 0) // MIB
        if size == 0:
            raise value.refuse(_too_small(part))
        check_size(value, size, gpu, config)
        sizes.append(size)
    return sizes


def _refuse_decimal_comma(value: SourcedValue, parts: Sequence[str], sliced: Sequence[Gpu]) -> None:
    """Refuse 1,5G on one GPU, in which the first part alone would be a byte or a few."""
    if len(parts) != 2 or len(sliced) != 1 or not parts[0].isdigit():
        return
    unit = "G" if parts[1].isdigit() else ""
    raise value.refuse(f"2 values for 1 GPU; a fraction has a point: {parts[0]}.{parts[1]}{unit}")


def _too_small(part: str) -> str:
    if not part.rstrip("%bBiIkKmMgGtT").strip("0."):
        return f"{part} is no memory; ask for more, such as 512M, or leave it out for no slice"
    if part.endswith("%"):
        return f"{part} is less than 1 MiB; ask for more"
    return f"{part} is less than 1 MiB; a number alone is bytes, so write 6G, 512M or 40%"


def spread(value: SourcedValue, amounts: tuple[str, ...], sliced: Sequence[Gpu]) -> tuple[str, ...]:
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


def attributes(asked: Mapping[str, SourcedValue | None], gpu: Gpu, config: Effective) -> tuple[int, ...]:
    """Return the attributes beside the memory that well-formed values ask for, their defaults without one.

    Raises CgpuError for a value out of bounds.
    """
    found = []
    for one in BESIDE_MEMORY:
        value = asked.get(one.name)
        if value is None:
            found.append(one.default or 0)
        elif one.name == "weight":
            found.append(_weight(value, gpu, config))
        elif one.number(value.text) > one.most:
            raise value.refuse(one.expected)
        else:
            found.append(one.number(value.text))
    return tuple(found)


def _weight(value: SourcedValue, gpu: Gpu, config: Effective) -> int:
    """Return the weight that well-formed text asks for. Raises CgpuError out of bounds."""
    weight = _percent_of(value.text[:-1], gpu.max_inst) if value.text.endswith("%") else int(value.text)
    least = 0 if config.allow_zero_weight else 1
    most, source = gpu.max_inst, f"max_inst of GPU {gpu.index}"
    if config.max_schd_weight is not None and config.max_schd_weight < most:
        most, source = config.max_schd_weight, "max_schd_weight of this node"
    if not least <= weight <= most and value.text.endswith("%"):
        raise value.refuse(f"that is a weight of {weight}; expected at most {most} ({source})")
    if not least <= weight <= most:
        raise value.refuse(f"expected a whole number from {least} to {most} ({source})")
    return weight


def _percent_of(text: str, weights: int) -> int:
    """Return so many percent of a GPU's weights, at least one."""
    return max(1, weights * int(text) // 100)
