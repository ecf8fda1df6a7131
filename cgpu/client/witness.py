# SPDX-License-Identifier: Apache-2.0
"""The state of cgpud's witness of the driver's pages: words of the tree's entry `engine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

KEY: Final = "witness="
# Words of cgpud; the others are those of the loader, cgpu-witness.
ON: Final = "on"
INCOMPLETE: Final = "incomplete"
IGNORED: Final = "setting"
ABSENT: Final = "absent"
OLD_CGROUPS: Final = "cgroup"
ENDED: Final = "ended"
# The meaning of each word, and the command that helps, if one does.
WORDS: Final = {
    ON: ("memory that a container takes past cgpud is seen", ""),
    INCOMPLETE: ("memory that a container takes past cgpud is seen in part", "journalctl -u cgpud"),
    IGNORED: ("nobody watches the driver's pages (on_gain, enforce)", "cgpu config set on_gain auto --apply"),
    ABSENT: ("this installation was built without cgpu-witness", ""),
    "symbols": ("the driver hides its functions, as its proprietary flavour does", ""),
    "addresses": ("the kernel hides addresses", "sysctl kernel.kptr_restrict=1; systemctl restart cgpud"),
    "kernel": ("this kernel does not load the program (Linux 5.17 does)", ""),
    "bpf": ("this kernel has no BPF", ""),
    "lockdown": ("the kernel is locked down (confidentiality)", ""),
    "code": ("the code of this driver is not understood", ""),
    "registers": ("no processor has a breakpoint left, as in some virtual machines", ""),
    OLD_CGROUPS: ("cgroups of version 1 do not tell whose a task is", ""),
    ENDED: ("cgpu-witness has ended", "systemctl restart cgpud"),
}


def word_of(words: Sequence[str]) -> str:
    """Return the word that the entry `engine` has; empty where there is no witness to speak of."""
    return next((word[len(KEY) :] for word in words if word.startswith(KEY)), "")


def meaning(word: str) -> tuple[str, str]:
    """Return what a word means, and the command that helps, if one does."""
    return WORDS.get(word, (word, ""))
