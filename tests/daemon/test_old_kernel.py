# SPDX-License-Identifier: Apache-2.0
"""cgpud on kernels before 6.9, which give no descriptor of a thread: the process's is taken."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.attack import Attack
from tests.attacks.daemon_harness import DaemonHarness
from tests.attacks.harness import DAEMON
from tests.attacks.suite import attacks
from tests.conformance.steps import Case
from tests.conformance.suite import Answers, suite, verify
from tests.conformance.test_daemon import carried_out
from tests.daemon import old_kernel
from tests.daemon.conftest import SLICES
from tests.daemon.harness import MIB, Daemon, built, serving
from tests.daemon.old_kernel import OldKernelDaemon

# Without its first thread a process has no descriptors there that can be copied: its calls are refused.
REFUSED = "managed_mapping_without_a_first_thread"
ATTACKS = [one for one in attacks(DAEMON) if getattr(one, "id", "") != REFUSED]
# Refused here instead: see test_threads_with_a_table_of_their_own_are_refused.
CASES = [case for case in suite("cgpud", "0") if case.name != "own-descriptors"]
STEPS = ("alloc=600M", "dup", "expect=0x51", "alloc=600M", "count")
ASKS = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
asked = [libc.syscall(434, os.getpid(), flags) >= 0 for flags in (0, {old_kernel.PIDFD_THREAD})]
print(*asked, ctypes.get_errno())
"""


@contextmanager
def started(*arguments: str) -> Iterator[Daemon]:
    with serving(OldKernelDaemon, *arguments) as running:
        for folder in (running.run.parent, running.run):
            folder.chmod(0o755)
        yield running


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Return a daemon with one T4, which all here share but for the conformance suite."""
    with started("T4") as running:
        yield running


def test_the_kernel_is_an_old_one() -> None:
    """What the daemon runs under gives a descriptor of a process, and none of a thread."""
    line = [sys.executable, old_kernel.__file__, sys.executable, "-c", ASKS]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.stdout == f"True False {errno.EINVAL}\n", done.stderr


def test_threads_with_a_table_of_their_own_are_refused(daemon: Daemon) -> None:
    """Threads that share descriptors with their process are served, one that does not gets EPERM."""
    sliced = daemon.slice(900, f"gpu=0:{1000 * MIB}", program=built("own_table"))
    assert sliced.finish() == f"first=0 shared=0 own={errno.EPERM}\n"


def test_calls_of_all_kinds(daemon: Daemon) -> None:
    """Memory, a duplicate, managed memory and threads: the limit holds to the byte."""
    daemon.slice(901, f"gpu=0:{1000 * MIB}", *STEPS).succeeds()
    daemon.slice(902, f"gpu=0:{1000 * MIB}", "managed=64M", "count").succeeds()


@pytest.fixture
def harness(daemon: Daemon, tmp_path: Path) -> Iterator[DaemonHarness]:
    """Return a node with one T4; an attack may leave nothing behind."""
    made = DaemonHarness(daemon, tmp_path)
    yield made
    made.clear()


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack(harness: DaemonHarness, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    attack.run(harness)


@pytest.fixture(scope="module")
def found() -> Iterator[Answers]:
    with started("T4:2", SLICES) as pair:
        yield carried_out(pair, CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conformance(found: Answers, case: Case) -> None:
    """The daemon does what the case says of every engine."""
    verify(case, found)
