# SPDX-License-Identifier: Apache-2.0
"""Reads the annotations by which another scheduler has decided for a pod to parts of cards by container.

Each system has one reader. A pod whose annotations say less, more or something else than its containers and
this node's cards allow has no parts at all. Sources, read in the summer of 2026:

- Project-HAMi/HAMi, pkg/device/devices.go (EncodePodSingleDevice), pkg/scheduler/score.go: an entry for each
  container; init containers are first since its change 1773, and had none before.
- volcano-sh/volcano, pkg/scheduler/api/devices/nvidia/vgpu/utils.go (encodePodDevices), devices/util.go
  (ExtractResourceRequest): an entry for each container that asks, and none for the others.
- AliyunContainerService/gpushare-scheduler-extender, pkg/utils/pod.go (PatchPodAnnotationSpec): one card, and
  the sum of the containers' amounts. gpushare-device-plugin, cmd/inspect/nodeinfo.go (GetAllocation): the
  newer form, by the container's index and the card's.
- koordinator-sh/koordinator, apis/extension/device_share.go (DeviceAllocations): cards of the whole pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from lightkube.models.core_v1 import Container
from lightkube.resources.core_v1 import Pod

from cgpu.errors import CgpuError, show
from cgpu.fastjson import UniqueContext, loads
from cgpu.kubernetes.node.card import Card
from cgpu.kubernetes.node.units import MIB_OF_GIB, published_mib
from cgpu.kubernetes.quantity import read_amount
from cgpu.request.grants import is_number
from cgpu.sizes import MIB

MAX_TEXT = 1 << 14  # of an annotation
DIGITS = 9
TYPE = "NVIDIA"
HAMI, HAMI_NODE = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-node"
VOLCANO, VOLCANO_NODE = "volcano.sh/vgpu-ids-new", "volcano.sh/vgpu-node"
VOLCANO_NAMES = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory")
GPUSHARE_ALLOCATION = "scheduler.framework.gpushare.allocation"
GPUSHARE_CARD, GPUSHARE_WHOLE = "ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_DEV"
GPUSHARE_SUM = "ALIYUN_COM_GPU_MEM_POD"
GPUSHARE_NAMES = ("aliyun.com/gpu-mem",)
KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
KOORDINATOR_MEMORY, KOORDINATOR_CORES = "koordinator.sh/gpu-memory", "koordinator.sh/gpu-core"
KOORDINATOR_NAMES = (
    *(f"koordinator.sh/gpu{end}" for end in ("", ".shared", "-core", "-memory", "-memory-ratio")),
    "nvidia.com/gpu",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A container's part of a card. cores: percent of the card's compute, 0 where nothing is said."""

    gpu: str
    mib: int
    cores: int = 0


# By the name of the container: its parts, each of another card.
Decision = Mapping[str, tuple[Part, ...]]


def hami(pod: Pod, cards: Sequence[Card]) -> Decision:
    """Read HAMi's list, in which a semicolon ends a container's entry. Raises CgpuError."""
    text = _annotation(pod, HAMI)
    if not text.endswith(";"):
        raise CgpuError(f"annotation {HAMI}: {show(text)}: expected a semicolon at its end")
    entries = text[:-1].split(";")
    inits, mains = _init_containers(pod), _containers(pod)
    listed = mains if len(entries) == len(mains) else [*inits, *mains]
    return _by_entries(HAMI, entries, listed, cards)


def volcano(pod: Pod, cards: Sequence[Card]) -> Decision:
    """Read Volcano's list, in which a semicolon stands between two entries. Raises CgpuError."""
    return _by_entries(VOLCANO, _annotation(pod, VOLCANO).split(";"), _asking(pod, VOLCANO_NAMES), cards)


def gpushare(pod: Pod, cards: Sequence[Card]) -> Decision:
    """Read either form of gpushare's annotations. Raises CgpuError."""
    if GPUSHARE_ALLOCATION in annotations_of(pod):
        return _gpushare_allocation(pod, cards)
    card = _card_of(GPUSHARE_CARD, _annotation(pod, GPUSHARE_CARD), cards)
    amounts = {one.name: _limit(one, GPUSHARE_NAMES[0]) for one in _asking(pod, GPUSHARE_NAMES)}
    said = _number(GPUSHARE_SUM, _annotation(pod, GPUSHARE_SUM))
    if sum(amounts.values()) != said:
        raise CgpuError(
            f"annotation {GPUSHARE_SUM}: {said}: expected {sum(amounts.values())}, the sum of "
            f"{GPUSHARE_NAMES[0]} of the pod's containers"
        )
    return {name: (_fraction(pod, card, amount),) for name, amount in amounts.items()}


def koordinator(pod: Pod, cards: Sequence[Card]) -> Decision:
    """Read Koordinator's JSON, which is for the whole pod: one container may ask. Raises CgpuError."""
    asking = _asking(pod, KOORDINATOR_NAMES)
    if len(asking) != 1:
        raise CgpuError(
            f"annotation {KOORDINATOR}: it names no containers, and {len(asking)} of the pod ask for a GPU; "
            "expected one"
        )
    document = _json(KOORDINATOR, _annotation(pod, KOORDINATOR))
    listed = document.get("gpu")
    if not isinstance(listed, list) or not listed:
        raise CgpuError(f"annotation {KOORDINATOR}: gpu: {show(listed)}: expected a list of cards")
    return {asking[0].name: _of_one_container(_koordinator_part(one, cards) for one in listed)}


@dataclass(frozen=True, slots=True)
class System:
    """A system whose scheduler decides. keys: the annotations that count; node: that with the node's name."""

    keys: tuple[str, ...]
    read: Callable[[Pod, Sequence[Card]], Decision]
    node: str | None = None


SYSTEMS: Mapping[str, System] = {
    "hami": System((HAMI,), hami, HAMI_NODE),
    "volcano": System((VOLCANO,), volcano, VOLCANO_NODE),
    "gpushare": System((GPUSHARE_ALLOCATION, GPUSHARE_CARD, GPUSHARE_WHOLE, GPUSHARE_SUM), gpushare),
    "koordinator": System((KOORDINATOR,), koordinator),
}


def decided(system: str, scheduler: str, node: str, pod: Pod, cards: Sequence[Card]) -> Decision | None:
    """Return what a system's scheduler of that name has decided for a pod of this node.

    None where its annotations say nothing. Raises CgpuError for what does not fit the pod, node or cards.
    """
    of = SYSTEMS[system]
    said = annotations_of(pod)
    if not any(key in said for key in of.keys):
        return None
    assert pod.spec is not None
    if pod.spec.schedulerName != scheduler:
        raise CgpuError(
            f"schedulerName: {show(pod.spec.schedulerName)}: its annotations are those of {scheduler}"
        )
    if pod.spec.nodeName != node or (of.node is not None and said.get(of.node) != node):
        raise CgpuError(f"annotation {of.node}: {show(said.get(of.node or ''))}: the pod is on {show(node)}")
    return of.read(pod, cards)


def _by_entries(
    key: str, entries: Sequence[str], containers: Sequence[Container], cards: Sequence[Card]
) -> Decision:
    if len(entries) != len(containers):
        raise CgpuError(
            f"annotation {key}: {len(entries)} entries; expected {len(containers)}, one for each container"
        )
    return {
        container.name: _of_one_container(_parts(key, entry, cards))
        for container, entry in zip(containers, entries, strict=True)
        if entry
    }


def _parts(key: str, entry: str, cards: Sequence[Card]) -> Iterator[Part]:
    """Yield the parts of UUID,NVIDIA,MiB,PERCENT:UUID,…: of one container."""
    if not entry.endswith(":"):
        raise CgpuError(f"annotation {key}: {show(entry)}: expected a colon at the end of each card")
    for text in entry[:-1].split(":"):
        words = text.split(",")
        if len(words) != 4 or words[1] != TYPE:
            raise CgpuError(f"annotation {key}: {show(text)}: expected UUID,{TYPE},MiB,PERCENT")
        yield _part(key, _by_uuid(key, words[0], cards), _number(key, words[2]), _number(key, words[3]))


def _gpushare_allocation(pod: Pod, cards: Sequence[Card]) -> Decision:
    containers = _containers(pod)
    found = {}
    for index, amounts in _json(GPUSHARE_ALLOCATION, _annotation(pod, GPUSHARE_ALLOCATION)).items():
        if not is_number(index, DIGITS) or int(index) >= len(containers) or not isinstance(amounts, dict):
            raise CgpuError(
                f"annotation {GPUSHARE_ALLOCATION}: {show(index)}: expected the index of a container and an "
                "object"
            )
        found[containers[int(index)].name] = _of_one_container(
            _fraction(pod, _card_of(GPUSHARE_ALLOCATION, minor, cards), amount)
            for minor, amount in amounts.items()
        )
    return found


def _fraction(pod: Pod, card: Card, amount: object) -> Part:
    """Return the part that an amount is of a card, whose whole the pod may say: else it is the card's GiB."""
    whole = card.mib // MIB_OF_GIB
    if GPUSHARE_WHOLE in annotations_of(pod):
        whole = _number(GPUSHARE_WHOLE, _annotation(pod, GPUSHARE_WHOLE))
    if type(amount) is not int or not 1 <= amount <= whole:
        raise CgpuError(f"gpushare gives {show(amount)} of GPU {card.index}; expected 1 to {whole}")
    return _part(GPUSHARE_CARD, card, card.mib * amount // whole, 0)


def _koordinator_part(one: object, cards: Sequence[Card]) -> Part:
    fields = one if isinstance(one, dict) else {}
    resources, minor = fields.get("resources"), fields.get("minor")
    if not isinstance(resources, dict) or type(minor) is not int:
        raise CgpuError(f"annotation {KOORDINATOR}: expected minor and resources of each card")
    card = _card_of(KOORDINATOR, str(minor), cards)
    if str(fields.get("id", card.uuid)).lower() != card.uuid.lower():
        raise CgpuError(
            f"annotation {KOORDINATOR}: {show(fields['id'])} is not GPU {card.index} of this node"
        )
    memory, cores = (
        _quantity(name, resources.get(name, 0)) for name in (KOORDINATOR_MEMORY, KOORDINATOR_CORES)
    )
    return _part(KOORDINATOR, card, int(memory) // MIB, int(cores))


def _part(key: str, card: Card, mib: int, cores: int) -> Part:
    """Return a part of a card. A scheduler that counts the size its maker names gives a bit more at most."""
    most = max(card.mib, published_mib(card.mib, "card"))
    if not 1 <= mib <= most or not 0 <= cores <= 100:
        raise CgpuError(
            f"annotation {key}: {mib} MiB and {cores} % of GPU {card.index}; expected 1 to {most} MiB and at "
            "most 100 %"
        )
    return Part(card.uuid, min(mib, card.mib), cores)


def _of_one_container(parts: Iterable[Part]) -> tuple[Part, ...]:
    found = tuple(parts)
    if len({one.gpu for one in found}) != len(found):
        raise CgpuError("a container has two parts of one card; expected one of each card")
    return found


def _by_uuid(key: str, uuid: str, cards: Sequence[Card]) -> Card:
    for card in cards:
        if card.uuid.lower() == uuid.lower():
            return card
    raise CgpuError(f"annotation {key}: GPU {show(uuid)} is not on this node; its cards: cgpu-smi")


def _card_of(key: str, minor: str, cards: Sequence[Card]) -> Card:
    for card in cards:
        if minor == str(card.minor):
            return card
    raise CgpuError(f"annotation {key}: {show(minor)}: no GPU of this node has this minor number")


def _number(key: str, text: str) -> int:
    if not is_number(text, DIGITS):
        raise CgpuError(f"annotation {key}: {show(text)}: expected a whole number")
    return int(text)


def _quantity(name: str, text: object) -> Decimal:
    value = read_amount(str(text))
    if value is None:
        raise CgpuError(f"{name}: {show(text)}: expected an amount")
    return value


def _json(key: str, text: str) -> dict[str, object]:
    try:
        found = loads(text.encode(), UniqueContext)
    except ValueError as error:
        raise CgpuError(f"annotation {key}: is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise CgpuError(f"annotation {key}: {show(found)}: expected an object")
    return found


def annotations_of(pod: Pod) -> Mapping[str, str]:
    """Return the annotations of a pod."""
    return (pod.metadata.annotations if pod.metadata is not None else None) or {}


def _annotation(pod: Pod, key: str) -> str:
    text = annotations_of(pod).get(key, "")
    if not 1 <= len(text) <= MAX_TEXT:
        raise CgpuError(f"annotation {key}: {len(text)} characters; expected 1 to {MAX_TEXT}")
    return text


def _init_containers(pod: Pod) -> Sequence[Container]:
    return (pod.spec.initContainers or ()) if pod.spec is not None else ()


def _containers(pod: Pod) -> Sequence[Container]:
    return pod.spec.containers if pod.spec is not None else ()


def _asking(pod: Pod, names: Iterable[str]) -> list[Container]:
    """Return the containers, no init containers, that have one of some resources."""
    wanted = set(names)
    return [one for one in _containers(pod) if wanted & set(_limits(one))]


def _limits(container: Container) -> Mapping[str, object]:
    return (container.resources.limits if container.resources is not None else None) or {}


def _limit(container: Container, name: str) -> int:
    return int(_quantity(name, _limits(container)[name]))
