# SPDX-License-Identifier: Apache-2.0
"""The parts of the checks that need no GPU: what is said without one, and what is read out of results."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import Turn, report
from tests.gpu import calls, facts
from tests.gpu.node import NodeError, config_for, environment, probe_words

CUDA = ("memory info", "memory fill malloc 1 1", "sharing ipc 1", "steps")
FRAMEWORKS = ("frameworks torch-info", "frameworks torch-fill 1", "frameworks cupy", "frameworks jax")


def run(repository: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = environment() | {"CGPU_GPU_DEV": "/nowhere", "CGPU_GPU_CUDA": "libcuda-is-not-there.so"} | more
    return subprocess.run(
        command, cwd=repository, env=env, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("script", ["test-gpu", "record-gpu-traces"])
def test_scripts_say_that_they_skip(repository: Path, tmp_path: Path, script: str) -> None:
    """Without a GPU a script does nothing but say so in one line, which names what is missing."""
    done = run(repository, f"scripts/{script}", *([str(tmp_path / "out")] if script != "test-gpu" else []))
    assert done.returncode == 0
    assert done.stdout.startswith(f"{script}: skipped: /nowhere/nvidiactl is not there")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert not (tmp_path / "out").exists()


@pytest.mark.root
def test_missing_modules_are_named(repository: Path, tmp_path: Path) -> None:
    """An interpreter that cannot run the project is refused, with the modules that it lacks."""
    (tmp_path / "nvidiactl").touch()
    done = run(repository, "scripts/test-gpu", CGPU_GPU_DEV=str(tmp_path), CGPU_PYTHON="/bin/false")
    assert (done.returncode, done.stdout) == (1, "")
    modules = "pytest pytest_timeout yaml jsonschema mfusepy psutil"
    assert done.stderr == f"test-gpu: CGPU_PYTHON=/bin/false: cannot import: {modules}\n"


def test_checks_skip(repository: Path) -> None:
    """Without a GPU no check passes, and none is collected by name alone."""
    options = ("-o", "python_files=check_*.py", "-o", "python_functions=check_*", "-q", "tests/gpu")
    done = run(repository, sys.executable, "-m", "pytest", *options)
    last = done.stdout.splitlines()[-1]
    assert " skipped in " in last
    assert "passed" not in last


@pytest.mark.parametrize("words", [*CUDA, *FRAMEWORKS])
def test_programs_name_what_is_missing(repository: Path, words: str) -> None:
    """A program that finds no CUDA or no framework ends with one line and exit status 1."""
    name, *rest = words.split()
    done = run(repository, sys.executable, "-m", f"tests.gpu.programs.{name}", *rest)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "libcuda-is-not-there.so: cannot be loaded" in done.stderr or "cannot be imported" in done.stderr


def test_driver_version() -> None:
    """A version that is not in the table is allowed, and only then."""
    assert config_for("580.159.04", enforce=True) == {"allow_unknown_driver": True}
    assert config_for("580.142", enforce=True) == {}
    assert config_for("580.142", enforce=False) == {"enforce": False}


def test_probe_words() -> None:
    """The last line of a step counts."""
    assert probe_words("info free=1\ninfo free=2 name=x\n", "info") == {"free": "2", "name": "x"}
    with pytest.raises(NodeError, match="nothing for info"):
        probe_words("alloc 1", "info")


def allocated(parent: int, handle: int, class_id: int, size: int = 0) -> calls.Event:
    """An RM_ALLOC of client 9, as the recorder writes it."""
    asked = {"hRoot": 9, "hObjectParent": parent, "hObjectNew": 0, "hClass": class_id}
    event: calls.Event = {"call": "NV_ESC_RM_ALLOC", "pid": 1, "fd": 7, "status": 0, "in": asked}
    event["out"] = {"hObjectNew": handle}
    event["params"] = {"in": {"size": size}, "out": {}}
    return event


def control(handle: int, command: int) -> calls.Event:
    """An RM_CONTROL of client 9."""
    return {
        "call": "NV_ESC_RM_CONTROL",
        "in": {"hClient": 9, "hObject": handle, "cmd": command, "paramsSize": 8},
    }


def heap(function: int, **words: int) -> calls.Event:
    """A VID_HEAP_CONTROL of client 9."""
    asked = {"hRoot": 9, "function": function, **{f"data.{name}": value for name, value in words.items()}}
    return {"call": "NV_ESC_RM_VID_HEAP_CONTROL", "status": 0, "in": asked, "out": {}}


EVENTS = [
    allocated(9, 10, 0x80),
    allocated(10, 11, 0x2080),
    allocated(10, 12, 0xA06C),
    allocated(12, 13, 0xC86F),
    allocated(13, 14, 0xCBC0),
    allocated(10, 15, 0x40, 64),
    allocated(10, 16, 0x40, 32),
    allocated(11, 17, 0x2081),
    {"call": "NV_ESC_RM_FREE", "status": 0, "in": {"hRoot": 9, "hObjectOld": 16}},
    {"call": "open", "file": 3, "node": "nvidia-uvm"},
    {"call": "mmap", "file": 3, "length": 4096},
    {"call": "mmap", "file": 4, "length": 8192},
    control(11, 0x20801303),
    control(11, 0x20808301),
    control(17, 0x20810101),
]


def test_channels() -> None:
    """The handles of the first compute channel are found, and make the probe's word."""
    found = calls.channel(EVENTS)
    assert found is not None
    assert (found.group, found.handle) == (12, 13)
    assert found.client.dup_fd(77) == "dup-fd=77:7:9:10:11"
    assert calls.channel(EVENTS[:4]) is None


def test_summary() -> None:
    """A summary counts by name: what is held, UVM's mappings, controls that nobody can read."""
    found = calls.summary(EVENTS)
    assert found["video_bytes_held"] == 64
    assert found["uvm_mappings_by_length"] == {"4096": 1}
    assert found["controls"]["NV2080_CTRL_CMD_FB_GET_INFO_V2"] == 1
    assert found["opaque_controls"] == {
        "0x20808301 on NV20_SUBDEVICE_0, 8 bytes": 1,
        "0x20810101 on NV2081_BINAPI, 8 bytes": 1,
    }
    more = calls.difference(calls.summary([*EVENTS, *EVENTS[-3:]]), found)
    assert more["calls"] == {"NV_ESC_RM_CONTROL": 3}
    assert more["classes"] == {}


def test_memory_by_the_heap() -> None:
    """Memory that came by VID_HEAP_CONTROL counts until it is freed, and only where it is the card's."""
    card = heap(2, **{"AllocSize.hMemory": 20, "AllocSize.size": 1000, "AllocSize.attr": 0})
    host = heap(2, **{"AllocSize.hMemory": 21, "AllocSize.size": 2000, "AllocSize.attr": 1 << 25})
    assert calls.video_bytes([*EVENTS, card, host]) == 1064
    assert calls.video_bytes([*EVENTS, card, heap(3, **{"Free.hMemory": 20})]) == 64


def test_unfinished_trace(tmp_path: Path) -> None:
    """Of a trace that is still written the whole lines are read."""
    (tmp_path / "t").write_text('{"format":"cgpu-trace"}\n{"call":"exec"}\n{"call":"op')
    assert calls.read(tmp_path / "t") == [{"call": "exec"}]


def test_facts_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact that cannot be had says why, and the next one is still asked for."""

    def fails() -> dict[str, Any]:
        raise NodeError("no card")

    monkeypatch.setattr(facts, "FACTS", {"a": fails, "b": lambda: {"is": 1}})
    assert facts.gather(["a", "b"]) == {"a": {"failed": "NodeError: no card"}, "b": {"is": 1}}


def test_report() -> None:
    """The benchmark's result has versions, medians, ratios, and says which rate misses the goal."""
    about = {"device": "H100", "cuda": "13.0", "torch": "2.11"}
    turns = [
        Turn(
            {**about, "copy_gb_s": 1000.0, "product_tflop_s": 500.0},
            {"copy_gb_s": 995.0 + turn, "product_tflop_s": 480.0},
        )
        for turn in range(5)
    ]
    text = report(turns, "580.159.04", dt.date(2026, 1, 2))
    assert "H100, driver 580.159.04 (not in the table" in text
    assert "| 1000.0 | 997.0 | 0.9970 | 0.9950 to 0.9990 | yes |" in text
    assert "| 500.0 | 480.0 | 0.9600 | 0.9600 to 0.9600 | NO |" in text
