# SPDX-License-Identifier: Apache-2.0
"""Requests of a pod by the names of other systems, which docs/kubernetes.md lists.

Sources: ACK's documentation (aliyun.com/gpu-mem), Project-HAMi/HAMi (docs), volcano-sh/volcano
(user guide of vGPU), NVIDIA/KAI-Scheduler (docs/gpu-sharing).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError, show
from cgpu.kubernetes.admission.shape import Shape
from cgpu.kubernetes.admission.unheeded import PRIORITY
from cgpu.kubernetes.quantity import read_amount

# MiB of the units that memory is counted in.
UNITS = {"GiB": 1024, "MiB": 1}
MIB_OF_GIB = UNITS["GiB"]
MAX_AMOUNT = 1 << 30
# Not k: in place of 3000 the API server itself may write 3k.
SUFFIX = re.compile("[KMGTPE]i?$")
MAX_COUNT = 32  # devices of one claim (AllocationResultsMaxSize of resource.k8s.io/v1)
WEIGHTS = Effective().max_inst  # unless a node says otherwise: a weight is 5 percent
ANNOTATED_CONTAINER = "gpu-fraction-container-name"


@dataclass(frozen=True, slots=True)
class Names:
    """The resource names of one system; an empty one: it has none.

    unit: MiB of one of its memory; divided: the memory is that of all GPUs together.
    """

    memory: str
    unit: int
    percentage: str
    cores: str
    count: str
    divided: bool = False

    def all(self) -> tuple[str, ...]:
        """Return those that there are."""
        return tuple(filter(None, (self.memory, self.percentage, self.cores, self.count)))


ACK = Names(
    "aliyun.com/gpu-mem",
    MIB_OF_GIB,
    "",
    "aliyun.com/gpu-core.percentage",
    "aliyun.com/gpu-count",
    divided=True,
)
HAMI = Names("nvidia.com/gpumem", 1, "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "nvidia.com/gpu")
VOLCANO = Names(
    "volcano.sh/vgpu-memory",
    1,
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
    "volcano.sh/vgpu-number",
)
SYSTEMS = (ACK, HAMI, VOLCANO)
ALL = frozenset(name for names in SYSTEMS for name in names.all()) | {PRIORITY}
# NVIDIA's own plugin has this name, too: without one of HAMi's others it is not for us.
SHARED_NAME = HAMI.count
OTHERS_NAMES = frozenset((SHARED_NAME, PRIORITY))
# A pod can have these names beside its claim, for quotas to count, where the scheduler ignores them. A node
# of NVIDIA's plugin would give the pod a whole GPU for the others.
KEPT = ALL - OTHERS_NAMES
KAI_MEMORY, KAI_FRACTION, KAI_COUNT = "gpu-memory", "gpu-fraction", "gpu-fraction-num-devices"


def of_container(
    container: Mapping[str, Any], labels: Mapping[str, str], ack_unit: int = MIB_OF_GIB
) -> Shape | None:
    """Return what a container's resources ask for, None for nothing of ours. Raises CgpuError.

    labels: of the pod: ACK spreads a request over as many cards as one of them says. ack_unit: MiB of one
    aliyun.com/gpu-mem.
    """
    limits = _resources(container, "limits")
    systems = (replace(ACK, unit=ack_unit), HAMI, VOLCANO)
    found = [(names, shape) for names in systems if (shape := _shape(names, limits, labels)) is not None]
    _refuse_requests_alone(container, limits)
    if len(found) > 1:
        first, second = found[0][0].memory, found[1][0].memory
        raise CgpuError(f"{_where(container)}: {first} and {second} mean the same; expected one of them")
    if found and found[0][0] is not HAMI and SHARED_NAME in limits:
        raise CgpuError(
            f"{_where(container)}: {SHARED_NAME} beside {found[0][0].memory}: expected one of them"
        )
    return found[0][1] if found else None


def of_annotations(annotations: Mapping[str, str]) -> Shape | None:
    """Return what KAI's annotations ask for, None for nothing. Raises CgpuError."""
    memory, fraction = annotations.get(KAI_MEMORY), annotations.get(KAI_FRACTION)
    if memory is None and fraction is None:
        return None
    if memory is not None and fraction is not None:
        raise CgpuError(f"annotations {KAI_MEMORY} and {KAI_FRACTION}: expected one of them")
    count = _number(f"annotation {KAI_COUNT}", annotations.get(KAI_COUNT, "1"), 1, MAX_COUNT)
    if memory is not None:
        if SUFFIX.search(memory):
            raise CgpuError(f"annotation {KAI_MEMORY}: {show(memory)}: expected the number of MiB alone")
        return Shape(_number(f"annotation {KAI_MEMORY}", memory, 1, MAX_AMOUNT), count=count)
    return Shape(None, _percent(str(fraction)), count)


def names_beside(container: Mapping[str, Any]) -> frozenset[str]:
    """Return all names of the systems by whose names a container asks."""
    named = frozenset(names_in(container)) - OTHERS_NAMES
    return frozenset(name for names in SYSTEMS if named & set(names.all()) for name in names.all())


def names_in(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of ours that a container's resources have."""
    for kind in ("limits", "requests"):
        yield from (name for name in _resources(container, kind) if name in ALL)


def _shape(names: Names, limits: Mapping[str, Any], labels: Mapping[str, str]) -> Shape | None:
    found = {name: limits[name] for name in names.all() if name in limits}
    if not found or set(found) == {SHARED_NAME}:
        return None
    memory = _memory(names, found)
    percent = _amount(names.percentage, found, 100)
    cores = _amount(names.cores, found, 100)
    if not memory and not percent:
        if any(_amount(name, found, MAX_AMOUNT) for name in found):
            wanted = " or ".join(filter(None, (names.memory, names.percentage)))
            raise CgpuError(f"{next(iter(found))}: nothing says how much memory; set {wanted}, too")
        return None
    if memory and percent:
        raise CgpuError(f"{names.memory} and {names.percentage} mean the same; expected one of them")
    count = _count(names, found, labels)
    weight = max(1, WEIGHTS * cores // 100) if cores else None
    if percent:
        return Shape(None, percent, count, weight)
    return Shape(_each(names, memory, count), None, count, weight)


def _count(names: Names, found: Mapping[str, Any], labels: Mapping[str, str]) -> int:
    by_label = labels.get(names.count) if names.divided else None
    if by_label is not None:
        return _number(f"label {names.count}", by_label, 1, MAX_COUNT)
    return _amount(names.count, found, MAX_COUNT) or 1


def _each(names: Names, memory: int, count: int) -> int:
    """Return the MiB on each GPU: ACK divides what is asked for, the others give it on each."""
    if not names.divided:
        return memory * names.unit
    if memory % count:
        raise CgpuError(f"{names.memory}: {memory}: expected a multiple of {count}, the {names.count}")
    return memory * names.unit // count


def _memory(names: Names, found: Mapping[str, Any]) -> int:
    if SUFFIX.search(str(found.get(names.memory, ""))):
        unit = next(word for word, mib in UNITS.items() if mib == names.unit)
        raise CgpuError(f"{names.memory}: {show(found[names.memory])}: expected the number of {unit} alone")
    return _amount(names.memory, found, MAX_AMOUNT)


def _amount(name: str, found: Mapping[str, Any], most: int) -> int:
    """Return the whole number of a resource, 0 where it is not there."""
    return _number(name, str(found[name]), 0, most) if name in found else 0


def _number(what: str, text: str, least: int, most: int) -> int:
    value = read_amount(text)
    if value is None or value != int(value) or not least <= value <= most:
        raise CgpuError(f"{what}: {show(text)}: expected a whole number from {least} to {most}")
    return int(value)


def _percent(fraction: str) -> int:
    value = read_amount(fraction)
    if value is None or not 0 < value <= 1 or value * 100 != int(value * 100):
        raise CgpuError(f"annotation {KAI_FRACTION}: {show(fraction)}: expected 0.01 to 1, in hundredths")
    return int(value * 100)


def _refuse_requests_alone(container: Mapping[str, Any], limits: Mapping[str, Any]) -> None:
    for name, amount in _resources(container, "requests").items():
        if name in ALL - OTHERS_NAMES and str(limits.get(name)) != str(amount):
            raise CgpuError(f"{_where(container)}: {name} in requests: expected the same in limits")


def _resources(container: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get(kind) or {}


def _where(container: Mapping[str, Any]) -> str:
    return f"container {show(container.get('name'))}"
