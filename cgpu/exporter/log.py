# SPDX-License-Identifier: Apache-2.0
"""The exporter's log, in the form that the node's configuration says."""

from __future__ import annotations

from cgpu.service_log import ERROR, ServiceLog

say = ServiceLog("cgpu-exporter", "cgpu exporter: ")


def failed(text: str) -> None:
    """Write the line of an error."""
    say(text, ERROR)
