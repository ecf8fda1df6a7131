# SPDX-License-Identifier: Apache-2.0
"""The scheduling policies of kmod/core, a row of traits for each. docs/scheduling.md describes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """What a policy is."""

    name: str
    by_number: bool = False
    """Each container counts once, whatever its weight."""
    keeps_idle: bool = False
    """The time of a container without work stays its own."""
    keeps_free: bool = False
    """The time of places that no container has is nobody's."""
    undivided: bool = False
    """The driver's own scheduling."""


POLICIES = (
    Policy("fair share", by_number=True, keeps_idle=True, keeps_free=True),
    Policy("preemptive", by_number=True),
    Policy("weight preemptive", keeps_idle=True),
    Policy("fixed percentage", keeps_idle=True, keeps_free=True),
    Policy("soft"),
    Policy("native", undivided=True),
)
"""By their numbers. A test compares them with the core's."""


def policy(number: int | None) -> Policy | None:
    """Return the policy with a number; None where there is none."""
    return POLICIES[number] if number is not None and 0 <= number < len(POLICIES) else None


def policy_name(number: int | None) -> str:
    """Return the name of a policy; "unknown" where there is none with this number."""
    found = policy(number)
    return found.name if found else "unknown"
