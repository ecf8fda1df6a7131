# SPDX-License-Identifier: Apache-2.0
"""Open files of the driver that leave the process or the container that opened them."""

from __future__ import annotations

from tests.attacks.attack import FILL, assert_held, attack, await_nothing, expect, had, probe, rest
from tests.attacks.build import client
from tests.attacks.harness import DAEMON, LIMIT, MIB, MODULE, Harness, Running, Seen, Tenant
from tests.integration.probe import NO_MEMORY

PIECE = 8 * MIB
ALL = LIMIT // PIECE * PIECE
HANDED_PIECE = 64 * MIB
MORE = 512 * MIB
OUT = 0x80000000  # cgpu-probe's: errno says it


# The driver's file that outlives the process it was opened by.
#
# The driver frees with the last close; an engine that gives back with the end of the allocating process gives
# away memory that is taken. Others met the opposite, memory that stays after its process:
# https://github.com/NVIDIA/gpu-operator/issues/2880, https://github.com/vllm-project/vllm-omni/issues/2317.


def keep(harness: Harness, tenant: Tenant, how: str) -> Running:
    """Have a slice filled by a process that ends, with a file that stays."""
    running = tenant.start(client("keep_descriptor"), "--dev", harness.dev, how, PIECE)
    told = rest(running, "keeping")
    assert told["bytes"] == ALL, told
    return running


def assert_full(harness: Harness, tenant: Tenant) -> None:
    """Fail unless nothing more can be had than what is left, and all that is kept is charged."""
    expect(harness, tenant, ALL)
    printed = tenant.run(*probe(harness, *FILL))
    assert had(printed) == LIMIT - ALL, printed.text
    expect(harness, tenant, ALL)


@attack(limit=True)
def descriptor_of_a_helper(harness: Harness) -> None:
    """A child in a session of its own has the file: all stays charged until it ends."""
    tenant = harness.tenant()
    helper = keep(harness, tenant, "helper")
    assert_full(harness, tenant)
    helper.finish()
    await_nothing(harness, tenant)


@attack(limit=True)
def descriptor_in_flight(harness: Harness) -> None:
    """The file lies in a socket, and no process has it: all stays charged; its receiver can free by it."""
    tenant = harness.tenant()
    helper = keep(harness, tenant, "parked")
    assert_full(harness, tenant)
    helper.go_on()
    assert rest(helper, "fetched")["status"] == 0
    harness.until(lambda: harness.seen(tenant) == Seen(ALL - PIECE, ALL - PIECE), "one piece is given back")
    helper.finish()
    await_nothing(harness, tenant)


@attack(limit=True)
def descriptor_in_a_cycle(harness: Harness) -> None:
    """The file lies in a socket that lies in itself: when the kernel has found that, nothing is charged."""
    tenant = harness.tenant()
    nobody = keep(harness, tenant, "cycle")
    assert_full(harness, tenant)
    nobody.go_on()
    nobody.finish()
    await_nothing(harness, tenant)


# The driver's open files, handed to a process that is in no slice.
#
# A tool that limits a process by its surroundings (variables, a library, a filter) does not limit a process
# that receives the open files by a socket.


def hand_out(harness: Harness, tenant: Tenant) -> tuple[Running, Running, dict[str, int]]:
    """Have a slice send its files to a process outside of all; return both, and the memory that it took."""
    program, place = client("hand_out"), f"{harness.scratch}/handed"
    giver = tenant.start(program, "--dev", harness.dev, "give", place)
    giver.line("giving")
    taker = harness.outside(program, "--dev", harness.dev, "take", place, HANDED_PIECE, MORE)
    return giver, taker, rest(taker, "took")


@attack(limit=True, engines=(MODULE,))
def files_handed_to_a_process_outside(harness: Harness) -> None:
    """A process outside can do nothing with them; the container that opened them has its slice as before."""
    tenant = harness.tenant()
    giver, taker, took = hand_out(harness, tenant)
    assert (took["bytes"], took["mapped"]) == (0, 0), took
    assert took["status"] & OUT, took
    expect(harness, tenant, 0)
    giver.finish()
    # The files are still open there, while the processes that opened them are gone.
    taker.go_on()
    assert rest(taker, "again")["status"] & OUT
    assert_held(harness, tenant)
    taker.finish()
    await_nothing(harness, tenant)


@attack(limit=False, engines=(DAEMON,))
def files_handed_to_a_process_that_nobody_sees(harness: Harness) -> None:
    """With cgpud a process outside takes any memory: only the card's figure shows it."""
    tenant = harness.tenant()
    giver, taker, took = hand_out(harness, tenant)
    assert took["bytes"] > LIMIT, took
    assert took["status"] != NO_MEMORY, took
    expect(harness, tenant, 0, card=took["bytes"])
    # Memory that is charged to no container is drift, and the log has the process.
    harness.until(lambda: harness.drift() == took["bytes"], "it is drift")
    harness.until(lambda: "opened in another container: they count as drift" in harness.log(), "it is said")
    giver.finish()
    taker.finish()
    await_nothing(harness, tenant)
