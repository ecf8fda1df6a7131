# SPDX-License-Identifier: Apache-2.0
"""Bad input, through real docker run and through prepared bundles: one exact line each."""

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

WHOLE = "expected a whole number or a comma list of them, one for each GPU, such as 6 or 3,1"
DEV = "expected a whole number from 1 to 999999999 that stands for the whole card, such as 15"
GPUS = "expected 0, 1, the UUIDs that cgpu-smi --json shows, or all"
MEM = "ALIYUN_COM_GPU_MEM_CONTAINER"
THROUGH_DOCKER = [
    ({MEM: "six"}, f"{MEM}=six: {WHOLE}"),
    ({MEM: "-6"}, f"{MEM}=-6: {WHOLE}"),
    ({MEM: "6,"}, f"{MEM}=6,: {WHOLE}"),
    ({"ALIYUN_COM_GPU_MEM_DEV": "0"}, f"ALIYUN_COM_GPU_MEM_DEV=0: {DEV}"),
    ({"ALIYUN_COM_GPU_MEM_DEV": "-15"}, f"ALIYUN_COM_GPU_MEM_DEV=-15: {DEV}"),
    ({"ALIYUN_COM_GPU_MEM_DEV": "1.5"}, f"ALIYUN_COM_GPU_MEM_DEV=1.5: {DEV}"),
    (
        {MEM: "16"},
        f"{MEM}=16: 16 is more than the whole card (ALIYUN_COM_GPU_MEM_DEV=15); expected at most 15",
    ),
    ({MEM: "1,2,3"}, f"{MEM}=1,2,3: 3 values for 2 GPUs; give at most one for each"),
    (
        {"ALIYUN_COM_GPU_VISIBLE_DEVICES": "GPU-0"},
        f"ALIYUN_COM_GPU_VISIBLE_DEVICES=GPU-0: there is no GPU GPU-0; {GPUS}",
    ),
    ({"ALIYUN_COM_GPU_VISIBLE_DEVICES": "7"}, f"ALIYUN_COM_GPU_VISIBLE_DEVICES=7: there is no GPU 7; {GPUS}"),
    (
        {"ALIYUN_COM_GPU_SCHD_WEIGHT": "0"},
        "ALIYUN_COM_GPU_SCHD_WEIGHT=0: expected a whole number from 1 to 20 (max_inst of GPU 0)",
    ),
    (
        {"ALIYUN_COM_GPU_SCHD_WEIGHT": "21"},
        "ALIYUN_COM_GPU_SCHD_WEIGHT=21: expected a whole number from 1 to 20 (max_inst of GPU 0)",
    ),
    ({"ALIYUN_COM_GPU_HIGH_PRIO": "2"}, "ALIYUN_COM_GPU_HIGH_PRIO=2: expected 0 or 1"),
    ({"CGPU_DISABLE": "yes"}, "CGPU_DISABLE=yes: expected true, 1, false or 0"),
]


def message(outcome: Outcome) -> str:
    """Return the wrapper's one line out of what the engine printed."""
    lines: list[str] = re.findall(r".*(?:cgpu-container-runtime|cgpu-hook): .*", outcome.stderr)
    assert outcome.returncode != 0, outcome.text
    assert lines, outcome.text
    return lines[-1]


@pytest.mark.parametrize(("change", "line"), THROUGH_DOCKER, ids=[line[:45] for _, line in THROUGH_DOCKER])
def test_through_docker(start: Start, docker: Docker, change: dict[str, str], line: str) -> None:
    """docker run shows the variable, its value and what is expected, and registers nothing."""
    engine = start("T4:2")
    outcome = docker.run(["/cgpu-probe", "info"], {**SIX, "NVIDIA_VISIBLE_DEVICES": "all", **change})
    assert line in outcome.text
    assert outcome.returncode != 0
    assert engine.instances("0") == engine.instances("1") == []


@pytest.mark.parametrize("name", ["runc", "docker"])
def test_last_of_duplicates_wins(engine: Engine, request: pytest.FixtureRequest, name: str) -> None:
    """Of a variable that is given twice the last value counts."""
    runtime: Runtime = request.getfixturevalue(name)
    env = [f"{MEM}=nonsense", f"{MEM}=3", "ALIYUN_COM_GPU_MEM_DEV=15", "NVIDIA_VISIBLE_DEVICES=0"]
    outcome = runtime.run(["/cgpu-probe", "info"], env)
    assert step(outcome, "info").number("total") == 15109 * 3 // 15 * MIB


def test_id_that_names_a_node(engine: Engine, runc: Runc) -> None:
    """A container cannot call itself like a node of the tree."""
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "info"], SLICE))
    line = message(runc.run_bundle(bundle, "policy"))
    assert "policy" in line
    assert engine.instances() == []


def test_ids_alike_in_twelve_characters(engine: Engine, runc: Runc) -> None:
    """The second of two long ids with the same first 12 characters is refused by name."""
    first, second = "0123456789ab" + "0" * 52, "0123456789ab" + "1" * 52
    runc.start(first, ["/cgpu-probe", "hold=60"], SLICE)
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "info"], SLICE))
    line = message(runc.run_bundle(bundle, second))
    assert f"container {first} has the same first 12 characters, 0123456789ab, on GPU 0" in line
    assert engine.instances() == ["0123456789ab"]


def test_ten_mebibyte_variable(engine: Engine, runc: Runc) -> None:
    """A variable of 10 MiB is refused with a short line."""
    spec = runc.spec(["/cgpu-probe", "info"], {**SLICE, MEM: "1" * (10 << 20)})
    line = message(runc.run_bundle(runc.bundle(spec), "large"))
    assert len(line) < 600
    assert engine.instances() == []


def test_nul_byte(engine: Engine, runc: Runc) -> None:
    """A NUL byte in a value is refused and shown as text."""
    line = message(runc.run_bundle(runc.bundle(runc.spec(["/cgpu-probe"], {**SLICE, MEM: "6\x00"})), "nul"))
    assert f"{MEM}=6\\x00: {WHOLE}" in line


BROKEN = {
    "empty": "",
    "truncated": '{"process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=6"',
    "a list": '["ALIYUN_COM_GPU_MEM_CONTAINER=6"]',
    "process is text": '{"process": "ALIYUN_COM_GPU_MEM_CONTAINER=6"}',
    "deep": "[" * 100000 + "ALIYUN_COM_GPU_MEM_CONTAINER",
    "twice": '{"process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=6"]}, "process": {"env": []}}',
    "not UTF-8": '{"x": "\udcff", "process": {"env": ["ALIYUN_COM_GPU_MEM_CONTAINER=6"]}}',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_hostile_config(engine: Engine, runc: Runc, kind: str) -> None:
    """A config.json that is broken or hostile is refused without a traceback and left as it was."""
    bundle = runc.bundle("")
    config = bundle / "config.json"
    config.write_bytes(BROKEN[kind].encode("utf-8", "surrogateescape"))
    outcome = runc.run_bundle(bundle, "broken")
    assert outcome.returncode != 0
    assert "Traceback" not in outcome.text
    assert len(outcome.stderr) < 2000
    assert config.read_bytes() == BROKEN[kind].encode("utf-8", "surrogateescape")
    assert engine.instances() == []


def test_missing_config(engine: Engine, runc: Runc) -> None:
    """A bundle without config.json is refused as the low-level runtime refuses it, without a traceback."""
    bundle = runc.bundle("")
    (bundle / "config.json").unlink()
    outcome = runc.run_bundle(bundle, "missing")
    assert outcome.returncode != 0
    assert "Traceback" not in outcome.text
    assert "config.json" in outcome.text


def test_unknown_fields_stay(engine: Engine, runc: Runc) -> None:
    """Unknown and future fields, big numbers and their order survive the edit."""
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
    """Whatever comes on standard input, the hook says one line, exits 1 and registers nothing."""
    done = subprocess.run(
        [ROOT / "hook" / "cgpu-hook", "prestart", "--grant", f"0:{MIB}:1:0"],
        input=state, text=True, capture_output=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("cgpu-hook: ")
    assert done.stderr.count("\n") == 1
    assert engine.instances() == []


def test_writes_need_privilege(engine: Engine) -> None:
    """Root without CAP_SYS_ADMIN cannot write to the tree, and another user cannot even look."""
    for command in without_privilege(TREE):
        assert call(command).returncode != 0, command
    assert engine.read("0/policy") == "1\n"
