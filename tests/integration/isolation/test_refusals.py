# SPDX-License-Identifier: Apache-2.0
"""Invalid input, by docker run and by prepared bundles: each is refused with one exact line."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.integration.commands import Outcome, call, without_privilege
from tests.integration.conftest import Start
from tests.integration.engine import MIB, TREE, Engine
from tests.integration.images import ROOT
from tests.integration.probe import step
from tests.integration.runtimes import Docker, Runc, Runtime
from tests.integration.test_slice import SIX, SLICE

AMOUNT_EXPECTED = (
    "expected a whole number or a comma list, one for each GPU, such as 6 or 3,1, or 0 for no slice"
)
DENOMINATOR_EXPECTED = (
    "expected a whole number from 1 to 999999999 that stands for the whole card, such as 15"
)
GPU_AVAILABLE = "available: 0 (GPU-"
AMOUNT = "ALIYUN_COM_GPU_MEM_CONTAINER"
INVALID_VARIABLES = [
    ({AMOUNT: "six"}, f"{AMOUNT}=six: {AMOUNT_EXPECTED}"),
    ({AMOUNT: "-6"}, f"{AMOUNT}=-6: {AMOUNT_EXPECTED}"),
    ({AMOUNT: "6,"}, f"{AMOUNT}=6,: {AMOUNT_EXPECTED}"),
    ({"ALIYUN_COM_GPU_MEM_DEV": "0"}, f"ALIYUN_COM_GPU_MEM_DEV=0: {DENOMINATOR_EXPECTED}"),
    ({"ALIYUN_COM_GPU_MEM_DEV": "-15"}, f"ALIYUN_COM_GPU_MEM_DEV=-15: {DENOMINATOR_EXPECTED}"),
    ({"ALIYUN_COM_GPU_MEM_DEV": "1.5"}, f"ALIYUN_COM_GPU_MEM_DEV=1.5: {DENOMINATOR_EXPECTED}"),
    (
        {AMOUNT: "16"},
        f"{AMOUNT}=16: 16 is more than the whole card (ALIYUN_COM_GPU_MEM_DEV=15); expected at most 15",
    ),
    ({AMOUNT: "1,2,3"}, f"{AMOUNT}=1,2,3: 3 values for 2 GPUs; give at most one for each"),
    (
        {"ALIYUN_COM_GPU_VISIBLE_DEVICES": "GPU-0"},
        f"ALIYUN_COM_GPU_VISIBLE_DEVICES=GPU-0: no GPU GPU-0 here; {GPU_AVAILABLE}",
    ),
    (
        {"ALIYUN_COM_GPU_VISIBLE_DEVICES": "7"},
        f"ALIYUN_COM_GPU_VISIBLE_DEVICES=7: no GPU 7 here; {GPU_AVAILABLE}",
    ),
    (
        {"ALIYUN_COM_GPU_SCHD_WEIGHT": "0"},
        "ALIYUN_COM_GPU_SCHD_WEIGHT=0: expected a whole number from 1 to 20 (max_inst of GPU 0)",
    ),
    (
        {"ALIYUN_COM_GPU_SCHD_WEIGHT": "21"},
        "ALIYUN_COM_GPU_SCHD_WEIGHT=21: expected a whole number from 1 to 20 (max_inst of GPU 0)",
    ),
    ({"ALIYUN_COM_GPU_HIGH_PRIO": "2"}, "ALIYUN_COM_GPU_HIGH_PRIO=2: expected 1 or high, 0 or normal"),
    ({AMOUNT: "6,0"}, f"{AMOUNT}=6,0: {AMOUNT_EXPECTED}"),
    ({AMOUNT: ""}, "ALIYUN_COM_GPU_MEM_DEV=15: no amount is beside it"),
    (
        {"ALIYUN_COM_GPU_MEMCONTAINER": "6"},
        f"variable ALIYUN_COM_GPU_MEMCONTAINER: there is none of that name; did you mean {AMOUNT}?",
    ),
    ({"CGPU_DISABLE": "yes"}, "CGPU_DISABLE=yes: expected true, 1, false or 0"),
]


def message(outcome: Outcome) -> str:
    """Return the last line of the wrapper or the hook on stderr. The start must have failed."""
    lines: list[str] = re.findall(r".*opencgpu: .*", outcome.stderr)
    assert outcome.returncode != 0, outcome.text
    assert lines, outcome.text
    return lines[-1]


@pytest.mark.parametrize(
    ("change", "line"), INVALID_VARIABLES, ids=[line[:45] for _, line in INVALID_VARIABLES]
)
def test_invalid_variables_through_docker(
    start: Start, docker: Docker, change: dict[str, str], line: str
) -> None:
    """docker run prints the variable, its value and what is expected; no container is registered."""
    engine = start("T4:2")
    outcome = docker.run(["/cgpu-probe", "info"], {**SIX, "NVIDIA_VISIBLE_DEVICES": "all", **change})
    assert line in outcome.text
    assert outcome.returncode != 0
    assert engine.instances("0") == engine.instances("1") == []


@pytest.mark.parametrize("name", ["runc", "docker"])
def test_last_of_duplicates_wins(engine: Engine, request: pytest.FixtureRequest, name: str) -> None:
    """When a variable is given twice, its last value counts."""
    runtime: Runtime = request.getfixturevalue(name)
    env = [f"{AMOUNT}=nonsense", f"{AMOUNT}=3", "ALIYUN_COM_GPU_MEM_DEV=15", "NVIDIA_VISIBLE_DEVICES=0"]
    outcome = runtime.run(["/cgpu-probe", "info"], env)
    assert step(outcome, "info").number("total") == 15109 * 3 // 15 * MIB


@pytest.mark.usefixtures("either")
def test_id_that_is_the_name_of_an_entry(engine: Engine, runc: Runc) -> None:
    """A container id that is also the name of an entry of the tree is refused."""
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "info"], SLICE))
    line = message(runc.run_bundle(bundle, "policy"))
    assert "policy" in line
    assert engine.instances() == []


@pytest.mark.usefixtures("either")
def test_ids_with_the_same_twelve_characters(engine: Engine, runc: Runc) -> None:
    """The second of two ids with the same first 12 characters is refused; the message names the first one."""
    first, second = "0123456789ab" + "0" * 52, "0123456789ab" + "1" * 52
    runc.start(first, ["/cgpu-probe", "hold=60"], SLICE)
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "info"], SLICE))
    line = message(runc.run_bundle(bundle, second))
    assert f"container {first} has the same first 12 characters, 0123456789ab, on GPU 0" in line
    assert engine.instances() == ["0123456789ab"]


def test_ten_mebibyte_variable(engine: Engine, runc: Runc) -> None:
    """A variable of 10 MiB is refused with a line that does not repeat the value."""
    spec = runc.spec(["/cgpu-probe", "info"], {**SLICE, AMOUNT: "1" * (10 << 20)})
    line = message(runc.run_bundle(runc.bundle(spec), "large"))
    assert len(line) < 600
    assert engine.instances() == []


@pytest.mark.usefixtures("either")
def test_nul_byte(engine: Engine, runc: Runc) -> None:
    """A NUL byte in a value is refused and shown escaped."""
    line = message(
        runc.run_bundle(runc.bundle(runc.spec(["/cgpu-probe"], {**SLICE, AMOUNT: "6\x00"})), "nul")
    )
    assert f"{AMOUNT}=6\\x00: {AMOUNT_EXPECTED}" in line


BROKEN_CONFIGS = {
    "empty": "",
    "truncated": '{"process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=6"',
    "a list": '["ALIYUN_COM_GPU_MEM_CONTAINER=6"]',
    "process is text": '{"process": "ALIYUN_COM_GPU_MEM_CONTAINER=6"}',
    "deep": "[" * 100000 + "ALIYUN_COM_GPU_MEM_CONTAINER",
    "twice": '{"process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=6"]}, "process": {"env": []}}',
    "not UTF-8": '{"x": "\udcff", "process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=6"]}}',
}


@pytest.mark.parametrize("kind", BROKEN_CONFIGS)
def test_hostile_config(engine: Engine, runc: Runc, kind: str) -> None:
    """A config.json that is broken or hostile is refused without a traceback and not changed."""
    bundle = runc.bundle("")
    config = bundle / "config.json"
    config.write_bytes(BROKEN_CONFIGS[kind].encode("utf-8", "surrogateescape"))
    outcome = runc.run_bundle(bundle, "broken")
    assert outcome.returncode != 0
    assert "Traceback" not in outcome.text
    assert len(outcome.stderr) < 2000
    assert config.read_bytes() == BROKEN_CONFIGS[kind].encode("utf-8", "surrogateescape")
    assert engine.instances() == []


@pytest.mark.usefixtures("either")
def test_missing_config(engine: Engine, runc: Runc) -> None:
    """A bundle without config.json is refused with a message that names the file, without a traceback."""
    bundle = runc.bundle("")
    (bundle / "config.json").unlink()
    outcome = runc.run_bundle(bundle, "missing")
    assert outcome.returncode != 0
    assert "Traceback" not in outcome.text
    assert "config.json" in outcome.text


@pytest.mark.usefixtures("either")
def test_unknown_fields_stay(engine: Engine, runc: Runc) -> None:
    """Unknown fields, large numbers and the order of fields survive the edit of config.json.

    The config.json of a container without a slice stays the same to the byte.
    """
    spec = runc.spec(["/cgpu-probe", "info"], SLICE)
    spec["futureField"] = {"z": 1.0, "a": [18446744073709551615, 1e-7, "\u00e9"], "m": None}
    before = json.dumps(spec)
    bundle = runc.bundle(before)
    assert runc.run_bundle(bundle, "future").returncode == 0
    after = (bundle / "config.json").read_text()
    assert json.loads(after)["futureField"] == spec["futureField"]
    assert list(json.loads(after))[: len(spec)] == list(spec)
    plain = runc.bundle(json.dumps({**runc.spec(["/cgpu-probe", "--help"], {}), "futureField": 1.10}))
    text = (plain / "config.json").read_bytes()
    assert runc.run_bundle(plain, "plain").returncode == 0
    assert (plain / "config.json").read_bytes() == text


@pytest.mark.parametrize(
    "state", ["", "{", "[]", '{"id": 5}', '{"id": "../x", "pid": 1, "bundle": "/"}', "x" * (2 << 20)]
)
def test_hostile_state(engine: Engine, state: str) -> None:
    """On invalid standard input the hook prints one line, exits with 1 and registers nothing."""
    done = subprocess.run(
        [ROOT / "hook" / "cgpu-hook", "prestart", "--grant", f"0:{MIB}:1:0"],
        input=state, text=True, capture_output=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("opencgpu: ")
    assert done.stderr.count("\n") == 1
    assert engine.instances() == []


def test_writes_need_privilege(engine: Engine) -> None:
    """Root without CAP_SYS_ADMIN cannot write to the tree, and another user cannot read it."""
    for command in without_privilege(TREE):
        assert call(command).returncode != 0, command
    assert engine.read("0/policy") == "1\n"
