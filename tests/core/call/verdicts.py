# SPDX-License-Identifier: Apache-2.0
"""The tables that the tests of judged classes and controls share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
ABI = ROOT / "kmod" / "abi"
CLIENTS = Path(__file__).with_name("nvidia_clients.json")

Json = dict[str, Any]


def table(name: str) -> Json:
    """Return a file of the driver's data."""
    found: Json = json.loads((ABI / name).read_text())
    return found


def client_numbers(kind: str) -> set[int]:
    """Return the classes, or the controls, that NVIDIA's clients of both versions ask for."""
    versions = json.loads(CLIENTS.read_text())["clients"].values()
    return {int(number, 16) for clients in versions for client in clients.values() for number in client[kind]}
