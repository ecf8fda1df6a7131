# SPDX-License-Identifier: Apache-2.0
"""One attack, and the check that most of them end with: the slice to the byte."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.attacks.build import PROBE, client
from tests.attacks.harness import DAEMON, LIMIT, MODULE, Harness, Running, Seen, Tenant, Word
from tests.integration.probe import NO_MEMORY, Printed, steps
from tests.vm.harness.store import ROOT

FILL = ("fill=64M:2m", "fill=1M:64k", "fill=64K:64k")
NOTHING = Seen(0, 0)
NUMBER = re.compile(r"(\w+)=(0x[0-9a-f]+|\d+)")


@dataclass(frozen=True)
class Attack:
    """One attack.

    limit: it asks for more than the slice, so it must get that where nothing is enforced.
    engines: under which it can be tried at all.
    maps: UVM has to do more for it than the stub in the fake driver of tests/vm does.
    native: it runs programs of this machine, or enters the kernel as only x86's programs can.
    """

    run: Callable[[Harness], None]
    limit: bool
    engines: tuple[str, ...]
    maps: bool
    native: bool

    @property
    def name(self) -> str:
        return self.run.__name__


def attack(
    *, limit: bool, engines: tuple[str, ...] = (DAEMON, MODULE), maps: bool = False, native: bool = False
) -> Callable[[Callable[[Harness], None]], Attack]:
    return lambda run: Attack(run, limit, engines, maps, native)


def numbers(line: str) -> dict[str, int]:
    return {name: int(value, 0) for name, value in NUMBER.findall(line)}


def probe(harness: Harness, *words: Word) -> tuple[Word, ...]:
    return (PROBE, "--dev", harness.dev, *words)


def had(printed: Printed) -> int:
    return sum(one.number("bytes") for one in steps(printed) if one.name == "fill")


def filled(printed: Printed) -> int:
    """Return how much the fills of a program got; the last one must have met the ordinary refusal."""
    fills = [one for one in steps(printed) if one.name == "fill"]
    assert len(fills) == len(FILL), printed.text
    assert fills[-1].number("status") == NO_MEMORY, printed.text
    return had(printed)


def expect(harness: Harness, tenant: Tenant, charged: int, card: int | None = None) -> None:
    """Fail unless that much is charged; the card must have given the same, or `card`."""
    found = harness.seen(tenant)
    assert found == Seen(charged, charged if card is None else card), found


def await_nothing(harness: Harness, tenant: Tenant) -> None:
    def is_nothing() -> bool:
        seen = harness.seen(tenant)
        return seen.charged == 0 and seen.card <= harness.pooled

    harness.until(is_nothing, "all is given back")


def assert_held(
    harness: Harness, tenant: Tenant, *before: Word, program: tuple[Word, ...] = (), beside: Seen = NOTHING
) -> Printed:
    """Fail unless a program gets the slice to the byte, by the engine and by the card, and gives it back.

    `before` stands in front of the program; `program` is run in the place of the probe, with its words.
    beside: another slice's memory of the card meanwhile.
    """
    own = program or probe(harness)
    running = tenant.start(*before, *own, *FILL, "count", "hold")
    running.line("hold")
    expect(harness, tenant, LIMIT, LIMIT + beside.card)
    printed = running.finish()
    assert filled(printed) == LIMIT, printed.text
    rest_of_card = Seen(0, beside.card)
    harness.until(lambda: harness.seen(tenant) == rest_of_card, "all is given back")
    return printed


def rest(running: Running, word: str = "resting") -> dict[str, int]:
    """Wait until a program rests; return the numbers it rests with."""
    return numbers(running.line(word))


def verdicts_of(file: str, table: str) -> Counter[str]:
    """Return how many rows a table in a file of kmod/abi has of each verdict."""
    rows = json.loads((ROOT / "kmod" / "abi" / f"{file}.json").read_text())[table]
    return Counter(row["verdict"] for row in rows.values())


def verdicts_hold(harness: Harness, kind: str, *, unknown: int, by_driver: int | None = None) -> None:
    """Fail if a class or control that is refused or unknown reaches the driver, or one that passes does not.

    kind: classes or controls: a table of kmod/abi, and what the program tries. unknown: how many at least are
    in no table. by_driver: how many at most the driver itself refuses; numbers of families that the table
    refuses then count beside those that it names.
    """
    verdicts = verdicts_of(kind, kind)
    tenant = harness.tenant()
    running = tenant.start(client("unjudged"), "--dev", harness.dev, kind)
    found = rest(running, "tried")
    assert found["reached"] == 0, found
    if by_driver is None:
        assert (found["refused"], found["passed"]) == (verdicts["refuse"], verdicts["pass"]), found
    else:
        assert found["refused"] >= verdicts["refuse"], found
        assert found["passed"] >= verdicts["pass"] - by_driver, found
    assert found["unknown"] >= unknown, found
    running.go_on()
    running.finish()
    await_nothing(harness, tenant)
