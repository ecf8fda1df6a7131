# SPDX-License-Identifier: Apache-2.0
"""Channels that end the driver."""

from __future__ import annotations

from tests.attacks.attack import assert_held, attack, await_nothing, rest
from tests.attacks.build import client
from tests.attacks.harness import Harness

ROUNDS = 300
GOOD = 4

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
