# SPDX-License-Identifier: Apache-2.0
"""Where an error can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgpu.runtime_config.oci_runtime.main import report


def test_both_forms_of_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The log gets one line in the form it was asked in, after what it had; stderr gets one in any case."""
    path = tmp_path / "log"
    path.write_text("before\n")
    report('a "b" \\c', str(path), "json")
    report('a "b" \\c', f"file:{path}", "text")
    before, as_json, as_text = path.read_text().splitlines()
    assert (before, json.loads(as_json)["msg"]) == ("before", 'a "b" \\c')
    assert as_text.endswith(' level=error msg="a \\"b\\" \\\\c"')
    assert capfd.readouterr().err == 'cgpu-container-runtime: a "b" \\c\n' * 2


@pytest.mark.parametrize("log", ["", "journald:x", "syslog:x", "/does/not/exist/log", "/"])
def test_without_a_log_there_is_stderr(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Where there is no log file, or none that can be written, stderr has to do."""
    report("why", log, "json")
    assert capfd.readouterr().err == "cgpu-container-runtime: why\n"
