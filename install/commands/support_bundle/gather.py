# SPDX-License-Identifier: Apache-2.0
"""The files of a bundle. Everything is read from a place named here, with a bound; no link is followed."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cgpu import __version__, paths
from cgpu.config.effective import DEFAULTS
from cgpu.files import read_bounded
from cgpu.install.checks.finding import Finding
from cgpu.install.commands.doctor import report
from cgpu.install.commands.doctor.examine import examine
from cgpu.install.commands.support_bundle import redact
from cgpu.install.node.facts import files, programs
from cgpu.install.node.report import Situation

MAX_FILE = 1 << 20
LAST = 500  # lines of each log
LOG = paths.RUN + "/cgpud.log"
LOG_MAX = 2 << 20
KERNEL_LINE = re.compile(r"(?:^|\] |\s)(?:cgpu_km|cgpu_core\w*|NVRM|nvidia-uvm|nvidia-modeset)\b[:\s]")
CARD_FILES = ("information", "power")
PROCESS_FILES = ("limits", "status")
JOURNAL_S = 20.0
OPTIONS = frozenset(
    f"CONFIG_{name}"
    for name in (
        "CGROUPS",
        "DYNAMIC_FTRACE",
        "FUSE_FS",
        "KCMP",
        "KPROBES",
        "KPROBES_ON_FTRACE",
        "MODULES",
        "MODULE_SIG",
        "MODULE_SIG_FORCE",
        "PROC_PAGE_MONITOR",
        "SECCOMP_FILTER",
        "SECURITY_LOCKDOWN_LSM",
    )
)


def gather(now: Situation) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file."""
    yield "doctor.json", _json(report.document(now, [_quiet(one) for one in examine(now)], []))
    yield "node.json", _json(_facts(now))
    yield "configuration.json", _json(_configuration(now))
    yield "engines.json", _json([asdict(one) for one in now.settings])
    yield (
        "tree.json",
        _json(asdict(now.snapshot) if now.snapshot is not None else {"problem": now.tree_problem}),
    )
    yield (
        "cgpud-status.json",
        _json(now.status if now.status is not None else {"problem": now.status_problem}),
    )
    yield "unit.json", _json(now.unit)
    for name, text in _texts(now):
        if text:
            yield name, redact.lines(text, 10 * LAST).encode()[-MAX_FILE:]


def manifest(names: list[str], when: str) -> bytes:
    """Return the list of what is in a bundle."""
    about = {
        "format": "cgpu-support-bundle",
        "version": 1,
        "commands": __version__,
        "made": when,
        "files": names,
    }
    return _json(about)


def _texts(now: Situation) -> Iterator[tuple[str, str | None]]:
    yield "log/cgpud.txt", _daemon_log(now)
    yield "log/cgpu-hook.txt", _journal(now, "--identifier=cgpu-hook")
    yield "log/kernel.txt", _kernel_log(now)
    root = now.node.root
    yield "driver/version.txt", files.text(root, "/proc/driver/nvidia/version")
    yield "driver/params.txt", files.text(root, "/proc/driver/nvidia/params")
    for card in now.node.driver.cards:
        for name in CARD_FILES:
            yield (
                f"driver/{_plain(card.bus)}-{name}.txt",
                files.text(root, f"/proc/driver/nvidia/gpus/{card.bus}/{name}"),
            )
    for name in files.names(root, paths.PARAMETERS):
        yield f"module/{_plain(name)}.txt", files.text(root, f"{paths.PARAMETERS}/{name}")
    pid = (now.status or {}).get("pid")
    for name in PROCESS_FILES if isinstance(pid, int) else ():
        yield f"cgpud/{name}.txt", files.text(root, f"/proc/{pid}/{name}")


def _facts(now: Situation) -> dict[str, Any]:
    facts = asdict(now.node)
    # Who runs what is nobody's business; what of it matters here is in the other facts.
    del facts["processes"]
    facts["kernel"]["options"] = sorted(OPTIONS & (facts["kernel"]["options"] or frozenset()))
    facts["python"] = platform.python_version()
    facts["processors"] = os.cpu_count()
    return facts


def _quiet(one: Finding) -> Finding:
    """Return a finding without values of the file: one with a mistake may hold anything."""
    if one.name == "configuration" and one.verdict == "problem":
        return Finding(one.name, one.verdict, f"{paths.CONFIG} is not valid (its line is left out)", one.fix)
    return one


def _configuration(now: Situation) -> dict[str, Any]:
    """Return the values of our keys: in the file where it is valid, and in force."""
    return {
        "file": now.wanted.to_dict() if now.wanted is not None else None,
        "in_force": now.in_force.to_dict() if now.in_force is not None else None,
        "defaults": DEFAULTS,
    }


def _daemon_log(now: Situation) -> str | None:
    if now.unit.get("ActiveState"):
        return _journal(now, "--unit=cgpud")
    try:
        text = read_bounded(LOG, LOG_MAX).decode("utf-8", "replace")
    except OSError:
        return None
    return "\n".join(text.splitlines()[-LAST:])


def _journal(now: Situation, which: str) -> str | None:
    program = programs.find(now.node.root, "journalctl")
    if program is None or not now.node.software.systemd:
        return None
    words = (str(program), which, f"--lines={LAST}", "--no-pager", "--no-hostname", "--output=short-iso")
    return programs.output(*words, timeout_s=JOURNAL_S)


def _kernel_log(now: Situation) -> str | None:
    program = programs.find(now.node.root, "dmesg")
    said = programs.output(str(program)) if program is not None else None
    return "\n".join(kernel_lines(said or "")[-LAST:])


def kernel_lines(said: str) -> list[str]:
    """Return the lines of the kernel's log that are of the module or the driver."""
    return [line for line in said.splitlines() if KERNEL_LINE.search(line)]


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1, default=_as_text).encode()[:MAX_FILE] + b"\n"


def _as_text(value: object) -> object:
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", Path(name).name).lstrip(".") or "unnamed"
