# SPDX-License-Identifier: Apache-2.0
"""Collect the facts of the driver's classes, into class_facts.json.

From a clone of NVIDIA/open-gpu-kernel-modules: name, number, resource, parents and rights of each class, of
every tag that nvidia.json knows. The verdicts are in classes.json, which people write.
`cgpu abi add` writes the file.
"""

import re
from pathlib import Path

from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.collect_controls import STRUCT, Json, inside

HERE = Path(__file__).parent
OUTPUT = HERE / "class_facts.json"
SDK = "src/common/sdk/nvidia/inc"
HEADERS = f"{SDK}/class"
LIST = "src/nvidia/generated/g_allclasses.h"
RESOURCES = "src/nvidia/src/kernel/rmapi/resource_list.h"
# Flags that say who may have a class; the others are about the driver's locks and where the object lives.
RIGHTS = {
    "RS_FLAGS_ALLOC_PRIVILEGED": "root",
    "RS_FLAGS_ALLOC_NON_PRIVILEGED": "any",
    "RS_FLAGS_ALLOC_KERNEL_PRIVILEGED": "kernel",
    "RS_FLAGS_INTERNAL_ONLY": "internal",
}

DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)\s+\(?(0x[0-9a-fA-F]+)U?L?\)?", re.MULTILINE)
OWN_HEADER = re.compile(r"cl([0-9a-f]{4})(sw)?\.h$")
RESOURCE = re.compile(r"^RS_ENTRY\((.*?)^\)", re.DOTALL | re.MULTILINE)
LABEL = re.compile(r"/\*[^*]*\*/")
PARAMS = re.compile(r"^RS_(?:REQUIRED|OPTIONAL)\((\w+)\)$")


class Facts:
    """Facts of all tags about the classes, by number."""

    def __init__(self) -> None:
        self.classes: dict[int, Json] = {}

    def found(self, number: int, name: str, tag: str) -> Json:
        fact = self.classes.setdefault(number, {"names": {}, "first": tag, "rights": set(), "inside": set()})
        fact["last"] = tag
        fact["names"][name] = tag
        return fact


def entries(text: str) -> list[list[str]]:
    """Return the fields of each entry of a resource list, in their order there."""
    rows = [LABEL.split(body)[1:] for body in RESOURCE.findall(text)]
    return [[" ".join(field.split()).rstrip(",") for field in row] for row in rows]


def read_headers(facts: Facts, clone: Clone, tag: str) -> tuple[dict[str, int], dict[str, str]]:
    """Note the classes that have a header; return the numbers of all names, and the structs' bodies."""
    numbers: dict[str, int] = {}
    bodies: dict[str, str] = {}
    for path, blob in clone.files(tag, SDK, rf"^{SDK}/(class/.*|nvos)\.h$"):
        own = OWN_HEADER.search(path)
        for name, value in clone.parse(blob, DEFINE.findall):
            numbers.setdefault(name, int(value, 16))
            if own and int(value, 16) == int(own[1], 16) and not name.endswith("_MESSAGE_ID"):
                facts.found(int(value, 16), name, tag)["header"] = path.removeprefix(SDK + "/")
        bodies.update(clone.parse(blob, STRUCT.findall))
    return numbers, bodies


def read_list(facts: Facts, clone: Clone, tag: str) -> dict[str, int]:
    """Note the classes of the driver's own list, also without a header; return their numbers."""
    numbers: dict[str, int] = {}
    for _, blob in clone.files(tag, LIST, "."):
        for name, value in clone.parse(blob, DEFINE.findall):
            numbers[name] = int(value, 16)
            facts.found(int(value, 16), name, tag).setdefault("listed", name)
    return numbers


def read_resources(
    facts: Facts, clone: Clone, tag: str, numbers: dict[str, int], bodies: dict[str, str]
) -> None:
    """Note what the driver makes of each class of one tag."""
    for _, blob in clone.files(tag, RESOURCES, "."):
        for name, resource, _, parents, params, _, flags, access in clone.parse(blob, entries):
            fact = facts.found(numbers[name], name, tag)
            fact.update(listed=name, resource=resource, access=access)
            fact["parents"] = re.findall(r"classId\((\w+)\)", parents)
            fact["rights"].update(word for flag, word in RIGHTS.items() if flag in flags.split(" | "))
            struct = PARAMS.match(params)
            if struct:
                fact["params"] = struct[1]
                fact["inside"].update(inside(bodies.get(struct[1], "")))


def entry(fact: Json) -> Json:
    """Return what the file has of one class."""
    newest = max(fact["names"].values(), key=lambda tag: [int(part) for part in tag.split(".")])
    name = fact.get("listed") or next(one for one, tag in fact["names"].items() if tag == newest)
    found: Json = {"name": name, "first": fact["first"], "last": fact["last"]}
    found.update({key: fact[key] for key in ("header", "resource", "parents", "params") if fact.get(key)})
    if fact.get("access", "RS_ACCESS_NONE") != "RS_ACCESS_NONE":
        found["access"] = fact["access"]
    found.update({key: sorted(fact[key]) for key in ("rights", "inside") if fact[key]})
    return found


def collect(clone: Clone, tags: list[str]) -> Json:
    """Return all classes of these tags, by their numbers."""
    facts = Facts()
    for tag in tags:
        numbers, bodies = read_headers(facts, clone, tag)
        read_resources(facts, clone, tag, {**numbers, **read_list(facts, clone, tag)}, bodies)
    return {f"{number:#x}": entry(fact) for number, fact in sorted(facts.classes.items())}


ABOUT = f"""
Generated by kmod/abi/collect_classes.py from the public tags of NVIDIA/open-gpu-kernel-modules (MIT
licensed): the classes of {HEADERS}, of {LIST} and of {RESOURCES}, by number. name is the one that the driver
uses, first and last are the tags that have the number. resource: what the driver makes of it, below which
parents, by which parameters. rights: who may have one, several where tags differ: any; root (privileged);
kernel (nobody in user space); internal (the driver itself). inside: fields of the parameters that name
objects, memory or files. Without a resource the driver whose source is public makes none: another flavour
may, of an older or a newer card.
"""
