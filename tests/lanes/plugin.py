# SPDX-License-Identifier: Apache-2.0
"""The lanes' plugin of pytest: it leaves tests out, gives each worker a /run, and writes a report.

Without the options of this plugin pytest does what it always does.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lanes.table import read_table

# A folder for one file from each process of pytest that the runner has started.
REPORTS = "CGPU_TEST_REPORTS"
PLUGINS = "PYTEST_PLUGINS"
CLONE_NEWNS = 0x00020000
MS_REC_PRIVATE = 0x4000 | 0x40000


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes", "the project's lanes")
    group.addoption("--lane-test", action="store_true", help="leave out what make test does not run")
    group.addoption("--own-run", action="store_true", help="give each process of pytest a /run of its own")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process of pytest, and have the runner's report written if it asked for one."""
    is_worker = hasattr(config, "workerinput")
    has_workers = bool(config.getoption("numprocesses", None))
    if config.getoption("--own-run") and (is_worker or not has_workers) and os.geteuid() == 0:
        mount_own_run()
    # A pytest that a test starts is no part of the report.
    folder = os.environ.pop(REPORTS, None)
    os.environ.pop(PLUGINS, None)
    if folder is not None and not is_worker:
        config.pluginmanager.register(Report(Path(folder)), "lane-report")


def mount_own_run() -> None:
    """Mount an empty /run for this process and its children: engines have their default paths there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace of its own; run as root, or without --own-run")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `make test` does not run, if that is the lane."""
    if not config.getoption("--lane-test"):
        return
    table = read_table()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if table.is_of_test(item.nodeid) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Return the scheduler by scopes if a lane asked for workers of its own."""
    if not config.getoption("--own-run"):
        return None
    # A pytest without workers needs no xdist.
    from tests.lanes.scopes import Scopes

    return Scopes(config, log)


class Report:
    """Collects how each test ended and how many seconds it took, set-up included; writes it at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tests: dict[str, tuple[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome, seconds = self.tests.get(report.nodeid, ("passed", 0.0))
        # A failed test stays failed after any tidying.
        if report.outcome != "passed" and outcome != "failed":
            outcome = "known" if hasattr(report, "wasxfail") else report.outcome
        self.tests[report.nodeid] = (outcome, seconds + report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.tests[report.nodeid] = ("failed", 0.0)

    def pytest_sessionfinish(self) -> None:
        rows: Sequence[tuple[str, str, float]] = [(name, *test) for name, test in self.tests.items()]
        # A process may have a number that another had, in a namespace of its own.
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.folder, delete=False) as file:
            json.dump(rows, file)
