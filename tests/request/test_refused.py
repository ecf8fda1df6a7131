# SPDX-License-Identifier: Apache-2.0
"""Every malformed request is refused by name, value and what is expected; docs/variables.md has some."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError, show
from cgpu.request.names import NAMES
from tests.client.support import MIB, T4, cards, uuid
from tests.refusal import has_parts, refused, refused_word_for_word
from tests.request.shares import by_containerd
from tests.request.support import ENV, allocate, granted, spec, wants

MEM = "ALIYUN_COM_GPU_MEM_CONTAINER"
DEV = "ALIYUN_COM_GPU_MEM_DEV"
DEVICES = "ALIYUN_COM_GPU_VISIBLE_DEVICES"
VENDOR = "NVIDIA_VISIBLE_DEVICES"
WEIGHT = "ALIYUN_COM_GPU_SCHD_WEIGHT"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
SM = "CUDA_DEVICE_SM_LIMIT"
AMOUNT = ": expected a whole number or a comma list"
PRIORITY = ": expected 1 or high, 0 or normal"
MIG = ": a MIG device cannot be sliced"
ALONE = ": nothing says how much memory the slice has; set OPENCGPU_MEM"
NO_AMOUNT = ": no amount; set OPENCGPU_MEM"
KNOWN = "available: 0 (GPU-b084ae33), 1 (GPU-b084ae33), or all"
NONE = ": there is none of that name; did you mean"
MEANT = "; did you mean"


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        (MEM, ("abc", "-3", "3\0", "1e3", "0x10", "\ud800", "1234567890"), (AMOUNT,)),
        (MEM, ("9" * 100, "9" * (10 << 20)), (AMOUNT,)),
        (MEM, ("+3", "3,", ",3", "03", "\u0663"), (AMOUNT, f"{MEANT} 3?")),
        (MEM, (" 3", "3 ", "3\n"), (AMOUNT, f"{MEANT} 3 without blanks?")),
        (MEM, ("3,,1",), (AMOUNT, f"{MEANT} 3,1?")),
        (MEM, ("6,0", "0,6"), (AMOUNT, "name only the GPUs that are sliced")),
        (DEV, ("-1", "15,15"), (": expected a whole number from 1 to 999999999",)),
        (DEVICES, ("0, 1",), (": expected indexes or UUIDs", f"{MEANT} 0,1?")),
        (DEVICES, ("-1", "0:"), (": expected indexes or UUIDs",)),
        (DEVICES, ("MIG-1", "0,MIG-GPU-1/2/0", "0:1"), (MIG,)),
        (WEIGHT, ("1000", "x"), (": expected a whole number from 1 to the GPU's max_inst",)),
        ("ALIYUN_COM_GPU_HIGH_PRIO", ("true", "2"), (PRIORITY,)),
        ("CGPU_DISABLE", ("true ",), (": expected true, 1, false or 0", f"{MEANT} true without blanks?")),
    ],
)
def test_malformed(name: str, values: tuple[str, ...], expected: tuple[str, ...]) -> None:
    """A value of the wrong form is refused before the tree is asked; only a near one is proposed."""
    for value in values:
        with pytest.raises(CgpuError) as caught:
            wants(spec({**ENV, name: value}), Effective())
        line = str(caught.value)
        assert has_parts(line, f"{name}={show(value)}{expected[0]}", *expected[1:]), line
        assert (MEANT in line) == (MEANT in expected[-1])


# Configuration that takes HAMi-core's variables; ALL where GPUs do not matter.
HAMI: dict[str, int] = {"allow_hami_variables": True}
ALL = {VENDOR: "all"}
REFUSED: list[tuple[dict[str, str], dict[str, int], tuple[str, ...]]] = [
    # Well-formed requests that do not fit two T4 cards.
    ({MEM: "1,2", VENDOR: "1"}, {}, (f"{MEM}=1,2: 2 values for 1 GPU",)),
    ({MEM: "1", DEV: "999999", **ALL}, {}, (f"{MEM}=1: that is less than 1 MiB of GPU 0 (15109 MiB)",)),
    ({MEM: "1", DEVICES: "GPU-1"}, {}, (f"{DEVICES}=GPU-1: no GPU GPU-1 here", KNOWN)),
    ({MEM: "1", DEVICES: f"1,{uuid(1)}"}, {}, (f"{DEVICES}=1,{uuid(1)}: GPU 1 is named twice",)),
    ({MEM: "1", VENDOR: "9"}, {}, (f"{VENDOR}=9: no GPU 9 here", KNOWN)),
    ({MEM: "1", VENDOR: "0:1"}, {}, (f"{VENDOR}=0:1{MIG}",)),
    ({MEM: "1", VENDOR: "MIG-GPU-1/2/0"}, {}, (f"{VENDOR}=MIG-GPU-1/2/0{MIG}",)),
    ({MEM: "1", DEVICES: "0", VENDOR: "0,mig-1"}, {}, (f"{VENDOR}=0,mig-1{MIG}",)),
    ({MEM: "1", VENDOR: "0,"}, {}, (f"{VENDOR}=0,: an empty name in the list", KNOWN)),
    ({MEM: "1", VENDOR: "0,all"}, {}, (f"{VENDOR}=0,all: no GPU all here", KNOWN)),
    ({MEM: "1", DEVICES: "0", VENDOR: "1,5"}, {}, (f"{VENDOR}=1,5: no GPU 5 here", KNOWN)),
    ({MEM: "1", WEIGHT: "0", **ALL}, {}, (f"{WEIGHT}=0: ", "from 1 to 20 (max_inst of GPU 0)")),
    # Names that look like one of ours.
    ({f"{MEM}\0": "6"}, {}, (f"variable {MEM}\\x00{NONE} {MEM}?",)),
    ({"OPENCGPU_": ""}, {}, (f"variable OPENCGPU_{NONE} OPENCGPU_MEM?",)),
    ({"OPENCGPU_DISABLE": "1"}, {}, (f"variable OPENCGPU_DISABLE{NONE} CGPU_DISABLE?",)),
    # Two words for one thing.
    ({"OPENCGPU_WEIGHT": "2", WEIGHT: "2"}, {}, (f"OPENCGPU_WEIGHT=2: {WEIGHT} is set too",)),
    ({"OPENCGPU_MEM": "6G", DEV: "15"}, {}, (f"OPENCGPU_MEM=6G: {DEV} is set too",)),
    ({"OPENCGPU_CDI_GPU_00": "1"}, {}, ("OPENCGPU_CDI_GPU_00=1: expected OPENCGPU_CDI_GPU_0=1",)),
    # Beyond the bounds of the node.
    ({**ENV, "CGPU_DISABLE": "1"}, {"allow_disable": False}, ("CGPU_DISABLE=1: ", "cannot be switched off")),
    ({MEM: "0"}, {"allow_disable": False}, (f"{MEM}=0: ", "cannot be switched off")),
    ({**ENV, VENDOR: "0"}, {"max_mem_container_mib": 6042}, (f"{MEM}=6: that is 6043 MiB", "allows 6042")),
    ({**ENV, WEIGHT: "5", **ALL}, {"max_schd_weight": 4}, (f"{WEIGHT}=5: ", "from 1 to 4 (max_schd_weight")),
    (ALL, {"default_memsize": 20000 * MIB}, (f"default_memsize={20000 * MIB}: that is 20000 MiB",)),
    # HAMi-core's variables are as strictly read.
    ({**ALL, LIMIT: "1x"}, HAMI, (f"{LIMIT}=1x: expected a size such as 1g",)),
    ({**ALL, LIMIT: "1g,1g"}, HAMI, (f"{LIMIT}=1g,1g: expected a size such as 1g",)),
    ({**ALL, LIMIT: "0"}, HAMI, (f"{LIMIT}=0: without a limit in HAMi-core; expected a size",)),
    ({**ALL, LIMIT: "1g", f"{LIMIT}_0": "9g"}, HAMI, (f"{LIMIT}=1g: {LIMIT}_0 is set too",)),
    ({**ALL, f"{LIMIT}S": "1g"}, HAMI, (f"variable {LIMIT}S{NONE} {LIMIT}?",)),
    ({**ALL, f"{LIMIT}_0": ""}, HAMI, (f"{LIMIT}_0={NO_AMOUNT}",)),
    ({**ALL, f"{LIMIT}_1": "1g"}, HAMI, (f"{LIMIT}_1=1g: expected {LIMIT}_0 and so on",)),
    ({**ALL, "OPENCGPU_MEM": "1G", LIMIT: "bogus"}, HAMI, (f"{LIMIT}=bogus: expected a size such as 1g",)),
    ({"OPENCGPU_MEM": "1G", SM: "30", f"{SM}_1": "40"}, HAMI, (f"{SM}_1=40: {SM} says something else",)),
    ({**ALL, SM: "30"}, HAMI, (f"{SM}=30%{ALONE}",)),
    ({**ALL, SM: "101"}, HAMI, (f"{SM}=101: expected a whole number from 0 to 100, in percent",)),
    (
        {LIMIT: "1g", SM: "100", **ALL},
        {**HAMI, "max_schd_weight": 15},
        (f"{SM}=100%: that is a weight of 20", "at most 15 (max_schd_weight of this node)"),
    ),
]


@pytest.mark.parametrize(("env", "config", "parts"), REFUSED)
def test_refused(env: dict[str, str], config: dict[str, int], parts: tuple[str, ...]) -> None:
    """A request that does not fit the node, or says a thing twice, is refused with what would do."""
    with refused(*parts):
        allocate(spec(env), cards(T4, T4), Effective(**config))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (DEV, "15", ": no amount is beside it, of which this is the whole"),
        (WEIGHT, "2", ALONE),
        ("OPENCGPU_PRIORITY", "high", ALONE),
        (DEVICES, "0", ALONE),
        (MEM, "", NO_AMOUNT),
        ("OPENCGPU_MEM", "", NO_AMOUNT),
    ],
)
def test_without_an_amount(name: str, value: str, why: str) -> None:
    """A variable of a slice without an amount never starts a container unsliced."""
    for others in ({}, ALL):
        with refused(f"{name}={value}{why}"):
            allocate(spec({**others, name: value}), cards(T4, T4), Effective())


def test_without_an_amount_on_a_node_with_a_default() -> None:
    """The node's default is an amount, where a GPU is named."""
    config = Effective(default_memsize=1 << 30)
    for env in ({WEIGHT: "2"}, {MEM: ""}, {DEVICES: "0"}):
        assert granted(spec({VENDOR: "0", **env}), cards(T4), config).grants[0][1] == 1 << 30
    with refused(f"{WEIGHT}=2{ALONE}"):
        allocate(spec({WEIGHT: "2"}), cards(T4), config)


def test_where_variables_do_not_count() -> None:
    """Where only annotations count, messages name these, and no variable is refused."""
    config = Effective(allow_environment=False)
    assert allocate(spec({"OPENCGPU_MEMORY": "6G"}), cards(T4), config) is None
    with refused("this node has 2 GPUs; ", "the annotation opencgpu.io/gpus=0 "):
        allocate(spec({}, {"opencgpu.io/mem": "1G"}), cards(T4, T4), config)
    with refused("annotation opencgpu.io/weight=2: ", "set the annotation opencgpu.io/mem ("):
        allocate(spec({}, {"opencgpu.io/weight": "2"}), cards(T4, T4), config)


def test_nodes_without_a_card_for_it() -> None:
    """A node without any GPU gives no slice, and a small card needs MEM_DEV."""
    for gpus, part in (
        ([], "a slice is asked for, but the engine knows no GPU"),
        (cards(512), f"{MEM}=6: GPU 0 has only 512 MiB: say what a whole card is in {DEV}"),
    ):
        with refused(part):
            allocate(spec({MEM: "6"}), gpus, Effective())


NOTE = "opencgpu.io/mem-container"


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"process": []}, "config.json: process: a list: expected an object"),
        ({"process": {"env": {}}}, "config.json: process.env: an object: expected a list"),
        ({"process": {"env": "A=1"}}, "config.json: process.env: A=1: expected a list"),
        ({"process": {"env": [7]}}, "config.json: process.env: 7: expected a NAME=VALUE string"),
        ({"process": {"env": [None]}}, "config.json: process.env: None: expected a NAME=VALUE string"),
        ({"linux": 1}, "config.json: linux: 1: expected an object"),
        ({"linux": {"devices": 1}}, "config.json: linux.devices: 1: expected a list"),
        ({"linux": {"devices": [1]}}, "config.json: linux.devices: 1: expected a list"),
        ({"linux": {"resources": {"devices": {}}}}, "config.json: linux.resources.devices: an object: "),
        ({"mounts": {"a": 1}}, "config.json: mounts: an object: expected a list"),
        ({"annotations": []}, "config.json: annotations: a list: expected an object"),
        ({"annotations": {NOTE: 6}}, f"annotation {NOTE}=6{AMOUNT}"),
        ({"annotations": {NOTE: "6x"}}, f"annotation {NOTE}=6x{AMOUNT}"),
        (
            {"annotations": {"opencgpu.io/high-prio": []}},
            f"annotation opencgpu.io/high-prio=a list{PRIORITY}",
        ),
    ],
)
def test_hostile_specification(document: dict[str, object], line: str) -> None:
    """A specification of the wrong shape is refused."""
    with refused(line):
        wants(document, Effective())


DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "variables.md").read_text()
DOCUMENTED = re.findall(r"^\| `([^`]+)` \|", DOCUMENT.partition("## Errors")[2], re.MULTILINE)
LINES = (
    *DOCUMENTED,
    (
        'OPENCGPU_MEM="6G": expected a size such as 6G, 512M or 40%, or a comma list of them, one for each '
        "GPU; did you mean 6G without quotes?"
    ),
    "OPENCGPU_MEM=16G: that is 16384 MiB, and GPU 0 has 15109 MiB; expected at most that",
    (
        "ALIYUN_COM_GPU_MEM_CONTAINER=6GiB: expected a whole number or a comma list, one for each GPU, "
        "such as 6 or 3,1, or 0 for no slice; for a size with a unit set OPENCGPU_MEM=6GiB instead"
    ),
    (
        "ALIYUN_COM_GPU_MEM_CONTAINER=: no amount; set OPENCGPU_MEM, such as 6G, or leave it out for a "
        "container without a slice"
    ),
    (
        "ALIYUN_COM_GPU_MEM_CONTAINER=16: 16 is more than the whole card (ALIYUN_COM_GPU_MEM_DEV=15); "
        "expected at most 15"
    ),
    "ALIYUN_COM_GPU_VISIBLE_DEVICES=7: no GPU 7 here; available: 0 (GPU-b084ae33), 1 (GPU-b084ae33), or all",
    "ALIYUN_COM_GPU_SCHD_WEIGHT=21: expected a whole number from 1 to 20 (max_inst of GPU 0)",
    (
        "OPENCGPU_MEM=6G: variables and annotations of a pod ask for no GPU on this node (pod_variables: "
        "false in /etc/cgpu/config.yaml); ask by resources, such as aliyun.com/gpu-mem, or by a claim"
    ),
)


def test_every_name_is_documented() -> None:
    """Every variable and annotation is documented, and the documented errors are found in the text."""
    names = {name for both in NAMES.values() for names in both for name in names}
    assert {name for name in names if f"`{name}`" not in DOCUMENT} == set()
    assert len(DOCUMENTED) == 3


@pytest.mark.parametrize("line", LINES)
def test_whole_lines(line: str) -> None:
    """These errors, and every documented one, are given word for word."""
    name, _, said = line.partition("=")
    value, _, rest = said.partition(": ")
    env = {"NVIDIA_VISIBLE_DEVICES": "all", name: value}
    if "nothing says" not in rest:
        env = {"OPENCGPU_MEM": "1G", **env}
    if name.startswith("ALIYUN_COM_GPU_MEM_"):
        env = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "NVIDIA_VISIBLE_DEVICES": "all", name: value}
    gpus = cards(T4) if "1 GPU" in rest else cards(T4, T4)
    if "MEM_DEV=15" in rest:
        env["ALIYUN_COM_GPU_MEM_DEV"] = "15"
    notes = by_containerd() if "of a pod" in rest else {}
    with refused_word_for_word(line):
        allocate(spec(env, notes), gpus, Effective())
