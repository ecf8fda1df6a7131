# SPDX-License-Identifier: Apache-2.0
"""The rules and the dashboard that come with the chart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

FILES = Path(__file__).resolve().parents[2] / "install/packaging/kubernetes/chart/files"
RULES = FILES / "rules.yaml"


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
    return found


def queries() -> dict[str, str]:
    """Return the query of each target of the dashboard, by panel and letter, with everything selected."""
    found = {}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):  # a row has none
            text = target["expr"].replace("$__rate_interval", "1m")
            for name in ("instance", "gpu", "namespace"):
                text = text.replace(f"${name}", ".*")
            found[f"{panel['title']} {target['refId']}"] = text
    return found
