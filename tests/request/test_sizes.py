# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.tree import Gpu
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request.resolve import memory_mib
from cgpu.request.validate import SourcedValue, expected
from cgpu.sizes import MIB

FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
UNITS = ["", "b", *(f"{unit}{end}" for unit in "kmgt" for end in ("", "b", "i", "ib"))]


LARGEST = 10**16 << 40


def sizes(text: str, card: int = LARGEST) -> tuple[int, ...]:
    """Return the MiB of a value of --mem, on as many cards of so many bytes as it has parts."""
    wanted = expected("mem", text or " ")
    if wanted is not None:
        raise SourcedValue("--mem", text).refuse(wanted)
    gpus = [Gpu(index, f"GPU-{index}", card, 20) for index in range(text.count(",") + 1)]
    return tuple(memory_mib(SourcedValue("--mem", text), gpus, Effective()))


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("40%", (6043,)),
        ("100%", (15109,)),
        ("0.5%", (75,)),
        ("33.333333333%", (5036,)),
        ("50%,1G", (7554, 1024)),
    ],
)
def test_percentages(text: str, mib: tuple[int, ...]) -> None:
    """A percentage is one of the card, in whole MiB."""
    assert sizes(text, 15109 * MIB) == mib


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.001%", "0.001% is less than 1 MiB; ask for more"),
        ("1048575", "less than 1 MiB; a number alone is bytes"),
        ("6G,1", "less than 1 MiB; a number alone is bytes"),
        ("0.0M", "leave it out for no slice"),
        ("6G,0", "leave it out for no slice"),
    ],
)
def test_too_little(text: str, message: str) -> None:
    """Less than 1 MiB is refused, and the line says what a number alone is, or how to have no slice."""
    with pytest.raises(CgpuError, match=f"^--mem=.*{message}"):
        sizes(text, 15109 * MIB)


@pytest.mark.parametrize(
    "text",
    ["", ",", "6G,", "6 G", " 6G", "6G\n", "-6G", "+6G", "6X", "6GG", "6i", "6iB", "6Gib/s", "6Gii",
     "6.G", ".5G", "1e3M", "٦G", "6G;3G", "9" * 16, "0x10M", "6G," * 400, "%", "-1%", "6G%", "6 %", "1e1%"],
)  # fmt: skip
def test_malformed(text: str) -> None:
    """Anything else is refused with what is expected."""
    with pytest.raises(CgpuError, match=r"^--mem=.*: expected a size such as 6G, 512M or 40%"):
        sizes(text)


@given(
    st.integers(0, 10**15 - 1),
    st.none() | st.text("0123456789", min_size=1, max_size=9),
    st.sampled_from([*UNITS, *map(str.upper, UNITS)]),
)
def test_never_more_than_written(whole: int, fraction: str | None, unit: str) -> None:
    """A size is the whole MiB of what is written, exactly, however large, in every spelling of its unit."""
    number = f"{whole}" if fraction is None else f"{whole}.{fraction}"
    mib = int(Fraction(number) * FACTORS[unit.lower().rstrip("ib")] // MIB)
    if mib == 0:
        with pytest.raises(CgpuError):
            sizes(number + unit)
    else:
        assert sizes(number + unit) == (mib,)


@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    """Any text gives sizes of at least 1 MiB, or one line."""
    try:
        found = sizes(text)
    except CgpuError:
        return
    assert len(found) == text.count(",") + 1
    assert min(found) >= 1
