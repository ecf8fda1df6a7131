# SPDX-License-Identifier: Apache-2.0
"""Ways around the limit that users found in other tools, under the module. The probe is always static."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.integration.engine import MIB
from tests.integration.isolation.test_bypass import WAYS
from tests.integration.probe import NO_MEMORY, Printed, step, steps
from tests.integration.test_slice import LIMIT, SLICE
from tests.vm.harness.sliced_node import SlicedNode, privileged

pytestmark = pytest.mark.two_cpus

FILL = ("fill=512M:2m", "fill=1M:64k", "fill=64K:64k")
PROGRAMS = ("/cgpu-probe", "/cgpu-probe32")


@pytest.fixture(scope="module")
def sliced(loaded_node: SlicedNode) -> Iterator[SlicedNode]:
    """Return a node with the container `plain`, whose slice is 6043 MiB, for commands to be sent into."""
    loaded_node.use()
    with loaded_node.idle("plain", SLICE):
        yield loaded_node


def assert_held(node: SlicedNode, outcome: Printed, times: int = 1) -> None:
    """Fail unless each program got the slice to the byte, not a byte more, and the card never gave more."""
    fills = [one.number("bytes") for one in steps(outcome) if one.name == "fill"]
    sums = [sum(fills[at : at + len(FILL)]) for at in range(0, len(fills), len(FILL))]
    assert sums == [LIMIT] * times, outcome.text
    last = [one.number("status") for one in steps(outcome) if one.name == "fill"][len(FILL) - 1 :: len(FILL)]
    assert last == [NO_MEMORY] * times
    card = node.view().cards[0]
    assert (card["used"], card["peak"]) == (0, LIMIT)


@pytest.mark.enforcement
@pytest.mark.parametrize("program", PROGRAMS)
def test_ioctl_number_does_not_matter(sliced: SlicedNode, program: str) -> None:
    """The limit holds in the transfer wrapper, and with any magic byte and direction, at either width."""
    outcome = sliced.exec("plain", *([program, *words, *FILL] for words in WAYS.values()))
    assert_held(sliced, outcome, len(WAYS))


@pytest.mark.enforcement
def test_wiped_environment(sliced: SlicedNode) -> None:
    """A process that threw its environment away has the same limit."""
    process = {"args": ["/cgpu-probe", *FILL], "env": [], "cwd": "/", "user": {"uid": 0, "gid": 0}}
    sliced.machine.write_file("/run/process.json", json.dumps(process))
    assert_held(sliced, sliced.containers.call("exec", "--process", "/run/process.json", "plain"))


@pytest.mark.enforcement
def test_exec_joins_the_slice(sliced: SlicedNode) -> None:
    """What runc exec sends into a container and what runs there already have one limit together."""
    with sliced.holding("plain", "alloc=1G"):
        outcome = sliced.exec("plain", ["/cgpu-probe", "info", *FILL, "info"])
        view = sliced.view()
    assert step(outcome, "info").number("free") == LIMIT - 1024 * MIB
    assert sum(one.number("bytes") for one in steps(outcome) if one.name == "fill") == LIMIT - 1024 * MIB
    assert step(outcome, "info", 1).number("free") == 0
    assert (view.cards[0]["used"], view.cards[0]["peak"]) == (1024 * MIB, LIMIT)


@pytest.mark.enforcement
@pytest.mark.parametrize("shape", ["fork=4:64M:fill", "fork=3:64M:fill:nest", "threads=4:64M:fill"])
def test_forks_and_threads_share_one_limit(sliced: SlicedNode, shape: str) -> None:
    """Processes, nested forks and threads that fill at once get the slice together, and not a step more."""
    outcome = sliced.exec("plain", ["/cgpu-probe", shape, "info"])
    had = sum(one.number("bytes") for one in steps(outcome) if one.name in {"fork", "thread"})
    assert had == LIMIT // (64 * MIB) * 64 * MIB
    assert step(outcome, "info").number("free") == LIMIT
    assert sliced.view().cards[0]["peak"] <= LIMIT


@pytest.mark.enforcement
def test_own_descriptor_table_and_one_opened_before_the_fork(sliced: SlicedNode) -> None:
    """A thread with its own descriptor table is held like any other, and so is a child forked late."""
    outcome = sliced.exec(
        "plain",
        ["/cgpu-probe", "alloc=1M", "unshare=7G", "unshare=1M", "info"],
        ["/cgpu-probe", "alloc=1M", "fork=3:64M:fill:shared"],
    )
    refused, had = (one for one in steps(outcome) if one.name == "unshare")
    assert (refused.number("status"), had.number("status")) == (NO_MEMORY, 0)
    # The thread's own file may be closed a moment after the thread was waited for.
    assert step(outcome, "info").number("used") in (MIB, 2 * MIB)
    forked = sum(one.number("bytes") for one in steps(outcome) if one.name == "fork")
    assert forked == (LIMIT - MIB) // (64 * MIB) * 64 * MIB
    assert sliced.view().cards[0]["peak"] <= LIMIT


@pytest.mark.enforcement
def test_privileged(sliced: SlicedNode) -> None:
    """A privileged container, with all capabilities and devices and no seccomp profile, is held too."""
    outcome = sliced.containers.run(["/cgpu-probe", *FILL], SLICE, name="mighty", edit=privileged)
    assert_held(sliced, outcome)
