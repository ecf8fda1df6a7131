# SPDX-License-Identifier: Apache-2.0
"""Measure the driver's structs and numbers with a compiler, from the public headers of one version.

Nothing of NVIDIA's is built or run: each figure is a constant of a C expression over the headers, which the
compiler writes into its assembly. A cross compiler measures another architecture in the same way.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TypeVar

from cgpu.errors import CgpuError
from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.generate import all_fields
from cgpu.kmod.abi.tables import Json, Layout

INCLUDES = (
    "src/common/sdk/nvidia/inc",
    "src/common/sdk/nvidia/inc/ctrl",
    "src/common/shared/inc",
    "src/common/inc",
    "src/nvidia/arch/nvalloc/unix/include",
    "src/nvidia/inc",
    "src/nvidia/inc/kernel",
    "src/nvidia/inc/libraries",
    "src/nvidia/generated",
    "src/nvidia/interface",
    "kernel-open/common/inc",
    "kernel-open/nvidia-uvm",
)
COMMON = "src/common/sdk/nvidia/inc/nvos.h"
TYPES = ("nvtypes.h", "nvstatus.h", "nvos.h")
# Headers that are compiled together, by how their paths begin, and what comes before them; the first group
# that fits is taken.
GROUPS = {
    "kernel-open/nvidia-uvm/": (*TYPES, "nv_uvm_types.h", "uvm_types.h"),
    "kernel-open/common/inc/nv-ioctl": (*TYPES, "nv-ioctl.h", "nv-ioctl-numbers.h"),
    "": TYPES,
}
# Both are what the driver's own build has: its UVM is built for Linux, its resource manager with NVRM.
DEFINES = ("-DNV_LINUX", "-DNVRM=1", "-D__linux__")
# An error within a macro is one of the line that uses it. The preprocessor runs by itself: a gcc with macros
# compares each undeclared name with all of them, for a hint, and takes four times as long.
OPTIONS = ("-w", "-S", "-no-integrated-cpp", "-fmax-errors=0", "-ftrack-macro-expansion=0", "-x", "c")
FIGURE = re.compile(r"^figure_(\d+)(?:\.\d+)?:\n\s*\.(?:quad|xword)\s+(-?\d+)$", re.MULTILINE)
ERROR = re.compile(r"^figures\.c:(\d+):.*\b(?:error|Error)\b", re.MULTILINE)
# A function of its own for each, as a compiler reports what is not declared once a function.
FIGURE_LINE = (
    "void measure_{0}(void) {{ static unsigned long long figure_{0} "
    '__attribute__((section(".figures"), used)) = (unsigned long long)({1}); }}'
)
PLAIN = re.compile(r"\d+(:\d+)?")
ZERO = "\t.zero\t8\n"  # how the compiler writes eight bytes of 0
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of one version, below a folder of their own."""

    folder: Path
    tag: str
    compiler: str = "cc"
    includes: tuple[str, ...] = INCLUDES

    def has(self, path: str) -> bool:
        """Tell whether the version has a header."""
        return (self.folder / path).is_file()


@contextmanager
def headers_of(clone: Clone, tag: str, compiler: str = "cc") -> Iterator[Headers]:
    """Give the headers of a version of a clone for the block. Raises CgpuError."""
    with TemporaryDirectory(prefix="cgpu-abi-") as folder:
        archive = Path(folder, "headers.tar")
        clone.archive(tag, [":(glob)**/*.h"], archive)
        _unpack(archive, Path(folder))
        archive.unlink()
        yield Headers(Path(folder), tag, compiler)


def machine_of(compiler: str) -> str:
    """Return the machine that a compiler compiles for, as x86_64-linux-gnu. Raises CgpuError."""
    return _run([compiler, "-dumpmachine"], "").stdout.strip()


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the headers of an archive. Paths that lead out of the folder are left out."""
    with tarfile.open(archive) as files:
        for one in files:
            path = PurePosixPath(one.name)
            stream = files.extractfile(one) if one.isfile() and path.suffix == ".h" else None
            if stream is None or path.is_absolute() or ".." in path.parts:
                continue
            (folder / path.parent).mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(stream.read())


def measure_structs(headers: Headers, structs: Mapping[str, Json]) -> dict[str, Layout]:
    """Return size and fields of each struct; None for one that the version lacks.

    structs: by name, as in nvidia.json; all fields that any of their layouts names are looked for.
    """
    wanted: dict[tuple[str, ...], tuple[str, str]] = {}
    for name, struct in structs.items():
        header = header_of(struct["source"])
        wanted[name,] = header, f"sizeof({name})"
        for field in all_fields(struct):
            wanted[name, field, "offset"] = header, f"__builtin_offsetof({name}, {field})"
            wanted[name, field, "size"] = header, f"sizeof((({name} *)0)->{field})"
    figures = _figures(headers, wanted)
    found: dict[str, Layout] = dict.fromkeys(structs)
    for name, struct in structs.items():
        if (name,) in figures:
            fields = {
                field: [figures[name, field, "offset"], figures[name, field, "size"]]
                for field in all_fields(struct)
                if (name, field, "offset") in figures and (name, field, "size") in figures
            }
            found[name] = {"size": figures[name,], "fields": fields}
    return found


def measure_numbers(headers: Headers, wanted: Mapping[str, Json]) -> dict[str, tuple[str, str]]:
    """Return each name that the headers define: its value, and the wanted one; numbers, or high:low of bits.

    wanted: by name, each with its `value`, an expression, and the `source` that names the header.
    """
    headers_by_name = {name: header_of(row["source"]) for name, row in wanted.items()}
    values = {name: str(row["value"]) for name, row in wanted.items()}
    numbers = _figures(headers, {name: (header, name) for name, header in headers_by_name.items()})
    expressions = {
        name: (headers_by_name[name], text) for name, text in values.items() if not PLAIN.fullmatch(text)
    }
    expected = _figures(headers, expressions)
    # A range of bits is no expression by itself; both of its ends are one of a conditional.
    ends = {
        (name, end): (header, f"{end} ? {name}")
        for name, header in headers_by_name.items()
        if name not in numbers
        for end in (1, 0)
    }
    ranges = _figures(headers, ends)
    found: dict[str, tuple[str, str]] = {}
    for name, text in values.items():
        value = str(expected.get(name, text))
        if name in numbers:
            found[name] = str(numbers[name]), value
        elif (name, 1) in ranges and (name, 0) in ranges:
            found[name] = f"{ranges[name, 1]}:{ranges[name, 0]}", value
    return found


def header_of(source: str) -> str:
    """Return the header that a `source` of the tables names: a path, a line, a version may follow."""
    return re.split(r"[: ,]", source, maxsplit=1)[0]


def _figures(headers: Headers, wanted: Mapping[Key, tuple[str, str]]) -> dict[Key, int]:
    """Return the values of expressions, each over its header; those that do not compile are left out."""
    groups: dict[str, dict[Key, tuple[str, str]]] = {}
    for key, (header, expression) in wanted.items():
        # Older versions have some structs in a header that all others include.
        path = header if headers.has(header) else COMMON
        group = next(begin for begin in GROUPS if path.startswith(begin))
        groups.setdefault(group, {})[key] = path, expression
    found: dict[Key, int] = {}
    for group, expressions in groups.items():
        found |= _group_figures(headers, GROUPS[group], expressions)
    return found


def _group_figures(
    headers: Headers, before: Iterable[str], wanted: Mapping[Key, tuple[str, str]]
) -> dict[Key, int]:
    left = dict(wanted)
    while left:
        paths = dict.fromkeys(path for path, _ in left.values())
        head = [f'#include "{name}"' for name in (*before, *(headers.folder / path for path in paths))]
        # One figure a line, so that the line of an error tells which of them is none.
        lines = [FIGURE_LINE.format(number, one) for number, (_, one) in enumerate(left.values())]
        done = _compile(headers, "\n".join([*head, *lines, ""]))
        if done.returncode == 0:
            keys = list(left)
            text = done.stdout.replace(ZERO, "\t.quad\t0\n")
            return {keys[int(number)]: int(value) for number, value in FIGURE.findall(text)}
        wrong = {int(line) - len(head) - 1 for line in ERROR.findall(done.stderr)}
        dropped = [key for number, key in enumerate(left) if number in wrong]
        # A header that is a part of another one cannot be read by itself.
        broken = next((path for path in paths if f"{headers.folder / path}:" in done.stderr), None)
        dropped = dropped or [key for key, (path, _) in left.items() if path == broken]
        if not dropped:
            raise CgpuError(f"{headers.tag}: headers cannot be compiled: {_first_error(done.stderr)}")
        for key in dropped:
            del left[key]
    return {}


def _compile(headers: Headers, text: str) -> subprocess.CompletedProcess[str]:
    includes = [f"-I{headers.folder / path}" for path in headers.includes]
    command = [headers.compiler, *OPTIONS, *DEFINES, *includes, "-o", "-", "-"]
    # Errors name the standard input by this line.
    given = f'#line 1 "figures.c"\n{text}'
    return _run(command, given)


def _run(command: list[str], given: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CgpuError(f"{command[0]}: cannot be started: {error.strerror}") from error


def _first_error(text: str) -> str:
    return next((line for line in text.splitlines() if "error" in line), "no message")
