# SPDX-License-Identifier: Apache-2.0
"""Speed at which a scheduler binds pods, and each component's cost of it."""

from __future__ import annotations

import os
import re
import ssl
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import Server

SCHEDULER = "https://127.0.0.1:10259"
SCHEDULED = re.compile(
    rb'^scheduler_schedule_attempts_total\{[^}]*result="scheduled"[^}]*\} (\S+)', re.MULTILINE
)
SAMPLE_S = 0.25
METRICS = "/metrics"
#: answered to whoever asks: this program has no account with the scheduler
OPEN = ("/healthz", "/livez", "/readyz", METRICS, "/debug/pprof/profile")
FIRST_S = 600.0  # until the caches have everything and the first pod is bound
TICKS = os.sysconf("SC_CLK_TCK")
KIB = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """Use by a process. cpu_ms: processor time for each pod that was bound; mib: resident memory at end."""

    cpu_ms: float
    mib: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Pods that were bound, in so many seconds, and each component's use."""

    pods: int
    seconds: float
    usage: Mapping[str, Usage]

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    pods: int
    cpu: Mapping[str, float]


def fetch(path: str, timeout: float = 30) -> bytes:
    """Return what the scheduler answers to a path."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with urllib.request.urlopen(SCHEDULER + path, timeout=timeout, context=context) as answer:  # noqa: S310 # fixed
        body: bytes = answer.read()
        return body


def profile(seconds: int) -> bytes:
    """Return a profile of the running scheduler's processor time, for `go tool pprof`."""
    return fetch(f"/debug/pprof/profile?seconds={seconds}", timeout=seconds + 30)


def bound() -> int:
    """Return how many pods the scheduler has bound since its start."""
    found = SCHEDULED.search(fetch(METRICS))
    return int(float(found[1])) if found else 0


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) // KIB


def measure(components: Mapping[str, Server], pods: int, limit_s: float) -> Measured:
    """Watch until so many pods are bound, or for limit_s seconds after the first. Raises RuntimeError."""
    first = _first(components)
    last = first
    while last.pods < pods and last.at - first.at < limit_s:
        time.sleep(SAMPLE_S)
        last = _sample(components)
    if last.pods == first.pods:
        raise RuntimeError("the scheduler bound no pod after its first; see its log")
    number = last.pods - first.pods
    usage = {
        name: Usage(1000 * (last.cpu[name] - first.cpu[name]) / number, resident_mib(component.pid))
        for name, component in components.items()
    }
    return Measured(number, last.at - first.at, usage)


def _first(components: Mapping[str, Server]) -> _Sample:
    end = time.monotonic() + FIRST_S
    while time.monotonic() < end:
        found = _sample(components)
        if found.pods:
            return found
        time.sleep(SAMPLE_S / 5)
    raise RuntimeError(f"the scheduler bound no pod in {FIRST_S:.0f} seconds; see its log")


def _sample(components: Mapping[str, Server]) -> _Sample:
    pods = bound()
    cpu = {name: cpu_seconds(component.pid) for name, component in components.items()}
    return _Sample(time.monotonic(), pods, cpu)
