# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time against hostile ones: scheduling controls, hidden descriptors, deaths on either side."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.daemon.harness import PROBE, Daemon, Sliced
from tests.daemon.work import PHASE, PHASES, Crew, Hand, near
from tests.integration.commands import eventually
from tests.policies import PREEMPTIVE, SOFT, WEIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.daemon.conftest import MakeDaemon

# Controls on a group: a second's slice, one that needs rights, one that would undo a channel disable.
CONTROLS = (
    *("slice=1000000", "interleave=2", "realtime=1", "restart=1", "runlist-policy=1", "compute-policy=3"),
    *("properties=1000000", "interleave-channel=2", "schedule=0", "schedule=1", "enable"),
)
TIMES = 3  # phases in a row that an attacker wins nothing in
HANG_S = 12  # each channel that the card does not stop takes it a second


def divided_by(daemon: Daemon) -> str:
    return daemon.read("0/sched").split()[0].removeprefix("divided_by=")


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [PREEMPTIVE, WEIGHT, SOFT])
def test_its_own_controls_win_nothing(daemon: Daemon, policy: int) -> None:
    """A container that uses each scheduling control has what one has that does not."""
    crew = Crew(daemon, policy)
    crew.add(1)
    crew.add(1, *CONTROLS)
    crew.begin()
    crew.await_shares(0.5, 0.5, times=TIMES)


@pytest.mark.enforcement
def test_it_cannot_stop_another(daemon: Daemon) -> None:
    """The driver would stop channels of any client; the engine does not let it."""
    crew = Crew(daemon, SOFT)
    victim = crew.add(1)
    made = re.match(r"group client=(\S+) handle=\S+ channels=(\S+) status=0x0", victim.sliced.line("group"))
    assert made is not None
    crew.add(1, "expect=0x1b", f"channel-off={made[1]}:{made[2]}")
    crew.begin()
    crew.await_shares(0.5, 0.5)


@pytest.mark.enforcement
def test_schedule_calls_open_no_gate(daemon: Daemon, base: Path) -> None:
    """One that has its group put on the runlist anew all the time has its part at most."""
    crew = Crew(daemon, WEIGHT)
    crew.add(3)
    # A call in each turn of the other one.
    words = ("group", "submit=1000:6ms", *["schedule=1", "hold=0.01"] * 300)
    churn = daemon.slice(8, "gpu=0:104857600:1", *words, program=script(base / "again", AGAIN), until="begun")
    churn.go_on()
    crew.begin()
    calls = daemon.status()["engine"]["supervised"]
    crew.shares()
    crew.await_phase(lambda had: had[0] > 0.65, "more than 0.65", times=TIMES)
    assert daemon.status()["engine"]["supervised"] > calls + 100
    assert churn.process.poll() is None


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


# The probe again and again.
AGAIN = f"""#!/bin/sh
echo begun; read -r line
while :; do {PROBE} "$@" >/dev/null; done
"""
# Its processes come and go, each with a channel group at work, until its input ends.
FORKS = f"""#!/bin/sh
churn() {{ while :; do {PROBE} "$@" >/dev/null & {PROBE} "$@" >/dev/null & wait; done; }}
echo begun; read -r line
for _ in 1 2 3; do churn "$@" group busy=60ms:300us & done
cat; kill 0
"""
# The probe with its descriptors beyond those that the daemon goes through.
FAR = f"""#!/usr/bin/python3 -I
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
for _ in range(1100): os.set_inheritable(os.dup(0), True)
os.execv({str(PROBE)!r}, [{str(PROBE)!r}, *sys.argv[1:]])
"""


def usage(daemon: Daemon, sliced: Sliced) -> int:
    return int(daemon.read(f"0/{sliced.id[:12]}/usage"))


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [PREEMPTIVE, WEIGHT])
def test_a_fork_storm_is_not_more_time(daemon: Daemon, base: Path, policy: int) -> None:
    """One that starts process after process, six at a time, takes nothing from one with a single group."""
    crew = Crew(daemon, policy)
    crew.add(1)
    churn = daemon.slice(8, "gpu=0:1073741824:1", program=script(base / "forks", FORKS), until="begun")
    churn.go_on()
    crew.begin()
    begun = usage(daemon, churn)
    eventually(lambda: usage(daemon, churn) > begun, "none of its processes computes")
    crew.shares()
    # On a machine that has more to do fewer of them come at a time.
    crew.await_phase(lambda had: had[0] > 0.4, "at least 0.4", times=TIMES)
    assert usage(daemon, churn) > begun


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def test_a_crash_of_the_daemon(fresh: Daemon, policy: int) -> None:
    """The next daemon knows nothing of channels and timeslices that were set, and sets them anew."""
    crew = Crew.at_work(fresh, policy, 1, 3)
    crew.await_shares(0.25, 0.75)
    fresh.crash()
    crew.shares()
    crew.await_shares(0.25, 0.75)
    fresh.end_slices()


def test_a_card_that_hangs_holds_up_no_start(make_daemon: MakeDaemon) -> None:
    """A kernel that cannot be interrupted keeps one card from being set; the daemon starts, and says so.

    The simulated card answers after a second at the latest, here for each of those who are to be stopped.
    """
    daemon = make_daemon("T4:2", f"policy: {WEIGHT}\nenforce: true\n")
    for seed in range(1, HANG_S + 1):
        daemon.slice(seed, "gpu=0:1073741824:1", "group", "submit=1:60s:0", "hold").line("hold")
    other = daemon.slice(HANG_S + 1, "gpu=1:1073741824:1", "gpu=1", "hold", "alloc=2M", "group", until="hold")
    daemon.crash()
    line = "GPU 0: its channels are not set, the driver has not answered for 3 seconds; not waited for"
    eventually(lambda: line in daemon.log(), "the log does not name the card")
    assert "GPU 1: its channels" not in daemon.log()
    began = time.monotonic()
    assert other.finish("").count("status=0x0") == 2
    assert time.monotonic() - began < HANG_S / 2


@pytest.mark.enforcement
def test_a_stop_leaves_gates_as_they_are(fresh: Daemon) -> None:
    """Without an engine one container goes on and the others stand still; the next start goes on."""
    crew = Crew.at_work(fresh, WEIGHT, 1, 1)
    assert fresh.command("--stop").returncode == 0
    crew.await_phase(lambda had: sorted(had) == [near(0), near(1)], "all for one", times=2)
    fresh.start()
    crew.await_shares(0.5, 0.5)


def far_hand(daemon: Daemon, base: Path) -> Hand:
    program = script(base / "far", FAR)
    words = ("group", "hold", *[PHASE] * 3, "scheduling", *[PHASE] * PHASES)
    return Hand(daemon.slice(7, "gpu=0:104857600:3", *words, program=program), 1)


@pytest.mark.enforcement
def test_a_descriptor_that_is_not_found(fresh: Daemon, base: Path) -> None:
    """No process can set its groups' timeslices: channel enable divides the time, until the next call."""
    crew = Crew(fresh, SOFT)
    near_one = crew.add(1)
    # The container is connected to this daemon by then: one that starts while no daemon serves ends.
    near_one.sliced.line("group")
    crew.hands.append(far_hand(fresh, base))
    crew.hands[1].sliced.line("group")
    # A timeslice that could not be set at once is set at a later call, and channel enable divides meanwhile.
    eventually(lambda: divided_by(fresh) == "time_slices", "time slices divide at first")
    fresh.crash()
    eventually(lambda: divided_by(fresh) == "gates", "the group cannot be reached")
    assert fresh.status()["engine"]["time_slices_left"] == 1
    crew.begin()
    crew.await_shares(0.25, 0.75)
    crew.hands[1].sliced.line("slice=")
    eventually(lambda: divided_by(fresh) == "time_slices", "its call brought the descriptor")
    crew.await_shares(0.25, 0.75)
    assert fresh.status()["engine"]["time_slices_left"] == 0
