# SPDX-License-Identifier: Apache-2.0
"""cgpu abi: its arguments, and the only place of it that prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.kmod.abi.add import HERE, TABLES, add_version
from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.extract import headers_of, machine_of
from cgpu.kmod.abi.generate import version_key
from cgpu.kmod.abi.tables import load, save
from cgpu.kmod.abi.verify import Comparison, compare

EXIT_FAILED = 1
RECORD = HERE / "verified.json"
ABOUT = (
    "The last comparison of nvidia.json and card.json with the public sources of each version, by cgpu abi "
    "verify --record: how many structs, numbers and prototypes were compared, and how many names no header "
    "defines; for each machine, as its compiler measures it."
)


def parser() -> argparse.ArgumentParser:
    """Return the grammar of the command line."""
    made = Parser(
        prog="cgpu abi",
        description="Keep the tables of the driver's interface by NVIDIA's headers. Needs git and cc.",
        epilog="Exit status: 0; 1 when a version differs from the tables or cannot be added.",
        examples=(
            "cgpu abi verify open-gpu-kernel-modules",
            "cgpu abi add open-gpu-kernel-modules 595.45.04",
        ),
    )
    made.add_argument(
        "order", choices=("add", "verify"), help="add a version, or compare versions with the tables"
    )
    made.add_argument("clone", metavar="CLONE", type=Path, help="a clone of NVIDIA/open-gpu-kernel-modules")
    made.add_argument(
        "tags", metavar="TAG", nargs="*", help="versions; verify: all that tables and clone have"
    )
    made.add_argument(
        "--compiler", metavar="CC", default="cc", help="verify: another C compiler, also a cross compiler"
    )
    made.add_argument("--record", action="store_true", help=f"verify: write the result to {RECORD.name}")
    return made


def verify(clone: Clone, tags: Sequence[str], compiler: str) -> Iterator[Comparison]:
    """Compare versions with the tables, one after another. Raises CgpuError."""
    tables = [load(HERE / name) for name in TABLES]
    for tag in tags or clone.known(tables[0]["tags"]):
        with headers_of(clone, tag, compiler) as headers:
            yield compare(clone, headers, tables)


def record(one: Comparison, machine: str) -> None:
    """Write what was compared of a version beside the results of the others."""
    table = load(RECORD)
    found = table.get(machine, {})
    found[one.tag] = {
        "structs": one.structs,
        "numbers": one.numbers,
        "functions": one.functions,
        "absent": len(one.absent),
    }
    table[machine] = {tag: found[tag] for tag in sorted(found, key=version_key)}
    save(RECORD, table | {"about": ABOUT})


def run_verify(options: argparse.Namespace, clone: Clone) -> int:
    """Print a line for each version, and one for each difference. Raises CgpuError."""
    failed = 0
    for one in verify(clone, options.tags, options.compiler):
        for line in one.wrong:
            print(f"{one.tag}: {line}")
        print(
            f"{one.tag}: {one.structs} structs, {one.numbers} numbers and {one.functions} functions, "
            f"{len(one.wrong)} differ",
            flush=True,
        )
        failed += bool(one.wrong)
        if options.record and not one.wrong:
            record(one, machine_of(options.compiler))
    return EXIT_FAILED if failed else 0


def main(arguments: Sequence[str]) -> int:
    """Run cgpu abi and return its exit status."""
    made = parser()
    options = made.parse_intermixed_args(arguments)
    if options.order == "add" and len(options.tags) != 1:
        made.error("add: expected one TAG")
    try:
        clone = Clone(options.clone)
        for tag in options.tags:
            if tag not in clone.tags():
                raise CgpuError(f"{tag}: {options.clone} has no such tag; expected one of: git tag")
        if options.order == "verify":
            return run_verify(options, clone)
        for line in add_version(clone, options.tags[0]):
            print(line)
    except (CgpuError, OSError) as error:
        print(f"cgpu abi: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0
