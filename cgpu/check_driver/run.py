# SPDX-License-Identifier: Apache-2.0
"""Runs cgpu-check-driver, which makes the calls, and reads what it found. For the command and for cgpud."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cgpu.errors import CgpuError, show

PROGRAM = Path(__file__).resolve().parent.parent / "kmod" / "build" / "cgpu-check-driver"
DEV = "/dev"
COMMAND = "cgpu check-driver"
# The program ends itself when it cannot begin within 20 seconds, and with each card when that takes
# 20 to open or 40 to be checked.
BEGIN_S = 25.0
CARD_S = 60.0
# Nothing ends a program that the driver does not let go: this bounds one check, whatever it prints.
CHECK_S = 25.0
ROUND_S = 1.0
NODE = re.compile(r"nvidia[0-9]{1,2}")
END_S = 2.0
EXIT_FAILED = 1
BEGUN = "begun"
ANNOUNCED = f"\n{BEGUN}\t".encode()
VERDICTS = ("passed", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class Check:
    """One check on one card. reason: why it did not pass, else empty."""

    verdict: str
    card: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a check: versions of the driver and of the table whose layouts were used.

    known: the table has this very version, or a row has it.
    """

    driver: str
    known: bool
    table: str
    checks: tuple[Check, ...]

    def with_verdict(self, verdict: str) -> list[Check]:
        """Return the checks that came to it."""
        return [check for check in self.checks if check.verdict == verdict]


class CheckError(CgpuError):
    """A driver that did not pass. outcome: its version and what was found, as far as the check came."""

    def __init__(self, message: str, outcome: Outcome | None = None) -> None:
        """Keep what is known beside the message."""
        super().__init__(message)
        self.outcome = outcome


def timeout_s(dev: str) -> float:
    """Return how long all checks of the cards below a directory may take."""
    try:
        cards = sum(NODE.fullmatch(entry.name) is not None for entry in Path(dev).iterdir())
    except OSError:
        cards = 0
    return BEGIN_S + CARD_S * cards


def _wait(child: subprocess.Popen[str], dev: str) -> tuple[str, str]:
    """Return what the program printed. Raises CheckError with the check that does not come back."""
    so_far, limit = b"", timeout_s(dev)
    end = time.monotonic() + limit
    deadline = time.monotonic() + CHECK_S
    while time.monotonic() < min(deadline, end):
        try:
            return child.communicate(timeout=ROUND_S)
        except subprocess.TimeoutExpired as expired:
            before, so_far = so_far, expired.output or b""
            if so_far.count(ANNOUNCED) > before.count(ANNOUNCED):
                deadline = time.monotonic() + CHECK_S
    late = f"did not come back within {CHECK_S:.0f} seconds"
    if time.monotonic() < deadline:
        late = f"was still at work after {limit:.0f} seconds, the limit of all checks"
    child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=END_S)
    text = so_far.decode(errors="replace")
    raise CheckError(
        f"the driver's check did not end: {_last(text, dev)} {late}; "
        "what the driver has to say: dmesg | grep -e NVRM -e nvidia",
        _begun(text),
    )


def _last(output: str, dev: str) -> str:
    """Return what the program was at: the last check that it has announced."""
    lines = [line.split("\t") for line in output.splitlines() if line.startswith(BEGUN)]
    return f"{dev}/nvidia{lines[-1][1]}: {lines[-1][2]}" if lines else f"{dev}/nvidiactl"


def _version(line: str) -> Outcome:
    word, driver, known, table = line.split("\t")
    if word != "driver":
        raise ValueError(line)
    return Outcome(driver, known in ("known", "row"), table, ())


def _begun(output: str) -> Outcome | None:
    """Return the version of a check that did not come to its end, if it was told."""
    first, end, _ = output.partition("\n")
    try:
        return _version(first) if end else None
    except ValueError:
        return None


def _parsed(output: str, dev: str) -> Outcome:
    """Return what the program has printed. Raises ValueError where it is anything else."""
    first, *rest = output.splitlines() or [""]
    version = _version(first)
    checks = []
    for line in rest:
        verdict, minor, name, reason = line.split("\t")
        if verdict == BEGUN:
            continue
        checks.append(Check(verdict, f"{dev}/nvidia{int(minor)}", name, reason))
    if any(check.verdict not in VERDICTS for check in checks):
        raise ValueError(first)
    return replace(version, checks=tuple(checks))


def run(dev: str = DEV, rows: str = "", *, unknown_only: bool = False, program: Path = PROGRAM) -> Outcome:
    """Check the driver whose nodes are below dev; only one that is not in the table with unknown_only.

    rows: lines of versions that are not in the table (cgpu.kmod.abi.rows).
    Raises CheckError when there is no driver, no card, or the program does not come to an end.
    """
    command = [str(program), "--dev", dev, "--rows", rows, *(["--unknown-only"] if unknown_only else [])]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={},
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise CgpuError(f"{program}: cannot be run: {error.strerror}; build it: make -C kmod") from error
    output, errors = _wait(child, dev)
    if child.returncode not in (0, EXIT_FAILED):
        # A negative one is the signal that ended it: SIGALRM after its time.
        last = show(output.splitlines()[-1]) if output else "nothing"
        told = f"the driver's check ended with {child.returncode} after: {last}; try: {COMMAND}"
        raise CheckError(errors.strip() or told, _begun(output))
    try:
        outcome = _parsed(output, dev)
    except ValueError as error:
        raise CgpuError(f"{program}: not understood: {error}") from error
    if (child.returncode == EXIT_FAILED) != bool(outcome.with_verdict("failed")):
        raise CgpuError(f"{program}: ended with {child.returncode}, and says otherwise")
    return outcome


def assure_unknown(dev: str, rows: str = "", program: Path = PROGRAM) -> Outcome:
    """Check a driver that is neither in the table nor in the rows. Raises CheckError if it fails."""
    outcome = run(dev, rows, unknown_only=True, program=program)
    failed = outcome.with_verdict("failed")
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise CheckError(
            f"driver version {outcome.driver} is unknown and has not the layouts of {outcome.table}: "
            f"{first.card}: {first.name}: {first.reason}{more}; "
            "take a driver of the table, or a newer OpenCGPU; "
            f"all checks: {COMMAND}",
            outcome,
        )
    return outcome
