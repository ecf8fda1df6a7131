# SPDX-License-Identifier: Apache-2.0
"""One engine for all checks, which is started anew where a check wants it without enforcement."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.gpu.node import CONTROL_NODE, LOG, PROBE, Node, NodeError, driver_version, is_known, python

LOG_LINES = 12


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what wants no enforcement at the end: each change is another start of the engine."""
    items.sort(key=lambda item: "lax" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failed check what the engine has logged: a driver call that it refuses is named there."""
    report = yield
    if report.failed and item.get_closest_marker("gpu") and LOG.exists():
        lines = LOG.read_text(errors="replace").splitlines()[-LOG_LINES:]
        report.sections.append((str(LOG), "\n".join(lines)))
    return report


def pytest_report_header() -> list[str]:
    if not (CONTROL_NODE.exists() and PROBE.exists()):
        return []
    try:
        version = driver_version()
    except NodeError as error:
        return [str(error)]
    known = "in the table" if is_known(version) else "NOT in the table: run with allow_unknown_driver: true"
    return [f"driver {version}, {known}", f"programs in slices: {python()}"]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Return the engine with the real cards; skip where there are none."""
    if not CONTROL_NODE.exists():
        pytest.skip(f"{CONTROL_NODE} is not there: no NVIDIA GPU, or its driver is not loaded")
    found = Node(tmp_path_factory.mktemp("node"), driver_version())
    yield found
    found.stop()


@pytest.fixture
def held(node: Node) -> Node:
    """Return the engine as users have it."""
    return node.use(enforce=True)


@pytest.fixture
def lax(node: Node) -> Node:
    """Return the engine with enforcement off: it counts and refuses nothing."""
    return node.use(enforce=False)
