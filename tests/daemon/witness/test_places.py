# SPDX-License-Identifier: Apache-2.0
"""Places of the driver that the witness watches, from the kernel's symbols and the driver's code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cgpu.kmod.daemon.witness import places
from cgpu.kmod.daemon.witness.places import NoWitnessError, Symbols, find_places, find_returns, read_symbols

BEGIN = 0xFFFFFFFFC0001000
NUMA = BEGIN + 0x800
TABLE = f"""\
ffffffff81000000 T __x86_return_thunk
ffffffffc0000000 t pmaAllocatePages	[another]
{BEGIN:x} t pmaAllocatePages	[nvidia]
{NUMA:x} t pmaNumaAllocate	[nvidia]
ffffffffc0002000 t pmaFreePages	[nvidia]
ffffffffc0002100 t nvGpuOpsPmaAllocPages	[nvidia]
ffffffffc0002180 t nvGpuOpsPmaPinPages	[nvidia]
"""
RETURN = "31c0 c3"  # xor eax, eax; ret
PADDING = "0f1f4000"  # a no-operation, behind the last jump
SYMBOLS = read_symbols(TABLE.splitlines())


def code_reader(code: str) -> Callable[[int, int], bytes]:
    def read(address: int, size: int) -> bytes:
        assert address == BEGIN
        return bytes.fromhex(code).ljust(size, b"\x90")

    return read


def jump(target: int, at: int) -> str:
    return "e9" + ((target - at - 5) % (1 << 32)).to_bytes(4, "little").hex()


def test_places() -> None:
    """Symbols of the driver alone count, and a function ends where the next one begins."""
    found = find_places(SYMBOLS, code_reader(RETURN))
    words = found.order().replace("0xffffffffc000", "").split()
    assert words == ["attach", "1000", "2000", "2100", "2180", "1002"]


@pytest.mark.parametrize(
    ("code", "returns"),
    [
        (RETURN + PADDING, [2]),
        ("f3c3", [0]),  # repz ret
        ("7401 c3 c3", [2, 3]),
        ("48b8c3c3c3c3c3c3c3c3 c3", [10]),  # bytes of a number that look like returns
        (jump(0xFFFFFFFF81000000, BEGIN), [0]),  # to the kernel's thunk
        (RETURN + jump(NUMA, BEGIN + 3), [2]),  # pages of the host's node: on no x86
        ("3effe0 c3", [3]),  # a jump by a table stays inside
    ],
)
def test_returns(code: str, returns: list[int]) -> None:
    """Each form of return that compilers make is found, and nothing else."""
    assert find_returns(bytes.fromhex(code), BEGIN, SYMBOLS) == tuple(BEGIN + at for at in returns)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (RETURN + jump(BEGIN + 0x5000, BEGIN + 3), "pmaAllocatePages is left by a jump at 0x3"),
        (RETURN + "06", "the code of pmaAllocatePages is not understood at 0x3"),
        ("c3 c3 c3", "pmaAllocatePages has 3 returns, expected 1 to 2"),
        ("90", "pmaAllocatePages has 0 returns, expected 1 to 2"),
    ],
)
def test_code_that_is_not_watched(code: str, reason: str) -> None:
    """Where a call could end unseen there is no witness, and the reason is told."""
    with pytest.raises(NoWitnessError, match=reason):
        find_places(SYMBOLS, code_reader(code))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (TABLE.replace("pmaFreePages", "_nv012345rm"), "the driver hides pmaFreePages"),
        (TABLE.replace(f"{BEGIN:x}", "0" * 16), "kernel.kptr_restrict is 2"),
        ("", "the driver hides pmaAllocatePages"),
    ],
)
def test_hidden_symbols(table: str, reason: str) -> None:
    """The proprietary flavour, and a kernel that hides addresses, are named."""
    with pytest.raises(NoWitnessError, match=reason):
        find_places(read_symbols(table.splitlines()), code_reader(RETURN))


def test_without_a_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without capstone has no witness, and says so."""
    monkeypatch.setattr(places, "capstone", None)
    with pytest.raises(NoWitnessError, match="capstone is not there"):
        find_places(SYMBOLS, code_reader(RETURN))


def test_a_long_function() -> None:
    """A function that is longer than what can be read is refused, not cut."""
    long = Symbols({"pmaAllocatePages": (BEGIN, BEGIN + 20000)})
    with pytest.raises(NoWitnessError, match="has 20000 bytes"):
        find_places(long, code_reader(RETURN))
