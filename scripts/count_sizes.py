# SPDX-License-Identifier: Apache-2.0
"""Print how large the tree is: lines of product, laboratory and tests, and words of the documents.

Reads the paths to count from standard input, as `git ls-files -z` prints them.

The laboratory is what judges the product and is no part of it: the simulated card, the programs that check a
driver or call it, and the benchmarks.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = frozenset({".py", ".c", ".h"})
PRODUCT = ("hook/", "runtime_config/", "cgpu/", "install/", "kmod/", "scripts/")
LABORATORY = ("kmod/sim/", "kmod/check/", "kmod/probe/", "benchmarks/")


def part_of(path: str) -> str | None:
    """Return the part of the tree that a file counts for, or None.

    path: relative to the root.
    """
    if path.startswith("docs/") and path.endswith(".md"):
        return "documents"
    if path in ("README.md", "CONTRIBUTING.md"):
        return path
    if Path(path).suffix not in CODE:
        return None
    if path.startswith(LABORATORY):
        return "laboratory"
    if path.startswith("tests/"):
        return "tests"
    return "product" if path.startswith(PRODUCT) else None


def count_parts(paths: Iterable[str]) -> Counter[str]:
    """Return the lines of code of each part, and the words of each part that is text."""
    sizes: Counter[str] = Counter()
    for path in paths:
        part = part_of(path)
        if part is not None:
            text = (ROOT / path).read_text(encoding="utf-8")
            sizes[part] += len(text.split()) if path.endswith(".md") else text.count("\n")
    return sizes


def main() -> None:
    """Print the sizes of the files that standard input names."""
    sizes = count_parts(path for path in sys.stdin.read().split("\0") if path and (ROOT / path).is_file())
    for part in ("product", "laboratory", "tests"):
        print(f"{sizes[part]:7,} lines of {part}")
    for part in ("documents", "README.md", "CONTRIBUTING.md"):
        print(f"{sizes[part]:7,} words of {part}")


if __name__ == "__main__":
    main()
