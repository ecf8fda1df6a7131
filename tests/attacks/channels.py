# SPDX-License-Identifier: Apache-2.0
"""Channels whose notifiers end the driver, or have it write into others' memory."""

from __future__ import annotations

from tests.attacks.attack import assert_held, attack, await_nothing, rest
from tests.attacks.build import FREED, client
from tests.attacks.harness import Harness

ROUNDS = 300
GOOD = 6

# On a card with a GSP, NVIDIA's drivers 515 to 570 read from address 0 when a channel's error notifier is not
# what it should be: kernel_channel.c, kchannelConstruct_IMPL. The kernel ends the caller there, and the locks
# that all calls take are never given back. Not with limit=True: where nothing is enforced that driver is gone
# after the first one.


@attack(limit=False)
def notifiers_of_another_kind(harness: Harness) -> None:
    """No channel is made with a notifier that is none, nor an encrypted one, and those with good ones are."""
    tenant = harness.tenant()
    running = tenant.start(client("notifiers"), "--dev", harness.dev)
    told = rest(running)
    assert told["made"] == 0 < told["bad"], told
    assert told["good"] == GOOD, told
    running.kill()
    running.finish()
    await_nothing(harness, tenant)


@attack(limit=False)
def notifiers_that_are_freed_meanwhile(harness: Harness) -> None:
    """A notifier that is freed while a channel is made with it goes before or after that, not in between."""
    tenant = harness.tenant()
    running = tenant.start(client("notifiers"), "--dev", harness.dev, "race", ROUNDS)
    assert rest(running)["rounds"] == ROUNDS
    running.kill()
    running.finish()
    await_nothing(harness, tenant)
    assert_held(harness, tenant)


# All of NVIDIA's drivers keep a pointer to a channel's notifier without a reference, and write there when the
# channel's token is asked for (kernel_channel.c, kchannelUpdateNotifierMem_IMPL): into what another container
# has allocated meanwhile.


@attack(limit=False)
def notifiers_that_are_freed_before_their_channel(harness: Harness) -> None:
    """A notifier stays as long as its channel, so nothing is written into a neighbour's memory."""
    program = client("freed_notifier", FREED)
    neighbour = harness.tenant().start(program, "--dev", harness.dev, "neighbour")
    neighbour.line("ready")
    writer = harness.tenant().start(program, "--dev", harness.dev, "writer")
    assert rest(writer, "made")["channels"] > 0
    writer.go_on()
    freed = rest(writer, "freed")["notifiers"]
    neighbour.go_on()
    assert rest(neighbour, "pinned")["pages"] > 0
    writer.go_on()
    assert rest(writer)["told"] > 0
    neighbour.go_on()
    assert (freed, rest(neighbour)["written"]) == (0, 0)
