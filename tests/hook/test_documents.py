# SPDX-License-Identifier: Apache-2.0
"""docs/variables.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgpu.config.effective import Effective
from cgpu.request.spec import NAMES
from tests.hook.support import T4, allocate, cards, refused, spec

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "variables.md").read_text()
LINES = re.findall(r"^\| `((?:ALIYUN|CGPU)\w+)=([^:]*)(: [^`]+)` \|", TEXT, re.MULTILINE)


def test_names() -> None:
    """Every variable and annotation is documented."""
    assert {name for names in NAMES.values() for name in names if f"`{name}`" not in TEXT} == set()


def test_lines_are_found() -> None:
    """The documented errors are found in the text."""
    assert len(LINES) == 10


@pytest.mark.parametrize(("name", "value", "rest"), LINES)
def test_lines(name: str, value: str, rest: str) -> None:
    """Every documented error is given word for word."""
    env = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "NVIDIA_VISIBLE_DEVICES": "all", name: value}
    if "MEM_DEV=15" in rest:
        env["ALIYUN_COM_GPU_MEM_DEV"] = "15"
    with refused(f"{name}={value}{rest}"):
        allocate(spec(env), cards(T4, T4), Effective())
