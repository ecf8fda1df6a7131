# SPDX-License-Identifier: Apache-2.0
"""Malformed requests are refused with one exact line, and docs/variables.md has these lines.

Those that people type by mistake are in tests/messages/wrong_inputs.yaml; here are others.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request.names import NAMES
from tests.client.support import MIB, T4, cards, uuid
from tests.refusal import refused
from tests.request.shares import by_containerd
from tests.request.support import ENV, allocate, spec, wants

MEM = "ALIYUN_COM_GPU_MEM_CONTAINER"
DEV = "ALIYUN_COM_GPU_MEM_DEV"
DEVICES = "ALIYUN_COM_GPU_VISIBLE_DEVICES"
VENDOR = "NVIDIA_VISIBLE_DEVICES"
WEIGHT = "ALIYUN_COM_GPU_SCHD_WEIGHT"
PRIO = "ALIYUN_COM_GPU_HIGH_PRIO"
AMOUNT = "expected a whole number or a comma list, one for each GPU, such as 6 or 3,1, or 0 for no slice"
SIZE = "expected a size such as 6G, 512M or 40%, or a comma list of them, one for each GPU"
SLICED_ONLY = "name only the GPUs that are sliced, such as OPENCGPU_GPUS=0"
PRIORITY = "expected 1 or high, 0 or normal"
WHOLE = "expected a whole number from 1 to 999999999 that stands for the whole card, such as 15"
LIST = "expected indexes or UUIDs in a comma list, such as 0,1, or all (cgpu-smi lists them)"
MIG = "a MIG device cannot be sliced, nor given beside slices; name whole GPUs"
KNOWN = "0 (GPU-b084ae33), 1 (GPU-b084ae33), or all"


def refusal(env: dict[str, str], config: Effective | None = None, *mib: int) -> str:
    """Return the line with which a request is refused on two T4 cards."""
    with pytest.raises(CgpuError) as caught:
        allocate(spec(env), cards(*(mib or (T4, T4))), config or Effective())
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "shown", "expected"),
    [
        (MEM, "abc", "abc", AMOUNT),
        (MEM, "-3", "-3", AMOUNT),
        (MEM, "+3", "+3", f"{AMOUNT}; did you mean 3?"),
        (MEM, " 3", " 3", f"{AMOUNT}; did you mean 3 without blanks?"),
        (MEM, "3 ", "3 ", f"{AMOUNT}; did you mean 3 without blanks?"),
        (MEM, "3\n", "3\\n", f"{AMOUNT}; did you mean 3 without blanks?"),
        (MEM, "3\0", "3\\x00", AMOUNT),
        (MEM, "3,", "3,", f"{AMOUNT}; did you mean 3?"),
        (MEM, ",3", ",3", f"{AMOUNT}; did you mean 3?"),
        (MEM, "3,,1", "3,,1", f"{AMOUNT}; did you mean 3,1?"),
        (MEM, "03", "03", f"{AMOUNT}; did you mean 3?"),
        (MEM, "1e3", "1e3", AMOUNT),
        (MEM, "0x10", "0x10", AMOUNT),
        (MEM, "\u0663", "\\u0663", f"{AMOUNT}; did you mean 3?"),
        (MEM, "\ud800", "\\ud800", AMOUNT),
        (MEM, "1234567890", "1234567890", AMOUNT),
        (MEM, "9" * 100, "9" * 64 + "...", AMOUNT),
        (MEM, "9" * (10 << 20), "9" * 64 + "...", AMOUNT),
        (MEM, "0,6", "0,6", f"{AMOUNT}; {SLICED_ONLY}"),
        (DEV, "-1", "-1", WHOLE),
        (DEV, "15,15", "15,15", WHOLE),
        (DEVICES, "0,all", "0,all", f"{LIST}; did you mean all?"),
        (DEVICES, "0, 1", "0, 1", f"{LIST}; did you mean 0,1?"),
        (DEVICES, "00", "00", f"{LIST}; did you mean 0?"),
        (DEVICES, "0,MIG-GPU-1/2/0", "0,MIG-GPU-1/2/0", MIG),
        (DEVICES, "0:1", "0:1", MIG),
        (DEVICES, "0:", "0:", LIST),
        (WEIGHT, "1000", "1000", "expected a whole number from 1 to the GPU's max_inst, such as 2"),
        (WEIGHT, "x", "x", "expected a whole number from 1 to the GPU's max_inst, such as 2"),
        (PRIO, "2", "2", PRIORITY),
        (PRIO, "true", "true", PRIORITY),
        (
            "CGPU_DISABLE",
            "true ",
            "true ",
            "expected true, 1, false or 0; did you mean true without blanks?",
        ),
    ],
)
def test_malformed(name: str, value: str, shown: str, expected: str) -> None:
    """A value of the wrong form is refused before the tree is asked, in exactly one line."""
    document = spec({**ENV, name: value})
    line = f"{name}={shown}: {expected}"
    with refused(line):
        wants(document, Effective())
    assert refusal({**ENV, name: value}) == line


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (
            {MEM: "16", DEV: "15"},
            f"{MEM}=16: 16 is more than the whole card ({DEV}=15); expected at most 15",
        ),
        ({MEM: "1,2,3"}, f"{MEM}=1,2,3: 3 values for 2 GPUs; give at most one for each"),
        ({MEM: "1,2", VENDOR: "1"}, f"{MEM}=1,2: 2 values for 1 GPU; give at most one for each"),
        ({MEM: "1", DEV: "999999"}, f"{MEM}=1: that is less than 1 MiB of GPU 0 (15109 MiB); ask for more"),
        ({MEM: "1", DEVICES: "GPU-1"}, f"{DEVICES}=GPU-1: no GPU GPU-1 here; available: {KNOWN}"),
        (
            {MEM: "1", DEVICES: f"1,{uuid(1)}"},
            f"{DEVICES}=1,{uuid(1)}: GPU 1 is named twice; name each GPU once",
        ),
        ({MEM: "1", VENDOR: "9"}, f"{VENDOR}=9: no GPU 9 here; available: {KNOWN}"),
        ({MEM: "1", VENDOR: "0:1"}, f"{VENDOR}=0:1: {MIG}"),
        ({MEM: "1", VENDOR: "MIG-b084ae33"}, f"{VENDOR}=MIG-b084ae33: {MIG}"),
        ({MEM: "1", VENDOR: "MIG-GPU-1/2/0"}, f"{VENDOR}=MIG-GPU-1/2/0: {MIG}"),
        ({MEM: "1", DEVICES: "0", VENDOR: "0,mig-1"}, f"{VENDOR}=0,mig-1: {MIG}"),
        ({MEM: "1", VENDOR: "0,"}, f"{VENDOR}=0,: an empty name in the list; available: {KNOWN}"),
        ({MEM: "1", VENDOR: "0,all"}, f"{VENDOR}=0,all: no GPU all here; available: {KNOWN}"),
        ({MEM: "1", DEVICES: "0", VENDOR: "1,5"}, f"{VENDOR}=1,5: no GPU 5 here; available: {KNOWN}"),
        (
            {MEM: "1", VENDOR: "no-gpu-has-3GiB-to-run"},
            f"{VENDOR}=no-gpu-has-3GiB-to-run: no GPU no-gpu-has-3GiB-to-run here; available: {KNOWN}",
        ),
    ],
)
def test_does_not_fit(env: dict[str, str], line: str) -> None:
    """A well-formed value that does not fit this node is refused in exactly one line."""
    assert refusal({VENDOR: "all", **env}) == line


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({f"{MEM}\0": "6"}, f"{MEM}\\x00: there is none of that name; did you mean {MEM}?"),
        ({"OPENCGPU_": ""}, "OPENCGPU_: there is none of that name; did you mean OPENCGPU_MEM?"),
        (
            {"OPENCGPU_DISABLE": "1"},
            "OPENCGPU_DISABLE: there is none of that name; did you mean CGPU_DISABLE?",
        ),
    ],
)
def test_unknown_variable(env: dict[str, str], line: str) -> None:
    """A name that looks like one of ours and is none is refused with the nearest one."""
    assert refusal({**ENV, **env}) == f"variable {line}"
    assert allocate(spec({**env}), cards(T4), Effective(allow_environment=False)) is None


ALONE = "nothing says how much memory the slice has; set OPENCGPU_MEM, such as 6G, too"
NO_AMOUNT = "no amount; set OPENCGPU_MEM, such as 6G, or leave it out for a container without a slice"


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (
            {DEV: "15"},
            (
                f"{DEV}=15: no amount is beside it, of which this is the whole; set both, or set "
                "OPENCGPU_MEM, such as 6G"
            ),
        ),
        ({WEIGHT: "2"}, f"{WEIGHT}=2: {ALONE}"),
        ({"OPENCGPU_PRIORITY": "high"}, f"OPENCGPU_PRIORITY=high: {ALONE}"),
        ({DEVICES: "0"}, f"{DEVICES}=0: {ALONE}"),
        ({MEM: ""}, f"{MEM}=: {NO_AMOUNT}"),
        ({"OPENCGPU_MEM": ""}, f"OPENCGPU_MEM=: {NO_AMOUNT}"),
    ],
)
def test_without_an_amount(env: dict[str, str], line: str) -> None:
    """What says something of a slice, and not how large it is, never starts a container without one."""
    for others in ({}, {VENDOR: "all"}):
        assert refusal({**others, **env}) == line


def test_without_an_amount_on_a_node_with_a_default() -> None:
    """The node's default is an amount, where a GPU is named."""
    config = Effective(default_memsize=1 << 30)
    for env in ({WEIGHT: "2"}, {MEM: ""}, {DEVICES: "0"}):
        found = allocate(spec({VENDOR: "0", **env}), cards(T4), config)
        assert found is not None
        assert found.grants[0][1] == 1 << 30
    assert refusal({WEIGHT: "2"}, config) == f"{WEIGHT}=2: {ALONE}"


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (
            {"OPENCGPU_WEIGHT": "2", WEIGHT: "2"},
            f"OPENCGPU_WEIGHT=2: {WEIGHT} is set too, and means the same; set one of them",
        ),
        (
            {"OPENCGPU_MEM": "6G", DEV: "15"},
            f"OPENCGPU_MEM=6G: {DEV} is set too; set OPENCGPU_MEM alone, which has its unit with it",
        ),
        (
            {"OPENCGPU_MEM": "6G", "OPENCGPU_CDI_GPU_00": "1"},
            (
                "OPENCGPU_CDI_GPU_00=1: expected OPENCGPU_CDI_GPU_0=1 or alike, as --device "
                "opencgpu.io/gpu=0 sets it"
            ),
        ),
        ({"OPENCGPU_MEM": "6,"}, f"OPENCGPU_MEM=6,: {SIZE}; did you mean 6?"),
    ],
)
def test_amounts_that_are_none(env: dict[str, str], line: str) -> None:
    """Two words for one thing, and sizes that are none, are refused in exactly one line."""
    assert refusal({VENDOR: "all", **env}) == line


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (
            {"CUDA_DEVICE_MEMORY_LIMIT": "1x"},
            "CUDA_DEVICE_MEMORY_LIMIT=1x: expected a size such as 1g, 1024m or bytes",
        ),
        (
            {"CUDA_DEVICE_MEMORY_LIMIT": "1g,1g"},
            "CUDA_DEVICE_MEMORY_LIMIT=1g,1g: expected a size such as 1g, 1024m or bytes",
        ),
        (
            {"CUDA_DEVICE_MEMORY_LIMIT": "0"},
            (
                "CUDA_DEVICE_MEMORY_LIMIT=0: without a limit in HAMi-core; expected a size, such as 1g: a "
                "slice has one"
            ),
        ),
        (
            {"CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_MEMORY_LIMIT_0": "9g"},
            (
                "CUDA_DEVICE_MEMORY_LIMIT=1g: CUDA_DEVICE_MEMORY_LIMIT_0 is set too, and means the same; set "
                "one of them"
            ),
        ),
        (
            {"CUDA_DEVICE_MEMORY_LIMITS": "1g"},
            (
                "variable CUDA_DEVICE_MEMORY_LIMITS: there is none of that name; did you mean "
                "CUDA_DEVICE_MEMORY_LIMIT?"
            ),
        ),
        ({"CUDA_DEVICE_MEMORY_LIMIT_0": ""}, f"CUDA_DEVICE_MEMORY_LIMIT_0=: {NO_AMOUNT}"),
        (
            {"OPENCGPU_MEM": "1G", "CUDA_DEVICE_MEMORY_LIMIT": "bogus"},
            "CUDA_DEVICE_MEMORY_LIMIT=bogus: expected a size such as 1g, 1024m or bytes",
        ),
        (
            {"OPENCGPU_MEM": "1G", "CUDA_DEVICE_SM_LIMIT": "30", "CUDA_DEVICE_SM_LIMIT_1": "40"},
            "CUDA_DEVICE_SM_LIMIT_1=40: CUDA_DEVICE_SM_LIMIT says something else; expected one for all GPUs",
        ),
        (
            {"CUDA_DEVICE_MEMORY_LIMIT_1": "1g"},
            (
                "CUDA_DEVICE_MEMORY_LIMIT_1=1g: expected CUDA_DEVICE_MEMORY_LIMIT_0 and so on, one for each "
                "GPU of the container"
            ),
        ),
        ({"CUDA_DEVICE_SM_LIMIT": "30"}, f"CUDA_DEVICE_SM_LIMIT=30%: {ALONE}"),
        (
            {"CUDA_DEVICE_SM_LIMIT": "101"},
            "CUDA_DEVICE_SM_LIMIT=101: expected a whole number from 0 to 100, in percent",
        ),
    ],
)
def test_variables_of_hami(env: dict[str, str], line: str) -> None:
    """HAMi-core's variables are as strictly read, where they count."""
    assert refusal({VENDOR: "all", **env}, Effective(allow_hami_variables=True)) == line


def test_hami_above_the_bound_of_the_node() -> None:
    """A percentage that is more weight than the node allows is refused by what it comes to."""
    config = Effective(allow_hami_variables=True, max_schd_weight=15)
    env = {VENDOR: "0", "CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_SM_LIMIT": "100"}
    bound = "expected at most 15 (max_schd_weight of this node)"
    assert refusal(env, config) == f"CUDA_DEVICE_SM_LIMIT=100%: that is a weight of 20; {bound}"


@pytest.mark.parametrize(
    ("notes", "line"),
    [
        (
            {"opencgpu.io/mem": "1G"},
            (
                "this node has 2 GPUs; choose with the annotation opencgpu.io/gpus=0 (or 0,1, a UUID, or "
                "all); cgpu-smi lists them"
            ),
        ),
        (
            {"opencgpu.io/weight": "2"},
            (
                "annotation opencgpu.io/weight=2: nothing says how much memory the slice has; set the "
                "annotation opencgpu.io/mem, such as 6G, too"
            ),
        ),
    ],
)
def test_advice_where_variables_do_not_count(notes: dict[str, str], line: str) -> None:
    """Where only annotations count, messages name these."""
    with refused(line):
        allocate(spec({}, notes), cards(T4, T4), Effective(allow_environment=False))


def test_no_gpu() -> None:
    """A node without GPUs gives no slice."""
    with pytest.raises(CgpuError, match=r"^a slice is asked for, but the engine knows no GPU: see cgpu-smi$"):
        allocate(spec(ENV), [], Effective())


def test_small_card() -> None:
    """A card of less than a GiB needs MEM_DEV."""
    line = refusal({MEM: "1"}, None, 512)
    assert line == f"{MEM}=1: GPU 0 has only 512 MiB: say what a whole card is in {DEV}"


@pytest.mark.parametrize(
    ("env", "config", "line"),
    [
        (
            {"CGPU_DISABLE": "true"},
            Effective(allow_disable=False),
            (
                "CGPU_DISABLE=true: slicing cannot be switched off on this node "
                "(allow_disable: false in /etc/cgpu/config.yaml)"
            ),
        ),
        (
            {MEM: "0"},
            Effective(allow_disable=False),
            (
                f"{MEM}=0: slicing cannot be switched off on this node "
                "(allow_disable: false in /etc/cgpu/config.yaml)"
            ),
        ),
        (
            {VENDOR: "0"},
            Effective(max_mem_container_mib=6042),
            f"{MEM}=6: that is 6043 MiB of GPU 0; this node allows 6042 (max_mem_container_mib)",
        ),
        (
            {VENDOR: "0", WEIGHT: "5"},
            Effective(max_schd_weight=4),
            f"{WEIGHT}=5: expected a whole number from 1 to 4 (max_schd_weight of this node)",
        ),
        (
            {VENDOR: "0", MEM: "", DEV: ""},
            Effective(default_memsize=20000 * MIB),
            (
                f"default_memsize={20000 * MIB}: that is 20000 MiB, and GPU 0 has 15109 MiB; "
                "expected at most that"
            ),
        ),
    ],
)
def test_node_bounds(env: dict[str, str], config: Effective, line: str) -> None:
    """The node's configuration bounds what a container may ask for."""
    assert refusal({**ENV, **env}, config) == line


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"process": []}, "config.json: process: a list: expected an object"),
        (
            {"process": {"env": {}}},
            "config.json: process.env: an object: expected a list of NAME=VALUE strings",
        ),
        (
            {"process": {"env": "A=1"}},
            "config.json: process.env: A=1: expected a list of NAME=VALUE strings",
        ),
        ({"process": {"env": [7]}}, "config.json: process.env: 7: expected a NAME=VALUE string"),
        ({"process": {"env": [None]}}, "config.json: process.env: None: expected a NAME=VALUE string"),
        ({"annotations": []}, "config.json: annotations: a list: expected an object of strings"),
        (
            {"annotations": {"opencgpu.io/mem-container": 6}},
            f"annotation opencgpu.io/mem-container=6: {AMOUNT}",
        ),
        (
            {"annotations": {"opencgpu.io/mem-container": "6x"}},
            f"annotation opencgpu.io/mem-container=6x: {AMOUNT}",
        ),
        (
            {"annotations": {"opencgpu.io/high-prio": []}},
            "annotation opencgpu.io/high-prio=a list: expected 1 or high, 0 or normal",
        ),
    ],
)
def test_hostile_specification(document: dict[str, object], line: str) -> None:
    """A specification of the wrong shape is refused in exactly one line."""
    with refused(line):
        wants(document, Effective())


DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "variables.md").read_text()
LINES = re.findall(r"^\| `((?:OPENCGPU|ALIYUN|CGPU)\w+)=([^:]*)(: [^`]+)` \|", DOCUMENT, re.MULTILINE)


def test_every_name_is_documented() -> None:
    """Every variable and annotation is documented."""
    assert {
        name for both in NAMES.values() for names in both for name in names if f"`{name}`" not in DOCUMENT
    } == set()


def test_documented_lines_are_found() -> None:
    """The documented errors are found in the text."""
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
    with refused(f"{name}={value}{rest}"):
        allocate(spec(env, notes), gpus, Effective())
