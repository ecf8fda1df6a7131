# SPDX-License-Identifier: Apache-2.0
"""cgpu support-bundle: what support has to see of a node, without secrets and environment values.

Everything is read from a place named here, with a bound; no link is followed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from cgpu import __version__, paths
from cgpu.arguments import Parser
from cgpu.config.effective import DEFAULTS
from cgpu.errors import CgpuError, one_line
from cgpu.events.event import Event
from cgpu.events.render import as_json
from cgpu.events.sources import LogFile
from cgpu.files import read_bounded
from cgpu.install.checks.finding import Finding
from cgpu.install.commands import doctor
from cgpu.install.node import report
from cgpu.install.node.facts import files, programs
from cgpu.install.node.report import NodeReport
from cgpu.install.privilege import require_root

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

# Why the engine refused a container. Other refusals begin with what was asked for, which has no known end.
OF_ENGINE = re.compile(r"container [A-Za-z0-9_.+-]{1,127}: |the engine at ")
VALUE = re.compile(r"([\w./-]+)=", re.ASCII)

FOLDER = "cgpu-support"
MAX_TOTAL = 16 << 20

LEFT_OUT = "[left out]"
MAX_LINE = 1000
# A word that names a secret, up to the end of what follows it.
NAMED = re.compile(
    r"(?i)(?<![\w.-])([\w.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key|credential|authorization|cookie)"
    r"[\w.-]*[\"']?\s*[:=]\s*)(?:(?:bearer|basic)\s+)?(\"[^\"]*(?:\"|$)|'[^']*(?:'|$)|\S+)"
)
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
# Up to the last @ of the word: a password may have / and @ in it.
IN_URL = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*://)[^\s\"'<>]+@", re.IGNORECASE)
# The start of one whose @ was cut off.
CUT_URL = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*://)[^/\s@]+:[^/\s@]*$", re.IGNORECASE)
# NAME=VALUE in capitals is an environment variable. Ours is named in messages of hook and runtime.
VARIABLE = re.compile(r"\b([A-Z][A-Z0-9_]{2,})=(\"[^\"]*(?:\"|$)|'[^']*(?:'|$)|\S*)")


def parser() -> argparse.ArgumentParser:
    out = Parser(
        prog="cgpu support-bundle",
        description="Pack what support needs to see of this node: no secrets, no environment values.",
        examples=("cgpu support-bundle", "cgpu support-bundle --output node1.tar.gz"),
    )
    out.add_argument("--output", type=Path, metavar="FILE", help="default: cgpu-support-TIME.tar.gz, here")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0, or 1 after one line of error."""
    options = parser().parse_args(arguments)
    now = datetime.now(UTC)
    path = options.output or Path(f"cgpu-support-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    try:
        require_root("cgpu support-bundle")
        found = list(members(report.gather()))
        names = [name for name, _ in found]
        packed = pack(path, [("manifest.json", manifest(names, now.isoformat())), *found], now.timestamp())
    except CgpuError as error:
        print(f"cgpu support-bundle: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {len(packed)} files; look into it before you pass it on: tar -xzf {path}")
    return 0


# --- the files ---


def members(now: NodeReport) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file."""
    yield "doctor.json", _json(doctor.document(now, [_quiet(one) for one in doctor.examine(now)], []))
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
            yield name, redact_lines(text, 10 * LAST).encode()[-MAX_FILE:]


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


def _texts(now: NodeReport) -> Iterator[tuple[str, str | None]]:
    yield "log/cgpud.txt", _daemon_log(now)
    yield "log/cgpu-hook.txt", _journal(now, "--identifier=cgpu-hook")
    yield "log/kernel.txt", _kernel_log(now)
    yield "log/events.txt", events(paths.EVENTS)
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


def _facts(now: NodeReport) -> dict[str, Any]:
    facts = asdict(now.node)
    facts["kernel"]["options"] = sorted(OPTIONS & (facts["kernel"]["options"] or frozenset()))
    facts["python"] = platform.python_version()
    facts["processors"] = psutil.cpu_count()
    return facts


def _quiet(one: Finding) -> Finding:
    """Return a finding without values of the file: one with a mistake may hold anything."""
    if one.name == "configuration" and one.verdict == "problem":
        return Finding(one.name, one.verdict, f"{paths.CONFIG} is not valid (its line is left out)", one.fix)
    return one


def _configuration(now: NodeReport) -> dict[str, Any]:
    """Return the values of our keys: in the file where it is valid, and in force."""
    return {
        "file": now.wanted.to_dict() if now.wanted is not None else None,
        "in_force": now.in_force.to_dict() if now.in_force is not None else None,
        "defaults": DEFAULTS,
    }


def _daemon_log(now: NodeReport) -> str | None:
    if now.unit.get("ActiveState"):
        return _journal(now, "--unit=cgpud")
    try:
        text = read_bounded(LOG, LOG_MAX).decode("utf-8", "replace")
    except OSError:
        return None
    return "\n".join(text.splitlines()[-LAST:])


def _journal(now: NodeReport, which: str) -> str | None:
    program = programs.find(now.node.root, "journalctl")
    if program is None or not now.node.software.systemd:
        return None
    words = (str(program), which, f"--lines={LAST}", "--no-pager", "--no-hostname", "--output=short-iso")
    return programs.output(*words, timeout_s=JOURNAL_S)


def events(path: str) -> str:
    """Return the last events of the event log, an object a line, with what is known of an event alone."""
    try:
        found = LogFile(path).poll()
    except CgpuError:
        return ""
    return "\n".join(as_json(_without_values(one)) for one in found[-LAST:])


def _without_values(event: Event) -> Event:
    """Return an event without what a refusal may say of a container's environment."""
    if event.event != "refused" or OF_ENGINE.match(event.message):
        return event
    named = VALUE.match(event.message)
    return replace(event, message=f"{named[1]}: {LEFT_OUT}" if named else LEFT_OUT)


def _kernel_log(now: NodeReport) -> str | None:
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


# --- lines of logs: our own have no secrets, the driver's are not ours ---


def redact_line(text: str) -> str:
    """Return one line, printable, at most 1000 characters, without what looks like a secret."""
    out = one_line(text[:MAX_LINE])
    out = IN_URL.sub(rf"\1{LEFT_OUT}@", out)
    if len(text) > MAX_LINE:
        out = CUT_URL.sub(rf"\1{LEFT_OUT}", out)
    out = NAMED.sub(rf"\1{LEFT_OUT}", out)
    out = BEARER.sub(rf"\1 {LEFT_OUT}", out)
    return VARIABLE.sub(rf"\1={LEFT_OUT}", out)


def redact_lines(text: str, last: int) -> str:
    """Return the last lines of a text, each without what looks like a secret."""
    return "".join(f"{redact_line(one)}\n" for one in text.splitlines()[-last:])


# --- the archive: made anew, for root's eyes only, of bounded size ---


def pack(path: Path, members: Iterable[tuple[str, bytes]], made: float) -> list[str]:
    """Write the archive, mode 0600; return the names in it. Raises CgpuError; no file is left then.

    made: seconds since the epoch. Members that would make it larger than 16 MiB unpacked are left out.
    """
    try:
        # Never replaces a file, and never follows a link.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise CgpuError(f"{path}: is there already; name another file: --output FILE") from error
    except OSError as error:
        raise CgpuError(
            f"{path}: cannot be made: {error.strerror}; name another file: --output FILE"
        ) from error
    try:
        with os.fdopen(fd, "wb") as stream:
            os.fchmod(fd, 0o600)
            return _write(stream, members, made)
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise CgpuError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def _write(stream: io.BufferedWriter, members: Iterable[tuple[str, bytes]], made: float) -> list[str]:
    names, left = [], MAX_TOTAL
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members:
            if len(content) > left:
                continue
            left -= len(content)
            about = tarfile.TarInfo(f"{FOLDER}/{name}")
            about.size, about.mode, about.mtime = len(content), 0o600, int(made)
            archive.addfile(about, io.BytesIO(content))
            names.append(name)
    return names
