# SPDX-License-Identifier: Apache-2.0
"""Descriptors of the driver that are handed from one container to another."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.daemon.harness import MIB, Daemon, Sliced, built, long_id
from tests.integration.commands import eventually

CARD = 15109 * MIB
HELD = 6000
PAGE = 65536
REFUSED = 0x1B  # NV_ERR_INSUFFICIENT_PERMISSIONS


def end(daemon: Daemon, *all_sliced: Sliced) -> None:
    for sliced in all_sliced:
        sliced.finish("\n")
    names = {sliced.id[:12] for sliced in all_sliced}
    eventually(lambda: not names & set(daemon.instances()), "a container was not reclaimed")


def give_and_take(daemon: Daemon, base: Path) -> tuple[Sliced, Sliced, str]:
    """Let one container hold memory and hand its descriptor to another; return what that one printed."""
    passing = built("passing")
    way = str(base / "s")
    giver = daemon.slice(1, f"gpu=0:{6043 * MIB}", "give", way, str(HELD), program=passing, until="ready")
    taker = daemon.slice(2, f"gpu=0:{2014 * MIB}", "take", way, program=passing)
    return giver, taker, taker.line("taken")


def test_client_has_one_owner(daemon: Daemon, base: Path) -> None:
    """A container that was handed the descriptor of another can use nothing of its client, only its own."""
    giver, taker, line = give_and_take(daemon, base)
    refused = " ".join(f"{what}={REFUSED:#x}" for what in ("device", "alloc", "dup", "own_dup", "free"))
    assert line == f"taken {refused} mine=0\n"
    assert daemon.used(giver) == HELD * MIB
    assert daemon.used(taker) == PAGE
    end(daemon, giver, taker)


def test_memory_that_outlives_its_container(daemon: Daemon, base: Path) -> None:
    """Memory that a handed descriptor keeps is promised to no container until the last holder ends."""
    giver, taker, _ = give_and_take(daemon, base)
    end(daemon, giver)
    # By then the tree has the card's own figure, too.
    eventually(lambda: "were removed" in daemon.log(), "nothing was logged")
    assert int(daemon.read("0/memtotal")) - int(daemon.read("0/memfree")) == HELD * MIB + PAGE
    left = CARD - (HELD + 2014) * MIB
    with pytest.raises(OSError, match="memory") as refusal:
        daemon.write("inst_ctl", f"create id={long_id(3)} pid={taker.process.pid} gpu=0:{left + 1}")
    assert refusal.value.errno == errno.ENOMEM
    end(daemon, taker)
    # At once: the engine asks the driver before it refuses.
    whole = daemon.slice(3, f"gpu=0:{CARD}", "info")
    end(daemon, whole)
    assert whole.process.returncode == 0
    eventually(lambda: "for removed containers any more" in daemon.log(), "nothing was logged")


def test_orphans_survive_a_restart(daemon: Daemon, base: Path) -> None:
    """A new engine knows what removed containers left behind."""
    giver, taker, _ = give_and_take(daemon, base)
    end(daemon, giver)
    daemon.crash()
    assert daemon.instances() == [taker.id[:12]]
    with pytest.raises(OSError, match="memory"):
        daemon.write("inst_ctl", f"create id={long_id(3)} pid={taker.process.pid} gpu=0:{CARD - 7000 * MIB}")
    end(daemon, taker)


def test_stale_record_locks_nobody_out(daemon: Daemon) -> None:
    """A client that was closed unseen, and made again in another container, belongs to that one."""
    handle, passing = "0xc1d77777", built("passing")
    squatter = daemon.slice(1, f"gpu=0:{MIB}", "squat", handle, program=passing)
    assert squatter.line("squat") == "squat 0\n"
    chooser = daemon.slice(2, f"gpu=0:{MIB}", "choose", handle, program=passing)
    assert chooser.line("choose") == "choose 0\n"
    # Now it is taken, in the driver.
    third = daemon.slice(3, f"gpu=0:{MIB}", "choose", handle, program=passing)
    assert third.line("choose") != "choose 0\n"
    end(daemon, squatter, chooser, third)
