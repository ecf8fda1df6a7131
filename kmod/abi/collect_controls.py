# SPDX-License-Identifier: Apache-2.0
"""Collect the facts of the driver's controls, into control_facts.json.

From a clone of NVIDIA/open-gpu-kernel-modules: names, numbers, the rights that the driver asks for, and
which parameters hold handles, pointers or descriptors, of every tag that nvidia.json knows. The
verdicts are in controls.json, which people write. `cgpu abi add` writes the file.
"""

import json
import re
from pathlib import Path
from typing import Any

from cgpu.kmod.abi.clone import Clone

HERE = Path(__file__).parent
OUTPUT = HERE / "control_facts.json"
HEADERS = "src/common/sdk/nvidia/inc/ctrl"
TABLES = "src/nvidia/generated"
FLAGS = "src/nvidia/inc/kernel/rmapi/control.h"
# Flags that say who may call; the driver's other flags are about its own locks and caches.
RIGHTS = {
    "PRIVILEGED": "root",
    "NON_PRIVILEGED": "any",
    "INTERNAL": "internal",
    "PRIVILEGED_IF_RS_ACCESS_DISABLED": "right",
    "RM_TEST_ONLY_CODE": "test",
}

DEFINE = re.compile(
    r'^#define\s+(\w+)\s+\(?(0x[0-9a-fA-F]+)U?\)?\s*/\* finn: Evaluated from "\(\w+ << 8\)?', re.MULTILINE
)
FLAG = re.compile(r"^#define\s+RMCTRL_FLAGS_(\w+)\s+(0x[0-9a-fA-F]+)", re.MULTILINE)
METHOD = re.compile(
    r"/\*flags=\*/\s*(0x[0-9a-fA-F]+)u.*?/\*accessRight=\*/\s*(0x[0-9a-fA-F]+)u"
    r".*?/\*methodId=\*/\s*(0x[0-9a-fA-F]+)u.*?/\*paramSize=\*/\s*(sizeof\((\w+)\)|0)"
    r'.*?/\*func=\*/\s*"(\w+)"',
    re.DOTALL,
)
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \1;", re.DOTALL)
INSIDE = re.compile(
    r"^\s*(?:NV_DECLARE_ALIGNED\()?(NvHandle|NvP64)\s+(\w+)|^\s*Nv[SU]32\s+(\w*[fF]d)\b", re.MULTILINE
)

Json = dict[str, Any]


class Facts:
    """Facts of all tags about the controls, by number."""

    def __init__(self) -> None:
        self.controls: dict[int, Json] = {}

    def control(self, number: int, tag: str) -> Json:
        found = self.controls.setdefault(number, {"names": {}, "rights": {}, "params": {}, "first": tag})
        found["last"] = tag
        return found


def read_headers(facts: Facts, clone: Clone, tag: str) -> dict[str, str]:
    """Note the names of one tag, and return the bodies of its structs."""
    bodies: dict[str, str] = {}
    for path, blob in clone.files(tag, HEADERS, r"\.h$"):
        for name, value in clone.parse(blob, DEFINE.findall):
            control = facts.control(int(value, 16), tag)
            control["names"].setdefault(name, path.removeprefix(HEADERS + "/"))
        bodies.update(clone.parse(blob, STRUCT.findall))
    return bodies


def rights_of(flags: int, access: int, meaning: dict[str, int]) -> str:
    """Return who may call, of the flags and the access right that one table has."""
    found = [word for name, word in RIGHTS.items() if meaning.get(name, 0) & flags]
    if not any(word in found for word in ("root", "any", "internal")):
        found.append("kernel")
    return " ".join(sorted(found + (["access"] if access else [])))


def inside(body: str) -> list[str]:
    """Return the fields of a struct that name objects, memory or files of a process."""
    return [f"{kind or 'fd'} {name or number}" for kind, name, number in INSIDE.findall(body)]


def read_tables(facts: Facts, clone: Clone, tag: str, bodies: dict[str, str]) -> None:
    """Note the facts in the driver's own tables of one tag."""
    defined = FLAG.findall(clone.git("show", f"{tag}:{FLAGS}"))
    meaning = {name: int(value, 16) for name, value in defined}
    for _, blob in clone.files(tag, TABLES, r"_nvoc\.c$"):
        for flags, access, number, _, struct, function in clone.parse(blob, METHOD.findall):
            control = facts.control(int(number, 16), tag)
            rights = rights_of(int(flags, 16), int(access, 16), meaning)
            control["rights"].setdefault(rights, [tag, tag])[1] = tag
            control["function"] = function
            if struct:
                control["params"][struct] = inside(bodies.get(struct, ""))


def entry(control: Json) -> Json:
    """Return what the file has of one control."""
    names = list(control["names"])
    found: Json = {"name": names[-1] if names else control["function"]}
    if names[:-1]:
        found["before"] = names[:-1]
    found.update(first=control["first"], last=control["last"])
    if names:
        found["header"] = control["names"][names[-1]]
    if control["rights"]:
        found["rights"] = sorted(control["rights"])
    fields = sorted({field for inside in control["params"].values() for field in inside})
    if fields:
        found["inside"] = fields
    return found


def collect(clone: Clone, tags: list[str]) -> Json:
    """Return all controls of these tags, by their numbers."""
    facts = Facts()
    for tag in tags:
        read_tables(facts, clone, tag, read_headers(facts, clone, tag))
    return {f"{number:#x}": entry(control) for number, control in sorted(facts.controls.items())}


def facts_text(kind: str, about: str, tags: list[str], rows: Json) -> str:
    """Return the text of a file of controls or classes: one line for each."""
    lines = [f"  {json.dumps(number)}: {json.dumps(row)}" for number, row in rows.items()]
    about = json.dumps(" ".join(about.split()))
    head = f' "about": {about},\n "first": "{tags[0]}",\n "last": "{tags[-1]}",\n'
    return "{\n" + head + f' "{kind}": {{\n' + ",\n".join(lines) + "\n }\n}\n"


ABOUT = f"""
Generated by kmod/abi/collect_controls.py from the public tags of NVIDIA/open-gpu-kernel-modules (MIT
licensed): the controls of {HEADERS} and of the driver's own tables ({TABLES}/g_*_nvoc.c), by number. name
is the newest one, before has those that the number had earlier, first and last are the tags that have the
number. A control without a header has the name of its function in the tables. rights: who may call by
these tables, several where tags differ: any; root (privileged); right and access (who has a right to the
object); kernel (nobody in user space); internal (the driver itself); test. None: the control is of the
card's firmware, or of the flavour that is not public. inside: fields of the parameters that name objects,
memory or files.
"""
