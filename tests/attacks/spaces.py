# SPDX-License-Identifier: Apache-2.0
"""VA spaces, and what is made for them or in them."""

from __future__ import annotations

from tests.attacks.attack import assert_held, attack, await_nothing, rest
from tests.attacks.build import client
from tests.attacks.harness import Harness

ROUNDS, GROUPS = 3, 3


@attack(limit=False)
def groups_by_a_foreign_space(harness: Harness) -> None:
    """Groups whose space another device's group named first end with their own device, and stay charged.

    Whoever guesses where a space is from the first call that names it drops them with that other device.
    """
    tenant = harness.tenant()
    running = tenant.start(client("spaces"), "--dev", harness.dev, "cross", ROUNDS, GROUPS)
    made = rest(running, "made")["groups"]
    before = harness.seen(tenant).charged
    running.go_on()
    assert rest(running)["alive"] == made > 0
    assert harness.seen(tenant).charged == before > 0
    running.kill()
    running.finish()
    await_nothing(harness, tenant)
    assert_held(harness, tenant)
