# SPDX-License-Identifier: Apache-2.0
"""Indirect branches of the built modules, by their disassembly: none goes to a function outside of them.

Where the processor tracks indirect branches, one that arrives at anything but an ENDBR64 is a fault, and
functions of the kernel and of NVIDIA's driver may have none. A branch is known by the call in the line of
source that it was compiled from.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.module.test_builds import built, releases

# Calls by a pointer, each with the reason why it points into the modules.
OWN = {
    r"\blogic->\w+\(|\b[ab]->state_\w+\(": "struct cgpu_km_core: filled in by core_module/main.c",
    r"\bops->\w+\(": "struct cgpu_ops: filled in by main.c of the module",
    r"\brm->(open|close|op|list|minor_at)\(": "struct cgpu_km_rm: functions of driver/rm.c",
    r"\bprobe->wants\(regs\)": "a KM_PROBE names a function of the module",
    r"\bwhat->run(_ordered)?\(": "struct km_reference_call: functions of the file that makes one",
    r"\bkey->is\(facts, key\)": "struct card_key: functions of card_access.c",
    r"\bopen\(inode, file\)": "km_opened_file_open(): its two callers name functions of theirs",
    r"\bcard->control\(card,": "struct cgpu_card_client: card_control() of rm_client.c",
    r"\bvisit\(": "walks of the tree, of cgroups and of keys: a parameter that callers in the same file name",
    r"\bcontained\(pids\[i\]\)": "view_processes(): km_identity_of_process()",
    r"\boperation->\w+\(|(\]\.|->)(begin|plan)\(context|\bkeeps\(context": "constant tables of the core",
}
LINE = re.compile(r"^(/\S+):(\d+)(?: \(discriminator \d+\))?$")
# A call or jump by a register or memory; with retpolines, one to a thunk of the kernel.
INDIRECT = re.compile(r"\t(?:notrack )?(?:call|jmp)q?\s+\*|R_X86_64_\w+\s+__x86_indirect_\w+")


def branches(module: Path) -> set[tuple[Path, int]]:
    """Return the lines of source that indirect branches were compiled from."""
    command = ["objdump", "--disassemble", "--reloc", "--line-numbers", "--no-show-raw-insn", str(module)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found: set[tuple[Path, int]] = set()
    place = None
    for line in listing.splitlines():
        if at := LINE.match(line):
            place = (Path(at[1]), int(at[2]))
        elif INDIRECT.search(line):
            assert place, f"{module}: without line numbers"
            found.add(place)
    return found


def statement(source: Path, number: int) -> str:
    """Return the rest of the statement that a line begins or goes on with."""
    lines = source.read_text().splitlines()[number - 1 :]
    end = next(index for index, line in enumerate(lines) if line.rstrip().endswith((";", "{")))
    return " ".join(line.strip() for line in lines[: end + 1])


@pytest.mark.parametrize("release", releases())
def test_no_branch_leaves_the_modules(release: str) -> None:
    """Each is a call by one of the modules' own pointers; other functions are entered by static calls."""
    folder = built(release)
    places = {place for module in folder.glob("*.ko") for place in branches(module)}
    # Inline functions of the kernel's headers call by the kernel's own pointers.
    calls = {f"{at}:{number}": statement(at, number) for at, number in places if at.is_relative_to(folder)}
    assert len(calls) > len(OWN)
    assert {at: call for at, call in calls.items() if not any(re.search(own, call) for own in OWN)} == {}
