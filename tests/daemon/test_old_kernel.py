# SPDX-License-Identifier: Apache-2.0
"""cgpud on kernels before 6.9, which give no descriptor of a thread: the process's is taken.

tests/vm/nvidia has the attacks and the conformance suite on Linux 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.daemon_harness import DaemonHarness
from tests.attacks.foreign_files import file_exchanged_for_one_that_cannot_be_closed
from tests.daemon.harness import MIB, Daemon, serving
from tests.daemon.old_kernel import OldKernelDaemon
from tests.daemon.work import Crew

SOFT = 4


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Return a daemon with one T4, which all here share."""
    with serving(OldKernelDaemon, "T4") as running:
        for folder in (running.run.parent, running.run):
            folder.chmod(0o755)
        yield running


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


def test_exchanged_file(harness: DaemonHarness) -> None:
    """A file whose server never answers leaves nothing in cgpud that has to be closed."""
    file_exchanged_for_one_that_cannot_be_closed.run(harness)
