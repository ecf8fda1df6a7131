# SPDX-License-Identifier: Apache-2.0
"""The probe's words for work on simulated cards."""

from __future__ import annotations

import pytest

from tests.sim.client import Client
from tests.sim.support import Sim, fields

TIMER = 62  # ETIME


def lines(sim: Sim, start: str, *words: str, bits: int = 64) -> list[dict[str, str]]:
    """Run words, which must all go well, and return the fields of the lines that begin so."""
    return [fields(line) for line in sim.lines(*words, bits=bits) if line.startswith(start)]


@pytest.mark.parametrize("bits", [64, 32])
def test_work_is_done(sim: Sim, bits: int) -> None:
    """As many kernels as were submitted to each channel, and their time."""
    words = ("group=3", "submit=20:100us:1us", "drain=10s", "figures")
    expected = {"submitted": "60", "completed": "60", "queued": "0", "busy": "6000000"}
    assert lines(sim, "figures", *words, bits=bits)[0].items() >= expected.items()


def test_a_group_tells_its_handles(sim: Sim) -> None:
    """Those of the client, of itself and of its channels: by them others can name it."""
    told = lines(sim, "group", "group=2")[0]
    assert int(told["client"], 16) >> 20 == 0xC1D
    assert len({told["handle"], *told["channels"].split(",")}) == 3


def test_busy_groups_share_the_card(sim: Sim) -> None:
    """By their time slices; each line has what a group got of the time."""
    told = lines(sim, "busy", "group", "group", "slice=3072", "busy=500ms:1ms")
    small, large = (int(line["busy"]) for line in told)
    assert large / small == pytest.approx(3, rel=0.1)
    assert 450e6 < small + large <= int(told[1]["elapsed"])
    assert int(told[0]["completed"]) == pytest.approx(small / 1e6, abs=2)


def test_busy_processes(sim: Sim) -> None:
    """Each has a client and a group of its own, and the same part."""
    told = lines(sim, "busy", "busy=500ms:1ms:1us:3")
    assert len({line["pid"] for line in told}) == 3
    for line in told:
        assert int(line["busy"]) / int(line["elapsed"]) == pytest.approx(0.32, abs=0.05)


def test_what_is_held_back(sim: Sim) -> None:
    """Not scheduled, taken off, or disabled: nothing ends, and what waits is done afterwards."""
    stuck = ("submit=5:10us", f"expect-errno={TIMER}", "drain=50ms")
    told = lines(
        sim,
        "figures",
        "idle-group",
        *stuck,
        "schedule=1",
        "drain=10s",
        "schedule-channel=0",
        *stuck,
        "schedule-channel=1",
        "drain=10s",
        "disable",
        *stuck,
        "schedule=1",
        *stuck[1:],
        "enable",
        "drain=10s",
        "figures",
    )
    assert (told[0]["completed"], told[0]["queued"]) == ("15", "0")


def test_rewound_work_is_lost(sim: Sim) -> None:
    """What did not begin never does."""
    told = lines(
        sim,
        "figures",
        "idle-group",
        "submit=50:10us",
        "disable=2",
        "enable",
        "schedule=1",
        "drain=10s",
        "figures",
    )
    assert (told[0]["submitted"], told[0]["completed"], told[0]["queued"]) == ("50", "0", "0")


def test_scheduling_is_read_back(sim: Sim) -> None:
    """The driver's memory of a slice, and the card's policy."""
    told = lines(
        sim,
        "slice=",
        "group",
        "slice=123",
        "scheduling",
        "properties=456",
        "compute-policy=2",
        "scheduling",
        "compute-policy=0",
    )
    assert [(line["slice"], line["compute-policy"]) for line in told] == [("123", "0"), ("123", "2")]


def test_another_clients_channel(sim: Sim, client: Client) -> None:
    """Nobody asks whose a channel is."""
    sim.lines("group", "submit=1:1us", "drain=10s", "expect=0x21", f"channel-off={client.handle}:7")


def test_words_that_need_a_group(sim: Sim) -> None:
    """Without one they are refused by the probe; what is wrong is not understood."""
    for word in (
        "submit=1:1us",
        "schedule=1",
        "slice=5",
        "preempt",
        "disable",
        "enable",
        "scheduling",
        "restart",
    ):
        assert sim.probe(word).returncode == 3, word
    wrong = (
        "submit=1",
        "submit=1:1h",
        "submit=:1us",
        "busy=1s",
        "busy=1s:0",
        "busy=1s:1ms:1:999",
        "drain",
        "drain=x",
    )
    for word in (
        *wrong,
        "group=129",
        "group=x",
        "slice",
        "scheduling=1",
        "samples=1",
        "figures=1",
        "schedule=",
        "enable=1",
    ):
        assert sim.probe(word).returncode == 2, word
