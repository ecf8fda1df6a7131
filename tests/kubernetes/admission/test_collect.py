# SPDX-License-Identifier: Apache-2.0
"""The command that collects templates."""

from __future__ import annotations

import pytest

from cgpu.kubernetes.admission.collect import parser


def test_hours() -> None:
    """As long as a template's mark may be old while a pod that was given it is on its way, it stays."""
    assert parser().parse_args([]).hours == 24
    assert parser().parse_args(["--hours", "2"]).hours == 2


@pytest.mark.parametrize("text", ["0", "1.9", "-3", "nan", "inf", "1e9", "two"])
def test_hours_that_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Less is refused with one line that says why."""
    with pytest.raises(SystemExit):
        parser().parse_args(["--hours", text])
    assert f"--hours: {text}: expected 2 to 87600: a template that" in capsys.readouterr().err
