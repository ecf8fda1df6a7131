# SPDX-License-Identifier: Apache-2.0
"""Whether the real driver understands its calls as the engine takes them."""

from __future__ import annotations

import pytest

from cgpu.check_driver.main import lines
from cgpu.check_driver.run import run
from cgpu.kmod.abi.rows.files import Rows
from tests.gpu.node import DEV, Node

pytestmark = pytest.mark.gpu


def check_calls(node: Node) -> None:
    """Every check of `cgpu check-driver` passes on every card, or is skipped with a reason."""
    outcome = run(DEV)
    assert outcome.driver == node.driver
    assert [line for line in lines(outcome, Rows()) if line.startswith("FAILED")] == []
    assert outcome.with_verdict("passed")
