# SPDX-License-Identifier: Apache-2.0
"""Charges are what the cards say, in whatever order memory comes and goes, on every layout there is."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.check_driver.tables import last_versions
from tests.integration.commands import ENFORCE
from tests.layouts.sharing import Sharing
from tests.layouts.stage import Library, build


def histories() -> int:
    """Return how many histories each layout gets: CGPU_LAYOUT_HISTORIES, 12 unless told."""
    return int(os.environ.get("CGPU_LAYOUT_HISTORIES", "12"))


@pytest.fixture(scope="session")
def library() -> Library:
    return Library(build())


def run(
    library: Library,
    version: str,
    *,
    enforce: bool,
    exact: bool = True,
    times: int = 1,
    phases: tuple[Phase, ...] = tuple(Phase),
) -> None:
    fixed = {"library": library, "version": version, "enforce": enforce, "exact": exact}
    machine = type("Machine", (Sharing,), fixed)
    health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=times * histories(),
            stateful_step_count=40,
            suppress_health_check=health,
            phases=phases,
            report_multiple_bugs=False,
        ),
    )


@pytest.mark.enforcement
@pytest.mark.timeout(0)
@pytest.mark.parametrize("version", last_versions())
def test_charges_are_what_the_cards_say(library: Library, version: str) -> None:
    """Bytes charged are bytes held, within the limit after every step, and none at the end."""
    run(library, version, enforce=os.environ.get(ENFORCE) != "off")


@pytest.mark.timeout(0)
def test_one_record_for_all_that_a_container_left_is_never_too_little() -> None:
    """A removed container is charged for what it has until the last of it is gone, and for nothing then."""
    library = Library(build("layouts-folded", "-DCORE_FOLDS_ABOVE=0u"))
    run(library, last_versions()[-1], enforce=True, exact=False, times=10)


def test_it_fails_without_enforcement(library: Library) -> None:
    """An engine that refuses nothing does not pass."""
    with pytest.raises(AssertionError):
        run(library, last_versions()[-1], enforce=False, phases=(Phase.generate,))
