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
from tests.conformance.memory import cases
from tests.conformance.suite import verify
from tests.conformance.test_daemon import carried_out
from tests.daemon import old_kernel
from tests.daemon.conftest import SLICES
from tests.daemon.harness import MIB, Daemon, serving
from tests.daemon.old_kernel import OldKernelDaemon
from tests.daemon.work import Crew

# Those whose outcome hangs on whose descriptors a call has, and on who makes it.
ATTACKS = (
    "answer_meets_another_program",
    "descriptor_of_a_helper",
    "external_mapping",
    "file_exchanged_for_one_that_cannot_be_closed",
    "fork_bomb",
    "later_session",
    "leak_after_kill",
    "managed_mapping_of_another_program",
    "managed_mapping_of_another_user",
    "restarted_calls",
    "restarted_mappings",
)
# Refused here instead: see test_threads_with_a_table_of_their_own_are_refused.
CASES = [case for case in cases() if case.name != "own-descriptors"]
SOFT = 4
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
    """Return a daemon with one T4, which all here share but for the cases of conformance."""
    with started("T4") as running:
        yield running


def test_the_kernel_is_an_old_one() -> None:
    """What the daemon runs under gives a descriptor of a process, and none of a thread."""
    line = [sys.executable, old_kernel.__file__, sys.executable, "-c", ASKS]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.stdout == f"True False {errno.EINVAL}\n", done.stderr


def test_threads_with_a_table_of_their_own_are_refused(daemon: Daemon) -> None:
    """Threads that share descriptors with their process are served, one that does not gets EPERM."""
    words = ("alloc=1M", "threads=1:1M", f"expect-errno={errno.EPERM}", "unshare=1M", "count")
    daemon.slice(900, f"gpu=0:{1000 * MIB}", *words).succeeds()


@pytest.mark.enforcement
def test_timeslices_divide(daemon: Daemon) -> None:
    """A process's descriptors are found by its own number, and timeslices are set by them."""
    Crew.at_work(daemon, SOFT, 1, 3).await_shares(0.25, 0.75)
    assert daemon.read("0/sched").startswith("divided_by=time_slices ")
    daemon.end_slices()


@pytest.fixture
def harness(daemon: Daemon, tmp_path: Path) -> Iterator[DaemonHarness]:
    """Return a node with one T4; an attack may leave nothing behind."""
    made = DaemonHarness(daemon, tmp_path)
    yield made
    made.clear()


@pytest.mark.parametrize("attack", [one for one in attacks(DAEMON) if getattr(one, "id", "") in ATTACKS])
def test_attack(harness: DaemonHarness, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    attack.run(harness)


def test_conformance() -> None:
    """The daemon does what the cases say of every engine."""
    with started("T4:2", SLICES) as pair:
        found = carried_out(pair, CASES)
    for case in CASES:
        verify(case, found)
