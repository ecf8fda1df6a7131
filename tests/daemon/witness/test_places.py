# SPDX-License-Identifier: Apache-2.0
"""Places of the driver that the witness watches, from the kernel's symbols and the driver's code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.build import compiled
from tests.vm.harness.store import ROOT

BEGIN = 0xFFFFFFFFC0001000
NUMA = BEGIN + 0x800
TABLE = f"""\
ffffffff81000000 T __x86_return_thunk
ffffffffc0000000 t pmaAllocatePages\t[another]
{BEGIN:x} t pmaAllocatePages\t[nvidia]
{NUMA:x} t pmaNumaAllocate\t[nvidia]
ffffffffc0002000 t pmaFreePages\t[nvidia]
ffffffffc0002100 t nvGpuOpsPmaAllocPages\t[nvidia]
ffffffffc0002180 t nvGpuOpsPmaPinPages\t[nvidia]
"""
RETURN = "31c0 c3"  # xor eax, eax; ret
PADDING = "0f1f4000"  # a no-operation, behind the last jump
Find = Callable[..., str]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Return what the witness finds, or why it finds nothing."""
    sources = [Path(__file__).with_name("places.c"), ROOT / "kmod" / "witness" / "places.c"]
    program = compiled(
        "places", sources, "-Wl,--no-as-needed", "-lcapstone", places=(ROOT / "kmod" / "witness",)
    )

    def answer(code: str, table: str = TABLE) -> str:
        (tmp_path / "table").write_text(table)
        command = [str(program), str(tmp_path / "table"), code.replace(" ", "")]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()

    return answer


def jump(target: int, at: int) -> str:
    return "e9" + ((target - at - 5) % (1 << 32)).to_bytes(4, "little").hex()


def test_places(find: Find) -> None:
    """Symbols of the driver alone count, and a function ends where the next one begins."""
    assert find(RETURN).replace("ffffffffc000", "") == "1000 2000 2100 2180 +2"


@pytest.mark.parametrize(
    ("code", "returns"),
    [
        (RETURN + PADDING, "+2"),
        ("f3c3", "+0"),  # repz ret
        ("7401 c3 c3", "+2 +3"),
        ("48b8c3c3c3c3c3c3c3c3 c3", "+10"),  # bytes of a number that look like returns
        (jump(0xFFFFFFFF81000000, BEGIN), "+0"),  # to the kernel's thunk
        (RETURN + jump(NUMA, BEGIN + 3), "+2"),  # pages of the host's node: on no x86
        ("3effe0 c3", "+3"),  # a jump by a table stays inside
        ("cc0f1efa" + RETURN, "+6"),  # a probe of others at the entry
    ],
)
def test_returns(find: Find, code: str, returns: str) -> None:
    """Each form of return that compilers make is found, and nothing else."""
    assert find(code).split(maxsplit=4)[4] == returns


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            RETURN + jump(BEGIN + 0x5000, BEGIN + 3),
            "code: pmaAllocatePages is left by a jump at 0x3, not by a return",
        ),
        (RETURN + "06", "code: the code of pmaAllocatePages is not understood at 0x3"),
        ("c3 c3 c3", "code: pmaAllocatePages has 3 returns, expected 1 to 2: there are no more registers"),
        ("90", "code: pmaAllocatePages has 0 returns, expected 1 to 2: there are no more registers"),
    ],
)
def test_code_that_is_not_watched(find: Find, code: str, reason: str) -> None:
    """Where a call could end unseen there is no witness, and the reason is told."""
    assert find(code) == reason


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (TABLE.replace("pmaFreePages", "_nv012345rm"), "symbols: the driver hides pmaFreePages"),
        (
            TABLE.replace(f"{BEGIN:x}", "0" * 16),
            "addresses: /proc/kallsyms hides the address of pmaAllocatePages",
        ),
        ("", "symbols: the driver hides pmaAllocatePages"),
    ],
)
def test_hidden_symbols(find: Find, table: str, reason: str) -> None:
    """The proprietary flavour, and a kernel that hides addresses, are named."""
    assert find(RETURN, table).startswith(reason)
