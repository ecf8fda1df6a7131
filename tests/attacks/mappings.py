# SPDX-License-Identifier: Apache-2.0
"""Memory that is mapped: by UVM, and by the driver into processes."""

from __future__ import annotations

import errno
import time

from tests.attacks.attack import FILL, assert_held, attack, await_nothing, expect, had, probe, rest
from tests.attacks.build import FREED, client, uvm_client, uvm_probe
from tests.attacks.containers import NOBODY
from tests.attacks.harness import DAEMON, LIMIT, MIB, MODULE, Harness, Running, Tenant, Word

MAPPED = 900 * MIB
PATIENCE = "hold=1000"
ATTEMPTS = {DAEMON: 300, MODULE: 50}
TRIES = 10  # of ATTEMPTS each
PIECE = 2 * MIB
HOLE = 64 * MIB
SPARSE = "range=512G"
PARKED_MS = 1000  # less than a wait for one task
REFUSED = 0x80000000 + errno.EINVAL


# Memory that UVM keeps for a mapping after all handles of it were freed.
#
# Unified memory is what limits do not see: tools count its system part alone, forbid it, or count calls.
# Memory that stays after its owner: https://github.com/grgalex/nvshare/issues/23.


@attack(limit=True)
def managed_mapping(harness: Harness) -> None:
    """Managed memory is charged while it is mapped, though its client is freed and all files are closed."""
    tenant = harness.tenant()
    mapping = tenant.start(client("keep_mapping"), "--dev", harness.dev, MAPPED)
    mapping.line("mapped")
    # No process has touched the mapping, so the card has given nothing yet.
    expect(harness, tenant, MAPPED, card=0)
    printed = tenant.run(*probe(harness, *FILL))
    assert had(printed) == LIMIT - MAPPED, printed.text
    mapping.go_on()
    assert rest(mapping, "unmapped")["status"] == 0
    assert_held(harness, tenant)
    mapping.finish()


@attack(limit=False, engines=(DAEMON,))
def managed_mapping_of_another_user(harness: Harness) -> None:
    """A process that is not root's has its managed memory charged as any; its files in /proc are not root's.

    The module asks no files.
    """
    tenant = harness.tenant()
    mapping = tenant.start(*NOBODY, client("keep_mapping"), "--dev", harness.dev, MAPPED)
    mapping.line("mapped")
    expect(harness, tenant, MAPPED, card=0)
    mapping.go_on()
    assert rest(mapping, "unmapped")["status"] == 0
    mapping.finish()
    await_nothing(harness, tenant)


def left_by_its_owner(harness: Harness, how: str) -> None:
    """Map managed memory by a process, or a thread, that leaves the address space to others."""
    tenant = harness.tenant()
    mapping = tenant.start(client("other_owner"), "--dev", harness.dev, how, MAPPED)
    mapping.line("mapped")
    # Longer than a look at ended processes takes, and a mapping that is on its way.
    time.sleep(2.5)
    printed = tenant.run(*probe(harness, *FILL))
    assert had(printed) == LIMIT - MAPPED, printed.text
    expect(harness, tenant, MAPPED, card=0)
    mapping.kill()
    await_nothing(harness, tenant)


@attack(limit=True)
def managed_mapping_of_a_process_that_has_ended(harness: Harness) -> None:
    """A process maps in memory that it shares with another one (clone() with CLONE_VM), and ends."""
    left_by_its_owner(harness, "sharing")


@attack(limit=True)
def managed_mapping_of_another_program(harness: Harness) -> None:
    """A process maps in memory that it shares with another one, and executes a program."""
    left_by_its_owner(harness, "exec")


@attack(limit=True)
def managed_mapping_without_a_first_thread(harness: Harness) -> None:
    """A process goes on when its first thread has ended."""
    left_by_its_owner(harness, "leader")


def uvm(harness: Harness, *words: Word) -> tuple[Word, ...]:
    return (uvm_probe(), "--dev", harness.dev, "uvm", *words)


def taken(size: int) -> tuple[str, ...]:
    return (f"alloc={size // MIB}M", f"range={size // MIB}M", "map", "rm-free")


@attack(limit=True, maps=True)
def external_mapping(harness: Harness) -> None:
    """Memory that UVM maps stays charged when its handle is freed, until it is unmapped."""
    tenant = harness.tenant()
    mapping = tenant.start(*uvm(harness, *taken(MAPPED), "used", PATIENCE))
    mapping.line("bytes=")
    expect(harness, tenant, MAPPED)
    printed = tenant.run(*probe(harness, *FILL))
    assert had(printed) == LIMIT - MAPPED, printed.text
    mapping.kill()
    await_nothing(harness, tenant)


@attack(limit=True, engines=(DAEMON,))
def external_mappings_of_one_handle(harness: Harness) -> None:
    """Memory is mapped and its handle freed again and again: each mapping counts, until its range goes."""
    tenant = harness.tenant()
    piece = 300 * MIB
    again = ("expect=0x51", f"alloc={piece // MIB}M", "uvm-free", *taken(piece))
    mapping = tenant.start(*uvm(harness, *taken(piece) * 3, *again, "used", PATIENCE))
    mapping.line("bytes=")
    expect(harness, tenant, 3 * piece)
    mapping.kill()
    await_nothing(harness, tenant)


# Addresses that are mapped without memory, as for sparse arrays.
#
# UVM takes 256 bytes of page tables of the card for each 2 MiB of them: 1 GiB for 8 TiB.


@attack(limit=True, maps=True)
def sparse_mapping(harness: Harness) -> None:
    """Addresses without memory are not mapped: the card has no page tables for them."""
    tenant = harness.tenant()
    before = harness.refused()
    mapping = tenant.start(*uvm(harness, SPARSE, f"expect={REFUSED:#x}", "sparse", PATIENCE))
    status = rest(mapping, "sparse")["status"]
    card = harness.seen(tenant).card
    mapping.kill()
    await_nothing(harness, tenant)
    assert (status, card, harness.refused() - before) == (REFUSED, 0, 1)


@attack(limit=False, maps=True)
def address_exchanged_under_a_mapping(harness: Harness) -> None:
    """Arguments of a mapping are exchanged while it is judged.

    The module judges what the driver gets. With cgpud the mapping goes on in the container and can come to
    lie where it was not seen; memory gained so is charged to no container, and only the card's figure shows
    it. An emulator seldom lets the other thread run in the short time between, nor does a machine that has
    more to do: there it is tried again.
    """
    for _ in range(1 if harness.engine == MODULE or harness.emulated else TRIES):
        tenant = harness.tenant()
        racing = tenant.start(
            uvm_client("race_mapping"), "--dev", harness.dev, ATTEMPTS[harness.engine], PIECE
        )
        told = rest(racing, "raced")
        found = harness.seen(tenant)
        racing.finish()
        await_nothing(harness, tenant)
        assert found.charged == told["charged"], found
        assert (found.card - found.charged) % PIECE == 0, found
        assert found.card == found.charged or harness.engine != MODULE, found
        if found.card > found.charged:
            return
    assert harness.engine == MODULE or harness.emulated, "nothing was gained: has it become impossible?"


# Managed memory with a hole, and memory in the hole.
#
# A tool that gives back by the addresses that UVM frees gives back for anything that lies there: with ranges
# that cost nothing, made and freed in the hole again and again, all of a mapping's charge is gone, and the
# mapping is still there.


def has_the_rest(harness: Harness, tenant: Tenant, charged: int) -> bool:
    """Say whether just the rest of a slice can be had; fail when it is more."""
    printed = tenant.run(*probe(harness, *FILL))
    assert had(printed) <= LIMIT - charged, printed.text
    return had(printed) == LIMIT - charged


def fill(harness: Harness, tenant: Tenant, how: str, charged: int) -> Running:
    """Have a program do so, and wait until that much is charged."""
    running = tenant.start(uvm_client("fill_hole"), "--dev", harness.dev, how, MAPPED, HOLE)
    assert rest(running, "filled")["status"] == 0
    # cgpud looks at the mappings when room is short, and some time after they are made.
    harness.until(lambda: has_the_rest(harness, tenant, charged), f"{charged} bytes are charged, and no more")
    expect(harness, tenant, charged, card=0)
    return running


@attack(limit=True, maps=True)
def ranges_in_a_hole_of_managed_memory(harness: Harness) -> None:
    """Ranges of another kind come and go in a hole: the mapping around it stays charged."""
    tenant = harness.tenant()
    running = fill(harness, tenant, "external", MAPPED - HOLE)
    running.kill()
    await_nothing(harness, tenant)


@attack(limit=True, maps=True)
def managed_memory_in_a_hole_of_managed_memory(harness: Harness) -> None:
    """Another mapping lies in the hole, and the part behind it goes: that part does not stay charged."""
    tenant = harness.tenant()
    running = fill(harness, tenant, "managed", MAPPED // 2 + HOLE)
    running.kill()
    await_nothing(harness, tenant)


def assert_shown_to_nobody(harness: Harness, kind: str, keeper: Running) -> None:
    """Fail if files that memory was mapped by, which is freed, show what a neighbour has there."""
    neighbour = harness.tenant().start(client("kept_mapping", FREED), "--dev", harness.dev, "neighbour", kind)
    neighbour.line("ready")
    made = rest(keeper, "freed")
    assert made["made"] == made.get("freed", made["made"]) > 0, made
    neighbour.go_on()
    assert rest(neighbour, "has")["made"] > 0
    keeper.go_on()
    shown = rest(keeper)["saw"]
    neighbour.go_on()
    assert (shown, rest(neighbour)["written"]) == (0, 0)


def assert_not_shown(harness: Harness, kind: str, when: str) -> None:
    program = client("kept_mapping", FREED)
    keeper = harness.tenant().start(program, "--dev", harness.dev, "keeper", kind, when)
    assert_shown_to_nobody(harness, kind, keeper)


# NVIDIA's drivers note in an open file what mmap(2) of it maps, and neither take that back nor unmap the
# window of the card when the memory is freed (nv-usermap.c, os-usermap.c). The next container's memory in the
# same place could be read and overwritten.


@attack(limit=False, engines=(MODULE,), maps=True)
def card_memory_that_stays_mapped(harness: Harness) -> None:
    """Memory of the card that is freed while it is mapped shows nothing of the next owner's."""
    assert_not_shown(harness, "card", "early")


@attack(limit=False, engines=(MODULE,), maps=True)
def card_memory_that_is_mapped_after_its_end(harness: Harness) -> None:
    """A file that was readied for memory of the card is not mapped once that is freed."""
    assert_not_shown(harness, "card", "late")


@attack(limit=False, engines=(MODULE,), maps=True)
def host_memory_that_is_mapped_after_its_end(harness: Harness) -> None:
    """A file that was readied for memory of the host is not mapped once that is freed."""
    assert_not_shown(harness, "host", "late")


def moved(harness: Harness, how: str) -> Running:
    return harness.tenant().start(client("moved_mapping", FREED), "--dev", harness.dev, how)


# The driver finds a mapping by its address, which a program may set to any
# (NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO).


@attack(limit=False, engines=(MODULE,), maps=True)
def mappings_that_exchange_their_addresses(harness: Harness) -> None:
    """Of two mappings at one address, the one whose memory is freed shows nothing of the next owner's."""
    assert_shown_to_nobody(harness, "card", moved(harness, "exchanged"))


@attack(limit=False, engines=(MODULE,), maps=True)
def mapping_that_ends_for_another(harness: Harness) -> None:
    """Nor does one that the driver takes back in the place of another, which fails."""
    assert_shown_to_nobody(harness, "card", moved(harness, "failed"))


@attack(limit=False, engines=(MODULE,), maps=True)
def memory_that_is_freed_while_it_is_mapped(harness: Harness) -> None:
    """Nor does memory that is freed before the call that maps it has readied the file."""
    assert_shown_to_nobody(harness, "card", moved(harness, "raced"))


@attack(limit=False, engines=(MODULE,), maps=True)
def tasks_that_stay_in_mmap(harness: Harness) -> None:
    """A free does not wait, with the driver's locks, for a task that something else keeps in mmap(2)."""
    freed = rest(moved(harness, "parked"))
    assert freed["made"] == freed["freed"] > 0, freed
    assert freed["ms"] < PARKED_MS
