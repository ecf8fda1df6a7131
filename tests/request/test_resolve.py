# SPDX-License-Identifier: Apache-2.0
"""Allocations for requests."""

from __future__ import annotations

import pytest

from cgpu.cdi_devices import specification
from cgpu.client.tree import Gpu
from cgpu.config.effective import Effective
from cgpu.request.names import OF_THE_PLUGIN
from cgpu.request.request import is_silent
from cgpu.request.resolve import Allocation
from cgpu.request.spec import read
from tests.client.support import MIB, T4, cards, uuid
from tests.grants import grant
from tests.refusal import refused
from tests.request.support import ENV, allocate, granted, spec, wants

DEFAULTS = Effective()
FOUR = (23028,) * 4
MEM = "ALIYUN_COM_GPU_MEM_CONTAINER"
DEV = "ALIYUN_COM_GPU_MEM_DEV"
DEVICES = "ALIYUN_COM_GPU_VISIBLE_DEVICES"
VENDOR = "NVIDIA_VISIBLE_DEVICES"


def get(env: dict[str, str], *mib: int, config: Effective = DEFAULTS) -> Allocation:
    return granted(spec(env), cards(*(mib or (T4,))), config)


def sizes(request: Allocation) -> list[int]:
    return [size // MIB for _, size, *_ in request.grants]


@pytest.mark.parametrize(
    ("card", "container", "dev", "mib"),
    [
        (15079, "3", "14", 3231),
        (16130, "3", "15", 3226),
        (16130, "4", "15", 4301),
        (16130, "2", "15", 2150),
        (15109, "6", "15", 6043),
        (15360, "3", "15", 3072),
        (23028, "8", "22", 8373),
        # The whole card, and without MEM_DEV one of its whole GiB.
        (15109, "15", "15", 15109),
        (15109, "7", "", 15109 * 7 // 14),
    ],
)
def test_published_samples(card: int, container: str, dev: str, mib: int) -> None:
    """Each published slice comes out to the MiB, and is a whole number of MiB."""
    assert get({MEM: container, DEV: dev}, card).grants == (grant(0, mib * MIB, 1, 0),)


@pytest.mark.parametrize(
    ("text", "units"),
    [("3", [3, 3, 3, 3]), ("3,4,5,6", [3, 4, 5, 6]), ("3,1,2", [3, 1, 2, 2])],
)
def test_list_forms(text: str, units: list[int]) -> None:
    """A list gives each GPU its amount, and the last amount repeats."""
    request = get({MEM: text, DEV: "23", VENDOR: "0,1,2,3"}, *FOUR)
    assert sizes(request) == [23028 * unit // 23 for unit in units]


@pytest.mark.parametrize(
    "env", [{}, {DEV: "", DEVICES: ""}, {MEM: "0", DEV: "23"}, {MEM: "0,0"}, {MEM: "0", DEVICES: "1"}]
)
def test_not_sliced(env: dict[str, str]) -> None:
    """Nothing said, or an amount of 0: not sliced."""
    given = spec({**env, VENDOR: "0,1,2,3"})
    assert allocate(given, cards(*FOUR), DEFAULTS) is None
    assert not wants(given, DEFAULTS)


def test_disable() -> None:
    """CGPU_DISABLE switches slicing off, and may say no in words or be empty."""
    for value in ("true", "TRUE", "True", "1"):
        assert allocate(spec({**ENV, "CGPU_DISABLE": value}), cards(T4), DEFAULTS) is None
    for value in ("false", "False", "0", ""):
        assert sizes(get({**ENV, "CGPU_DISABLE": value})) == [6043]


@pytest.mark.parametrize(
    "name",
    [
        *OF_THE_PLUGIN,
        "OPENCGPU_SERVICE_HOST",
        "OPENCGPU_SERVICE_PORT_HTTP",
        "OPENCGPU_PORT",
        "OPENCGPU_PORT_80_TCP_ADDR",
        "OPENCGPU_CDI_GPU_0_SERVICE_HOST",
    ],
)
def test_variables_of_others(name: str) -> None:
    """Variables by Alibaba's device plugin, and by the kubelet for a service opencgpu, change nothing."""
    assert sizes(get({**ENV, name: "MiB?"})) == [6043]


def test_sizes_of_several() -> None:
    """A list of sizes gives each GPU its own, and the last one repeats."""
    request = get({"OPENCGPU_MEM": "3G,50%", "OPENCGPU_GPUS": "2,0,1"}, *FOUR)
    assert [(gpu, size // MIB) for gpu, size, *_ in request.grants] == [(2, 3072), (0, 11514), (1, 11514)]


def test_every_short_name() -> None:
    """The names of this project mean what those of cGPU mean."""
    env = {"OPENCGPU_MEM": "2G", "OPENCGPU_GPUS": "1", "OPENCGPU_WEIGHT": "3", "OPENCGPU_PRIORITY": "high"}
    assert get(env, *FOUR).grants == (grant(1, 2048 * MIB, 3, 1),)
    mixed = {"OPENCGPU_MEM": "2G", DEVICES: "1", "ALIYUN_COM_GPU_SCHD_WEIGHT": "3"}
    assert get({**mixed, "ALIYUN_COM_GPU_HIGH_PRIO": "1"}, *FOUR).grants == (grant(1, 2048 * MIB, 3, 1),)


@pytest.mark.parametrize("name", ["OPENCGPU_PRIORITY", "ALIYUN_COM_GPU_HIGH_PRIO"])
def test_priorities(name: str) -> None:
    """A priority is a number or a word."""
    for text, priority in (("0", 0), ("normal", 0), ("1", 1), ("high", 1), ("", 0)):
        assert get({**ENV, name: text}).grants == (grant(0, 6043 * MIB, 1, priority),)


def test_beginning_of_a_uuid() -> None:
    """As with CUDA_VISIBLE_DEVICES, the beginning of a UUID names a GPU if no other has the same."""
    gpus = [
        Gpu(index, f"GPU-{start}-e244-0959-cd97-830000000000", T4 * MIB, 20)
        for index, start in enumerate(("afcd1d7b", "afcd2222", "b0000000"))
    ]
    for name, index in (("GPU-afcd1d7b", 0), ("GPU-AFCD1", 0), ("GPU-b", 2), (gpus[1].uuid, 1)):
        found = granted(spec({**ENV, "OPENCGPU_GPUS": name}), gpus, DEFAULTS)
        assert [gpu for gpu, *_ in found.grants] == [index]
    with refused("OPENCGPU_GPUS=GPU-afcd: GPU-afcd is the beginning of 2 UUIDs (GPU 0, 1)"):
        granted(spec({**ENV, "OPENCGPU_GPUS": "GPU-afcd"}), gpus, DEFAULTS)


@pytest.mark.parametrize(
    ("names", "grants"), [(["1"], [(1, 1)]), (["2", "0"], [(0, 1), (2, 2)]), (["0", "1", "2", "3"], None)]
)
def test_devices_of_the_container_device_interface(
    names: list[str], grants: list[tuple[int, int]] | None
) -> None:
    """Variables of --device opencgpu.io/gpu=N name GPUs in the order of their indexes."""
    variables = specification([(index, "") for index in range(4)])["devices"]
    given = dict(
        entry.split("=") for name in names for entry in variables[int(name)]["containerEdits"]["env"]
    )
    found = get({"OPENCGPU_MEM": "1G" if len(names) == 1 else "1G,2G", **given}, *FOUR)
    if grants is None:
        every = dict(entry.split("=") for entry in variables[4]["containerEdits"]["env"])
        assert (variables[4]["name"], every) == ("all", given)
        grants = [(0, 1), (1, 2), (2, 2), (3, 2)]
    assert [(gpu, size >> 30) for gpu, size, *_ in found.grants] == grants


HAMI = Effective(allow_hami_variables=True)
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"


@pytest.mark.parametrize(
    ("env", "grants"),
    [
        ({LIMIT: "1g"}, ((0, 1024, 1), (1, 1024, 1))),
        ({LIMIT: "1024m", "CUDA_DEVICE_SM_LIMIT": "50"}, ((0, 1024, 10), (1, 1024, 10))),
        ({f"{LIMIT}_0": "3000m", f"{LIMIT}_1": "2000m"}, ((0, 3000, 1), (1, 2000, 1))),
        ({f"{LIMIT}_0": "1048576k", "CUDA_DEVICE_SM_LIMIT_0": "1"}, ((0, 1024, 1), (1, 1024, 1))),
        ({LIMIT: "1g", "CUDA_DEVICE_SM_LIMIT": "0"}, ((0, 1024, 1), (1, 1024, 1))),
        ({LIMIT: "1g", "OPENCGPU_MEM": "2G", "CUDA_DEVICE_SM_LIMIT": "100"}, ((0, 2048, 20), (1, 2048, 20))),
        ({LIMIT: "1g", "CUDA_DEVICE_SM_LIMIT": "30", "OPENCGPU_WEIGHT": "2"}, ((0, 1024, 2), (1, 1024, 2))),
    ],
)
def test_variables_of_hami(env: dict[str, str], grants: tuple[tuple[int, int, int], ...]) -> None:
    """On a node that allows it, HAMi-core's variables ask for slices; ours come before them."""
    found = get({VENDOR: "all", **env}, T4, T4, config=HAMI).grants
    assert tuple((gpu, size // MIB, weight) for gpu, size, weight, *_ in found) == grants


def test_variables_of_hami_elsewhere() -> None:
    """Without the node's leave they mean nothing; until an engine has read that, it is not known."""
    assert not wants(spec({VENDOR: "all", LIMIT: "1g"}), DEFAULTS)
    assert not wants(spec({LIMIT: "1g"}), HAMI.replace(shared_node=True))
    for name, text in ((LIMIT, "1g"), ("CUDA_DEVICE_SM_LIMIT", "")):
        assert not is_silent(read(spec({name: text}), DEFAULTS))
    assert is_silent(read(spec({"PATH": "/"}), DEFAULTS))


def test_last_duplicate_wins() -> None:
    """The last value of a variable given twice counts."""
    document = {"process": {"env": [f"{MEM}=x", f"{MEM}=6", f"{DEV}=15"]}}
    assert sizes(granted(document, cards(T4), DEFAULTS)) == [6043]


def test_devices_order() -> None:
    """Amounts go to GPUs in the order they are named, by index or UUID in any case of letters."""
    named = f"2,GPU-{uuid(0)[4:].upper()}"
    request = get({MEM: "3,4", DEV: "23", DEVICES: named}, *FOUR)
    assert [gpu for gpu, *_ in request.grants] == [2, 0]
    assert sizes(request) == [3003, 4004]
    assert request.uuids == (uuid(2), uuid(0))
    assert request.passthrough == ()


@pytest.mark.parametrize(
    ("devices", "vendor", "sliced", "whole"),
    [
        *(("1", vendor, [1], ()) for vendor in ("", "void", "none", "all")),
        ("2", "0,1,2", [2], (0, 1)),
        ("all", "0,1", [0, 1, 2, 3], ()),
    ],
)
def test_mixed_mode(devices: str, vendor: str, sliced: list[int], whole: tuple[int, ...]) -> None:
    """A GPU that only the vendor's variable names, one by one, is given whole, as a passthrough GPU."""
    request = get({MEM: "3", DEVICES: devices, VENDOR: vendor}, *FOUR)
    assert [gpu for gpu, *_ in request.grants] == sliced
    assert request.passthrough == whole
    assert request.uuids == tuple(map(uuid, (*sliced, *whole)))


def test_only_gpu() -> None:
    """With one GPU on the node none need be named."""
    for vendor in ("", "void", "none"):
        assert sizes(get({**ENV, VENDOR: vendor})) == [6043]


def test_weight_and_priority() -> None:
    """Weight and priority apply to every GPU; weight 0 is taken where the node allows it."""
    env = {MEM: "3", VENDOR: "0,1", "ALIYUN_COM_GPU_SCHD_WEIGHT": "20", "ALIYUN_COM_GPU_HIGH_PRIO": "1"}
    assert [one[2:4] for one in get(env, *FOUR).grants] == [(20, 1), (20, 1)]
    env = {**ENV, "ALIYUN_COM_GPU_SCHD_WEIGHT": "0"}
    assert get(env, config=Effective(allow_zero_weight=True)).grants[0][2] == 0


# Without an equals sign, of other names, with NUL bytes, of 10 MiB.
ENTRIES = [MEM, f"X{MEM}=6", "A\0B=1", "BIG=" + "x" * (10 << 20), "", "=", "CGPU_MEM=1"]


@pytest.mark.parametrize("process", [None, {}, {"env": None}, {"env": ENTRIES}])
def test_no_environment(process: object) -> None:
    """A specification without an environment, or with entries of others alone, asks for nothing."""
    assert not wants({"process": process}, DEFAULTS)
    assert not wants({}, DEFAULTS)
