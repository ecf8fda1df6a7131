# SPDX-License-Identifier: Apache-2.0
"""Moments on the command line: RFC 3339, or how long ago."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Final

from cgpu.errors import show

ACCEPTED: Final = "a time such as 10m, 2h, 1d12h (ago), 2026-11-26 or 2026-11-26T21:30:00Z"
_AGO: Final = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,3})?[smhd])+", re.ASCII)
_PART: Final = re.compile(r"([0-9.]+)([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def moment(text: str) -> datetime:
    """Return the moment that a text means; this machine's time, where it names no zone.

    Raises ArgumentTypeError.
    """
    now = datetime.now(UTC)
    try:
        if _AGO.fullmatch(text):
            ago = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
            return now - timedelta(seconds=ago)
        if re.fullmatch("[0-9]{9,11}(\\.[0-9]{1,9})?", text, re.ASCII):
            return datetime.fromtimestamp(float(text), UTC)
        # astimezone() takes a moment without a zone for this machine's.
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, ArithmeticError, OSError) as error:
        raise ArgumentTypeError(f"{show(text)}: expected {ACCEPTED}") from error
