# SPDX-License-Identifier: Apache-2.0
"""Read the prototypes of the driver's functions that the kernel module probes or calls."""

from __future__ import annotations

import re

from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.tables import Json, Layout

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# A definition begins a line; the name may stand on the next one.
DEFINITION = re.compile(r"^([A-Za-z_][\w \t*]*[\s*])(\w+)\s*\(([^;{}]*?)\)\s*\{", re.MULTILINE)


def read_prototypes(clone: Clone, tag: str, functions: Json) -> dict[str, Layout]:
    """Return the prototype of each function at one version; None for one that its source does not define.

    functions: by name, as in nvidia.json.
    """
    found: dict[str, Layout] = dict.fromkeys(functions)
    for path in dict.fromkeys(row["source"] for row in functions.values()):
        for _, blob in clone.files(tag, path, "."):
            for name, prototype in clone.parse(blob, definitions).items():
                if name in functions and functions[name]["source"] == path:
                    found[name] = {"prototype": prototype}
    return found


def definitions(text: str) -> dict[str, str]:
    """Return the prototype of each function that a file defines, in one line."""
    return {
        name: f"{_join(f'{kind}{name}')}({_join(parameters)})"
        for kind, name, parameters in DEFINITION.findall(COMMENT.sub(" ", text))
    }


def _join(text: str) -> str:
    return re.sub(r" ?(\*+) ?", r" \1", " ".join(text.split())).rstrip()
