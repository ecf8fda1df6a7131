# SPDX-License-Identifier: Apache-2.0
"""Cases of the conformance suite, and attacks, that cannot pass on NVIDIA's driver with a card in software.

They are carried out all the same, and have to fail: one that passes has to be taken out of here. Those that
need a second card are left out by what their steps name (tests/conformance/select.py).
"""

from __future__ import annotations

from dataclasses import dataclass

EVERY = "*"


@dataclass(frozen=True)
class Reason:
    """Why a case cannot pass. engine: of one, or of every. run: whether it can be tried without harm."""

    text: str
    cases: tuple[str, ...]
    engine: str = EVERY
    run: bool = True


REASONS = (
    Reason(
        "the driver keeps a part of the card for itself, so nobody can fill all of it; that all comes back "
        "is in test_daemon.py",
        ("comes-back-exit-dirty", "comes-back-hold"),
    ),
    Reason(
        "before Linux 6.9 nobody can be given a descriptor of such a thread: cgpud refuses its calls (EPERM)",
        ("own-descriptors", "managed_mapping_without_a_first_thread"),
        engine="cgpud",
    ),
    Reason("where pages are counted, no context is estimated", ("contexts",), engine="cgpu_km"),
    Reason("8 GiB of the host's memory, and the machine has two", ("host-memory",), run=False),
)


def _of(engine: str, case: str) -> list[Reason]:
    return [one for one in REASONS if case in one.cases and one.engine in (EVERY, engine)]


def reason(engine: str, case: str) -> str | None:
    """Return why a case cannot pass, None where it has to."""
    return next((one.text for one in _of(engine, case)), None)


def runs(engine: str, case: str) -> bool:
    return all(one.run for one in _of(engine, case))
