# SPDX-License-Identifier: Apache-2.0
"""Fill layouts.json from a clone of NVIDIA/open-gpu-kernel-modules: the values of all versions or of some.

A compiler reads figures from headers, and names of functions are those of definitions; nothing of NVIDIA's is
built. A new row needs its name and `is`, with an empty `from`, and all versions.

usage: python -m tests.vm.nvidia.hardware.collect CLONE [TAG]...
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.extract import INCLUDES, headers_of, measure_numbers
from tests.vm.nvidia.hardware.layouts import DATA, Json, Value, number, value_at

# As the driver's own build of its resource manager has them.
MORE_INCLUDES = (
    "src/nvidia/kernel/inc",
    "src/nvidia/arch/nvalloc/common/inc",
    "src/common/inc/swref",
    "src/common/inc/swref/published",
    "src/common/nvlink/inband/interface",
)
PORT = ("atomic", "core", "cpu", "crypto", "debug", "memory", "safe", "string", "sync", "thread", "util")
DEFINES = (
    *(f"PORT_MODULE_{name} 1" for name in PORT),
    *("PORT_IS_KERNEL_BUILD 1", "PORT_IS_CHECKED_BUILD 0", "PORT_ATOMIC_64_BIT_SUPPORTED 1"),
    *("RS_STANDALONE 0", "RS_STANDALONE_TEST 0", "RS_COMPATABILITY_MODE 1", "RS_PROVIDES_API_STATE 0"),
    *("NV_CONTAINERS_NO_TEMPLATES", "LOCK_VAL_ENABLED 0"),
    *("RPC_STRUCTURES", "RPC_GENERIC_UNION", "RPC_MESSAGE_STRUCTURES"),
)
HEADERS = (
    *("cpuopsys.h", "core/core.h", "gpu/gpu.h", "gpu/gsp/gsp_static_config.h", "gpu/intr/engine_idx.h"),
    *("gpu/fifo/kernel_fifo.h", "gpu/mem_mgr/phys_mem_allocator/phys_mem_allocator.h", "vgpu/rpc.h"),
    *("g_rpc-structures.h", "g_rpc-message-header.h", "nv_uvm_types.h"),
    *("class/clc46f.h", "class/clc5b5.h", "cla06fsubch.h"),
)
# A header of ours that reads all of these, beside the driver's.
ALL = "src/nvidia/opencgpu_all.h"
TEXT = "\n".join(
    [
        *(f"#define {define}" for define in DEFINES),
        *(f'#include "{header}"' for header in HEADERS),
        "#undef offsetof",
        "#define offsetof __builtin_offsetof",
        "",
    ]
)
# The line on which a function's definition names it, or a string with the name of the firmware's file.
DEFINITION = r'^(?:\w[\w *]* )?\*?(\w+)\s*(?:\(|$)|"/?(\w+)(?:\.bin)?"'
SOURCES = ("src/nvidia/*.c", "kernel-open/nvidia*.c", "kernel-open/common/inc/nv-firmware.h")


def measure(clone: Clone, tag: str, data: Json) -> dict[str, Value]:
    """Return what a version has of each row and name. Raises CgpuError."""
    wanted = {row["is"]: {"source": ALL, "value": 0} for row in data["rows"].values()}
    with headers_of(clone, tag) as headers:
        (headers.folder / ALL).write_text(TEXT)
        more = dataclasses.replace(headers, includes=(*INCLUDES, *MORE_INCLUDES))
        found = measure_numbers(more, wanted)
    if not found:
        raise CgpuError(f"{tag}: its headers cannot be read as those of the versions before")
    values: dict[str, Value] = {}
    for name, row in data["rows"].items():
        value, _ = found.get(row["is"], (None, None))
        values[name] = int(value) if value and ":" not in value else value
    return values | _names(clone, tag, data["names"])


def _names(clone: Clone, tag: str, rows: Json) -> dict[str, Value]:
    every = [word for row in rows.values() for name in row["is"] for word in ("-e", name)]
    lines = clone.git("grep", "-hwF", *every, tag, "--", *SOURCES)
    there = {word for found in re.findall(DEFINITION, lines, re.MULTILINE) for word in found}
    return {role: next((name for name in row["is"] if name in there), None) for role, row in rows.items()}


def fold(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return the first version of each run of equal values."""
    folded: dict[str, Value] = {}
    for tag in sorted(values, key=number):
        if not folded or values[tag] != next(reversed(folded.values())):
            folded[tag] = values[tag]
    return folded


def update(data: Json, measured: Mapping[str, Mapping[str, Value]], tags: set[str]) -> None:
    """Put values of versions into the table. tags: all versions; the table has those up to its newest."""
    before = [tag for tag in tags if number(tag) <= number(data["newest"])]
    for section in ("rows", "names"):
        for name, row in data[section].items():
            known = {tag: value_at(row, tag) for tag in before}
            row["from"] = fold(known | {tag: values[name] for tag, values in measured.items()})
    data["newest"] = max(*measured, data["newest"], key=number)


def text(data: Json) -> str:
    """Return the table as its file has it, with a line for each row."""
    parts = [f' "{key}": {json.dumps(data[key])}' for key in ("about", "newest")]
    for section in ("rows", "names"):
        rows = (f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in data[section].items())
        parts.append(f' "{section}": {{\n' + ",\n".join(rows) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(path: str, *wanted: str) -> int:
    """Write the table anew."""
    data: Json = json.loads(DATA.read_text())
    try:
        clone = Clone(Path(path))
        tags = wanted or tuple(clone.tags())
        with ThreadPoolExecutor(2) as pool:
            measured = dict(zip(tags, pool.map(lambda tag: measure(clone, tag, data), tags), strict=True))
    except CgpuError as error:
        print(error, file=sys.stderr)
        return 1
    update(data, measured, clone.tags())
    DATA.write_text(text(data))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
