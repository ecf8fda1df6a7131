# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the configuration, for whom the library that checks it is not at hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).resolve().parent / "schema.json"


@cache
def schema() -> dict[str, Any]:
    """Return the schema."""
    document: dict[str, Any] = json.loads(SCHEMA.read_text())
    return document
