# SPDX-License-Identifier: Apache-2.0
"""Amounts as Kubernetes writes them (resource.Quantity), of which users and other programs write any text."""

from __future__ import annotations

from decimal import Decimal

from lightkube.utils.quantity import parse_quantity

MAX_TEXT = 64


def read_amount(text: str | None) -> Decimal | None:
    """Return an amount from 0 to what 63 bits hold, None for any other text.

    The bounds come before any int(), which an exponent could make of a billion digits.
    """
    if text is None or len(text) > MAX_TEXT:
        return None
    try:
        value = parse_quantity(text)
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1 << 63 else None
