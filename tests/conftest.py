# SPDX-License-Identifier: Apache-2.0
"""Common to all tests: which may skip, and where the project lies.

CGPU_TEST_REQUIRE=all turns every skip into a failure that names the reason. Tests marked `gpu` need a machine
of their own, `next_kernel` needs a kernel, `archive` software that is not reached; these stay skipped, unless
the variable names them too: CGPU_TEST_REQUIRE=all,gpu.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent
OWN_NEEDS = ("gpu", "next_kernel", "archive")
# The time of one example says more of the machine than of the code. Each lane has a number of examples.
for lane, examples in (("check", 20), ("test", 100), ("release", 1000)):
    settings.register_profile(lane, deadline=None, max_examples=examples)
settings.load_profile("test")
# Compiled test programs have no warnings; WERROR=0 lets a newer compiler have some.
os.environ.setdefault("WERROR", "1")

SetupPhase = Generator[None, pytest.TestReport, pytest.TestReport]
CollectPhase = Generator[None, pytest.CollectReport, pytest.CollectReport]


def required() -> set[str]:
    return {word for word in os.environ.get("CGPU_TEST_REQUIRE", "").split(",") if word}


def must_run(markers: set[str]) -> bool:
    """Say whether a test with these markers may not be skipped."""
    own = markers & set(OWN_NEEDS)
    return own <= required() if own else "all" in required()


def skip_reason(longrepr: object) -> str:
    reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return f"CGPU_TEST_REQUIRE does not allow this skip: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> SetupPhase:
    """Turn a skipped test into a failed one where nothing may be skipped."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and must_run({m.name for m in item.iter_markers()}):
        report.outcome = "failed"
        report.longrepr = skip_reason(report.longrepr)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> CollectPhase:
    """Turn a file that skips itself as a whole into a failure where nothing may be skipped."""
    report = yield
    if report.outcome == "skipped" and must_run(set()):
        report.outcome = "failed"
        report.longrepr = skip_reason(report.longrepr)
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="module")
def others() -> Iterator[Path]:
    """A folder for other versions of the daemon, which a file of tests makes once."""
    directory = Path(tempfile.mkdtemp(prefix="versions-"))
    yield directory
    shutil.rmtree(directory)
