# SPDX-License-Identifier: Apache-2.0
"""Memory that UVM keeps for a mapping after all handles of it were freed.

Unified memory is what limits do not see: tools count its system part alone, forbid it, or count calls.
Memory that stays after its owner: https://github.com/grgalex/nvshare/issues/23.
"""

from __future__ import annotations

import time

from tests.attacks.arena import DAEMON, LIMIT, MIB, MODULE, Arena, Word
from tests.attacks.attack import FILL, assert_held, attack, await_nothing, expect, probe, rest
from tests.attacks.build import client, uvm_client
from tests.attacks.later_session import NOBODY
from tests.integration.probe import steps

MAPPED = 900 * MIB
PATIENCE = "hold=100"
ATTEMPTS = {DAEMON: 300, MODULE: 50}
PIECE = 2 * MIB


@attack(limit=True)
def managed_mapping(arena: Arena) -> None:
    """Managed memory is charged while it is mapped, though its client is freed and all files are closed."""
    tenant = arena.tenant()
    mapping = tenant.start(client("keep_mapping"), "--dev", arena.dev, MAPPED)
    mapping.line("mapped")
    # Nobody has touched it, so that the card has given nothing yet.
    expect(arena, tenant, MAPPED, card=0)
    printed = tenant.run(*probe(arena, *FILL))
    had = sum(one.number("bytes") for one in steps(printed) if one.name == "fill")
    assert had == LIMIT - MAPPED, printed.text
    mapping.go_on()
    assert rest(mapping, "unmapped")["status"] == 0
    assert_held(arena, tenant)
    mapping.finish()


@attack(limit=False, engines=(DAEMON,))
def managed_mapping_of_another_user(arena: Arena) -> None:
    """A process that is not root's has its managed memory charged as any; its files in /proc are not root's.

    The module asks no files.
    """
    tenant = arena.tenant()
    mapping = tenant.start(*NOBODY, client("keep_mapping"), "--dev", arena.dev, MAPPED)
    mapping.line("mapped")
    expect(arena, tenant, MAPPED, card=0)
    mapping.go_on()
    assert rest(mapping, "unmapped")["status"] == 0
    mapping.finish()
    await_nothing(arena, tenant)


def left_by_its_owner(arena: Arena, how: str) -> None:
    """Map managed memory by a process, or a thread, that leaves the address space to others."""
    tenant = arena.tenant()
    mapping = tenant.start(client("other_owner"), "--dev", arena.dev, how, MAPPED)
    mapping.line("mapped")
    # Longer than a look at ended processes takes, and a mapping that is on its way.
    time.sleep(2.5)
    printed = tenant.run(*probe(arena, *FILL))
    had = sum(one.number("bytes") for one in steps(printed) if one.name == "fill")
    assert had == LIMIT - MAPPED, printed.text
    expect(arena, tenant, MAPPED, card=0)
    mapping.kill()
    await_nothing(arena, tenant)


@attack(limit=True)
def managed_mapping_of_a_process_that_has_ended(arena: Arena) -> None:
    """A process maps in memory that it shares with another one (clone() with CLONE_VM), and ends."""
    left_by_its_owner(arena, "sharing")


@attack(limit=True)
def managed_mapping_of_another_program(arena: Arena) -> None:
    """A process maps in memory that it shares with another one, and executes a program."""
    left_by_its_owner(arena, "exec")


@attack(limit=True)
def managed_mapping_without_a_first_thread(arena: Arena) -> None:
    """A process goes on when its first thread has ended."""
    left_by_its_owner(arena, "leader")


def uvm(arena: Arena, *words: Word) -> tuple[Word, ...]:
    """Return the command that maps by UVM."""
    return (arena.uvm_probe(), "--dev", arena.dev, "uvm", *words)


def taken(size: int) -> tuple[str, ...]:
    """Return the words that map memory of a size, and free its handle."""
    return (f"alloc={size // MIB}M", f"range={size // MIB}M", "map", "rm-free")


@attack(limit=True)
def external_mapping(arena: Arena) -> None:
    """What is mapped by UVM stays charged when its handle is freed, until it is unmapped."""
    tenant = arena.tenant()
    mapping = tenant.start(*uvm(arena, *taken(MAPPED), "used", PATIENCE))
    mapping.line("bytes=")
    expect(arena, tenant, MAPPED)
    printed = tenant.run(*probe(arena, *FILL))
    had = sum(one.number("bytes") for one in steps(printed) if one.name == "fill")
    assert had == LIMIT - MAPPED, printed.text
    mapping.kill()
    await_nothing(arena, tenant)


@attack(limit=True, engines=(DAEMON,))
def external_mappings_of_one_handle(arena: Arena) -> None:
    """Memory is mapped and its handle freed again and again: each mapping counts, until its range goes."""
    tenant = arena.tenant()
    piece = 300 * MIB
    again = ("expect=0x51", f"alloc={piece // MIB}M", "uvm-free", *taken(piece))
    mapping = tenant.start(*uvm(arena, *taken(piece) * 3, *again, "used", PATIENCE))
    mapping.line("bytes=")
    expect(arena, tenant, 3 * piece)
    mapping.kill()
    await_nothing(arena, tenant)


@attack(limit=False)
def address_exchanged_under_a_mapping(arena: Arena) -> None:
    """Arguments of a mapping are exchanged while it is judged.

    The module judges what the driver gets. With cgpud the mapping goes on in the container and can come to
    lie where it was not seen; what is gained so is charged to nobody, and all there is to see is that the
    card has given more.
    """
    tenant = arena.tenant()
    racing = tenant.start(uvm_client("race_mapping"), "--dev", arena.dev, ATTEMPTS[arena.engine], PIECE)
    told = rest(racing, "raced")
    found = arena.seen(tenant)
    assert found.charged == told["charged"], found
    assert (found.card - found.charged) % PIECE == 0, found
    if arena.engine == MODULE:
        assert found.card == found.charged, found
    else:
        assert found.card > found.charged, found
    racing.finish()
    await_nothing(arena, tenant)
