# SPDX-License-Identifier: Apache-2.0
"""Every malformed request is refused by name, value and what is expected; docs/variables.md has the lines."""

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
from tests.request.support import ENV, allocate, spec, wants

MEM = "ALIYUN_COM_GPU_MEM_CONTAINER"
DEV = "ALIYUN_COM_GPU_MEM_DEV"
DEVICES = "ALIYUN_COM_GPU_VISIBLE_DEVICES"
VENDOR = "NVIDIA_VISIBLE_DEVICES"
WEIGHT = "ALIYUN_COM_GPU_SCHD_WEIGHT"
PRIO = "ALIYUN_COM_GPU_HIGH_PRIO"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
SM = "CUDA_DEVICE_SM_LIMIT"
AMOUNT = ": expected a whole number or a comma list"
WHOLE = ": expected a whole number from 1 to 999999999 that stands for the whole card"
LIST = ": expected indexes or UUIDs in a comma list"
MIG = ": a MIG device cannot be sliced"
SWITCH = ": expected true, 1, false or 0"
PRIORITY = ": expected 1 or high, 0 or normal"
ALONE = ": nothing says how much memory the slice has; set OPENCGPU_MEM"
NO_AMOUNT = ": no amount; set OPENCGPU_MEM"
KNOWN = "available: 0 (GPU-b084ae33), 1 (GPU-b084ae33), or all"
NONE = ": there is none of that name; did you mean"
MEANT = "; did you mean"


def assert_refused(env: dict[str, str], parts: tuple[str, ...], config: Effective | None = None) -> None:
    """Expect that a request is refused on two T4 cards, with these parts in the line."""
    with refused(*parts):
        allocate(spec(env), cards(T4, T4), config or Effective())


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        (MEM, ("abc", "-3", "3\0", "3.5", "1e3", "0x10", "\ud800", "1234567890"), (AMOUNT,)),
        (MEM, ("9" * 100, "9" * (10 << 20)), (AMOUNT,)),
        (MEM, ("+3", "3,", ",3", "03", "\u0663"), (AMOUNT, f"{MEANT} 3?")),
        (MEM, (" 3", "3 ", "3\n"), (AMOUNT, f"{MEANT} 3 without blanks?")),
        (MEM, ("3,,1",), (AMOUNT, f"{MEANT} 3,1?")),
        (MEM, ("6,0", "0,6"), (AMOUNT, "name only the GPUs that are sliced, such as OPENCGPU_GPUS=0")),
        (DEV, ("0", "-1", "15,15"), (WHOLE,)),
        (DEV, ("15GiB",), (WHOLE, "for a size with a unit set OPENCGPU_MEM=6G alone")),
        (DEVICES, ("none",), (LIST, "for a container without a slice leave all of this out")),
        (DEVICES, ("0,all",), (LIST, f"{MEANT} all?")),
        (DEVICES, ("0, 1",), (LIST, f"{MEANT} 0,1?")),
        (DEVICES, ("00",), (LIST, f"{MEANT} 0?")),
        (DEVICES, ("-1", "0:"), (LIST,)),
        (DEVICES, ("MIG-1", "0,MIG-GPU-1/2/0", "0:1"), (MIG,)),
        (WEIGHT, ("1000", "x"), (": expected a whole number from 1 to the GPU's max_inst",)),
        (PRIO, ("2", "true"), (PRIORITY,)),
        ("OPENCGPU_PRIORITY", ("High",), (PRIORITY, f"{MEANT} high?")),
        ("CGPU_DISABLE", ("yes",), (SWITCH,)),
        ("CGPU_DISABLE", ("true ",), (SWITCH, f"{MEANT} true without blanks?")),
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


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({MEM: "15"}, (f"{MEM}=15: ", "more than the whole card (14 GiB of GPU 0)", "at most 14")),
        ({MEM: "1,2", VENDOR: "1"}, (f"{MEM}=1,2: 2 values for 1 GPU",)),
        ({MEM: "1", DEV: "999999"}, (f"{MEM}=1: that is less than 1 MiB of GPU 0 (15109 MiB)",)),
        ({MEM: "1", DEVICES: "2"}, (f"{DEVICES}=2: no GPU 2 here", KNOWN)),
        ({MEM: "1", DEVICES: "GPU-1"}, (f"{DEVICES}=GPU-1: no GPU GPU-1 here", KNOWN)),
        ({MEM: "1", DEVICES: f"1,{uuid(1)}"}, (f"{DEVICES}=1,{uuid(1)}: GPU 1 is named twice",)),
        ({MEM: "1", VENDOR: "9"}, (f"{VENDOR}=9: no GPU 9 here", KNOWN)),
        ({MEM: "1", VENDOR: "0:1"}, (f"{VENDOR}=0:1{MIG}",)),
        ({MEM: "1", VENDOR: "MIG-GPU-1/2/0"}, (f"{VENDOR}=MIG-GPU-1/2/0{MIG}",)),
        ({MEM: "1", DEVICES: "0", VENDOR: "0,mig-1"}, (f"{VENDOR}=0,mig-1{MIG}",)),
        ({MEM: "1", VENDOR: "0,"}, (f"{VENDOR}=0,: an empty name in the list", KNOWN)),
        ({MEM: "1", VENDOR: "0,all"}, (f"{VENDOR}=0,all: no GPU all here", KNOWN)),
        ({MEM: "1", DEVICES: "0", VENDOR: "1,5"}, (f"{VENDOR}=1,5: no GPU 5 here", KNOWN)),
        ({MEM: "1", WEIGHT: "0"}, (f"{WEIGHT}=0: ", "from 1 to 20 (max_inst of GPU 0)")),
        ({MEM: "1", WEIGHT: "21"}, (f"{WEIGHT}=21: ", "from 1 to 20 (max_inst of GPU 0)")),
    ],
)
def test_does_not_fit(env: dict[str, str], parts: tuple[str, ...]) -> None:
    """A well-formed value that does not fit this node is refused with what would fit."""
    assert_refused({VENDOR: "all", **env}, parts)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ALIYUN_COM_GPU_MEMCONTAINER", MEM),
        (f"{MEM}\0", MEM),
        ("OPENCGPU_MEMORY", "OPENCGPU_MEM"),
        ("OPENCGPU_", "OPENCGPU_MEM"),
        ("OPENCGPU_DISABLE", "CGPU_DISABLE"),
    ],
)
def test_unknown_variable(name: str, near: str) -> None:
    """A name that looks like one of ours and is none is refused with the nearest one."""
    assert_refused({**ENV, name: "6G"}, (f"variable {show(name)}{NONE} {near}?",))
    assert allocate(spec({name: "6G"}), cards(T4), Effective(allow_environment=False)) is None


def test_unknown_annotation() -> None:
    """An annotation too."""
    with refused(f"annotation opencgpu.io/memory{NONE} opencgpu.io/mem?"):
        wants(spec({}, {"opencgpu.io/memory": "6G"}), Effective())


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
    """What says something of a slice, and not how large it is, never starts a container without one."""
    for others in ({}, {VENDOR: "all"}):
        assert_refused({**others, name: value}, (f"{name}={value}{why}",))


def test_without_an_amount_on_a_node_with_a_default() -> None:
    """The node's default is an amount, where a GPU is named."""
    config = Effective(default_memsize=1 << 30)
    for env in ({WEIGHT: "2"}, {MEM: ""}, {DEVICES: "0"}):
        found = allocate(spec({VENDOR: "0", **env}), cards(T4), config)
        assert found is not None
        assert found.grants[0][1] == 1 << 30
    assert_refused({WEIGHT: "2"}, (f"{WEIGHT}=2{ALONE}",), config)


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({"OPENCGPU_WEIGHT": "2", WEIGHT: "2"}, (f"OPENCGPU_WEIGHT=2: {WEIGHT} is set too",)),
        ({"OPENCGPU_MEM": "6G", MEM: "6"}, (f"OPENCGPU_MEM=6G: {MEM} is set too",)),
        ({"OPENCGPU_MEM": "6G", DEV: "15"}, (f"OPENCGPU_MEM=6G: {DEV} is set too",)),
        ({"OPENCGPU_CDI_GPU_00": "1"}, ("OPENCGPU_CDI_GPU_00=1: expected OPENCGPU_CDI_GPU_0=1",)),
        (
            {"OPENCGPU_GPUS": "0", "OPENCGPU_CDI_GPU_1": "1"},
            ("OPENCGPU_GPUS=0: device opencgpu.io/gpu is given too",),
        ),
        ({"OPENCGPU_CDI_GPU_7": "1"}, ("device opencgpu.io/gpu=7: no GPU 7 here", KNOWN)),
        ({"OPENCGPU_MEM": "0%"}, ("OPENCGPU_MEM=0%: 0% is no memory; ask for more",)),
        ({"OPENCGPU_MEM": "6,"}, ("OPENCGPU_MEM=6,: expected a size such as 6G", f"{MEANT} 6?")),
    ],
)
def test_amounts_that_are_none(env: dict[str, str], parts: tuple[str, ...]) -> None:
    """Two words for one thing, and sizes that are none, are refused."""
    assert_refused({VENDOR: "all", "OPENCGPU_MEM": "6G", **env}, parts)


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({LIMIT: "1x"}, (f"{LIMIT}=1x: expected a size such as 1g",)),
        ({LIMIT: "1g,1g"}, (f"{LIMIT}=1g,1g: expected a size such as 1g",)),
        ({LIMIT: "0"}, (f"{LIMIT}=0: without a limit in HAMi-core; expected a size",)),
        ({LIMIT: "1g", f"{LIMIT}_0": "9g"}, (f"{LIMIT}=1g: {LIMIT}_0 is set too",)),
        ({f"{LIMIT}S": "1g"}, (f"variable {LIMIT}S{NONE} {LIMIT}?",)),
        ({f"{LIMIT}_0": ""}, (f"{LIMIT}_0={NO_AMOUNT}",)),
        ({f"{LIMIT}_1": "1g"}, (f"{LIMIT}_1=1g: expected {LIMIT}_0 and so on",)),
        ({"OPENCGPU_MEM": "1G", LIMIT: "bogus"}, (f"{LIMIT}=bogus: expected a size such as 1g",)),
        ({"OPENCGPU_MEM": "1G", SM: "30", f"{SM}_1": "40"}, (f"{SM}_1=40: {SM} says something else",)),
        ({SM: "30"}, (f"{SM}=30%{ALONE}",)),
        ({SM: "101"}, (f"{SM}=101: expected a whole number from 0 to 100, in percent",)),
    ],
)
def test_variables_of_hami(env: dict[str, str], parts: tuple[str, ...]) -> None:
    """HAMi-core's variables are as strictly read, where they count."""
    assert_refused({VENDOR: "all", **env}, parts, Effective(allow_hami_variables=True))


@pytest.mark.parametrize(
    ("notes", "parts"),
    [
        ({"opencgpu.io/mem": "1G"}, ("this node has 2 GPUs; ", "the annotation opencgpu.io/gpus=0 ")),
        (
            {"opencgpu.io/weight": "2"},
            ("annotation opencgpu.io/weight=2: ", "set the annotation opencgpu.io/mem, "),
        ),
    ],
)
def test_advice_where_variables_do_not_count(notes: dict[str, str], parts: tuple[str, ...]) -> None:
    """Where only annotations count, messages name these."""
    with refused(*parts):
        allocate(spec({}, notes), cards(T4, T4), Effective(allow_environment=False))


def test_cards_that_do_not_fit() -> None:
    """One of several GPUs must be named, a node without any gives no slice, a small card needs MEM_DEV."""
    several = (
        "this node has 2 GPUs; choose with OPENCGPU_GPUS=0 (or 0,1, a UUID, or all); cgpu-smi lists them"
    )
    for gpus, line in (
        (cards(T4, T4), several),
        ([], "a slice is asked for, but the engine knows no GPU: see cgpu-smi"),
        (cards(512), f"{MEM}=6: GPU 0 has only 512 MiB: say what a whole card is in {DEV}"),
    ):
        with refused_word_for_word(line):
            allocate(spec({MEM: "6"}), gpus, Effective())


@pytest.mark.parametrize(
    ("env", "config", "parts"),
    [
        (
            {"CGPU_DISABLE": "true"},
            {"allow_disable": False},
            ("CGPU_DISABLE=true: ", "cannot be switched off"),
        ),
        ({MEM: "0"}, {"allow_disable": False}, (f"{MEM}=0: ", "cannot be switched off")),
        ({}, {"max_mem_container_mib": 6042}, (f"{MEM}=6: that is 6043 MiB", "6042 (max_mem_container_mib)")),
        ({WEIGHT: "5"}, {"max_schd_weight": 4}, (f"{WEIGHT}=5: ", "from 1 to 4 (max_schd_weight")),
        (
            {MEM: "", DEV: ""},
            {"default_memsize": 20000 * MIB},
            (f"default_memsize={20000 * MIB}: that is 20000 MiB, and GPU 0 has 15109 MiB",),
        ),
        (
            {MEM: "", DEV: "", LIMIT: "1g", SM: "100"},
            {"allow_hami_variables": True, "max_schd_weight": 15},
            (f"{SM}=100%: that is a weight of 20", "at most 15 (max_schd_weight of this node)"),
        ),
    ],
)
def test_node_bounds(env: dict[str, str], config: dict[str, int], parts: tuple[str, ...]) -> None:
    """The node's configuration bounds what a container may ask for."""
    assert_refused({**ENV, VENDOR: "0", **env}, parts, Effective(**config))


@pytest.mark.parametrize(
    ("document", "parts"),
    [
        ({"process": []}, ("config.json: process: a list: expected an object",)),
        ({"process": {"env": {}}}, ("config.json: process.env: an object: expected a list",)),
        ({"process": {"env": "A=1"}}, ("config.json: process.env: A=1: expected a list",)),
        ({"process": {"env": [7]}}, ("config.json: process.env: 7: expected a NAME=VALUE string",)),
        ({"process": {"env": [None]}}, ("config.json: process.env: None: expected a NAME=VALUE",)),
        ({"annotations": []}, ("config.json: annotations: a list: expected an object",)),
        (
            {"annotations": {"opencgpu.io/mem-container": 6}},
            (f"annotation opencgpu.io/mem-container=6{AMOUNT}",),
        ),
        (
            {"annotations": {"opencgpu.io/mem-container": "6x"}},
            (f"annotation opencgpu.io/mem-container=6x{AMOUNT}",),
        ),
        (
            {"annotations": {"opencgpu.io/high-prio": []}},
            (f"annotation opencgpu.io/high-prio=a list{PRIORITY}",),
        ),
    ],
)
def test_hostile_specification(document: dict[str, object], parts: tuple[str, ...]) -> None:
    """A specification of the wrong shape is refused."""
    with refused(*parts):
        wants(document, Effective())


DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "variables.md").read_text()
LINES = re.findall(r"^\| `((?:OPENCGPU|ALIYUN|CGPU)\w+)=([^:]*)(: [^`]+)` \|", DOCUMENT, re.MULTILINE)


def test_every_name_is_documented() -> None:
    """Every variable and annotation is documented, and the documented errors are found in the text."""
    names = {name for both in NAMES.values() for names in both for name in names}
    assert {name for name in names if f"`{name}`" not in DOCUMENT} == set()
    assert len(LINES) == 19


@pytest.mark.parametrize(("name", "value", "rest"), LINES)
def test_documented_lines(name: str, value: str, rest: str) -> None:
    """Every documented error is given word for word."""
    env = {"NVIDIA_VISIBLE_DEVICES": "all", name: value}
    if "nothing says" not in rest:
        env = {"OPENCGPU_MEM": "1G", **env}
    if name.startswith("ALIYUN_COM_GPU_MEM_"):
        env = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "NVIDIA_VISIBLE_DEVICES": "all", name: value}
    gpus = cards(T4) if "1 GPU" in rest else cards(T4, T4)
    if "MEM_DEV=15" in rest:
        env["ALIYUN_COM_GPU_MEM_DEV"] = "15"
    notes = by_containerd() if "of a pod" in rest else {}
    with refused_word_for_word(f"{name}={value}{rest}"):
        allocate(spec(env, notes), gpus, Effective())
