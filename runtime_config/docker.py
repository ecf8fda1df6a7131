# SPDX-License-Identifier: Apache-2.0
"""Docker's daemon.json: a runtime called cgpu. Text in, text out; all other keys keep value and place."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.runtime_config.oci_runtime.spec_json import dumps, loads

PATH = "/etc/docker/daemon.json"
RESTART = "systemctl reload docker"
NAME = "cgpu"


def add(text: str, runtime: str) -> str:
    """Return the settings with the runtime at that path. Raises CgpuError for text that is no JSON object."""
    settings = _parse(text)
    runtimes = settings.setdefault("runtimes", {})
    if not isinstance(runtimes, dict):
        raise CgpuError(f"daemon.json: runtimes: {show(runtimes)}: an object is accepted")
    entry = runtimes.get(NAME)
    if isinstance(entry, dict) and entry.get("path") == runtime:
        return text
    runtimes[NAME] = {"path": runtime}
    return _write(settings, text)


def remove(text: str) -> str:
    """Return the settings without the runtime; unchanged when it is not there. Raises CgpuError."""
    settings = _parse(text)
    runtimes = settings.get("runtimes")
    if not isinstance(runtimes, dict) or NAME not in runtimes:
        return text
    if settings.get("default-runtime") == NAME:
        raise CgpuError(
            f"daemon.json: default-runtime: {NAME}: set another one before the runtime is removed"
        )
    del runtimes[NAME]
    if not runtimes:
        del settings["runtimes"]
    return _write(settings, text)


def _parse(text: str) -> dict[str, object]:
    if not text.strip():
        return {}
    try:
        settings = loads(text.encode("utf-8"))
    except ValueError as error:
        raise CgpuError(f"daemon.json: {error}; one JSON object is accepted") from error
    if not isinstance(settings, dict):
        raise CgpuError(f"daemon.json: {show(settings)}: one JSON object is accepted")
    return settings


def _write(settings: dict[str, object], like: str) -> str:
    return dumps(settings, _indent(like)).decode("ascii") if settings else ""


def _indent(text: str) -> str | int:
    """Return how the text indents its first member; four spaces where it does not."""
    for line in text.splitlines()[1:]:
        stripped = line.lstrip(" \t")
        if stripped.startswith('"'):
            return line[: len(line) - len(stripped)] or 0
    return 4
