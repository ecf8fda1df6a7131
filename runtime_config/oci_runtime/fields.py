# SPDX-License-Identifier: Apache-2.0
"""Typed access to a config.json: a missing member is made, one of the wrong type is refused by name."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.request.spec import check_spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Table = dict[str, object]

# The objects that are read or edited here, by their path, with the members that matter in each.
_MEMBERS = {
    (): ("process", "hooks", "linux", "mounts", "annotations", "root"),
    ("process",): ("env", "user", "capabilities"),
    ("hooks",): ("prestart", "createRuntime", "poststop"),
    ("linux",): ("seccomp", "maskedPaths", "readonlyPaths", "devices", "resources"),
    ("linux", "resources"): ("devices",),
    ("linux", "seccomp"): (
        "defaultAction",
        "architectures",
        "flags",
        "listenerPath",
        "listenerMetadata",
        "syscalls",
    ),
}
_RULE_MEMBERS = ("names", "action", "args")


def table(parent: Table, name: str) -> Table:
    """Return the object of that name, made when missing or null. Raises CgpuError for another type."""
    found = parent.get(name)
    if found is None:
        found = parent[name] = {}
    if not isinstance(found, dict):
        raise CgpuError(f"config.json: {name}: {show(found)}: expected an object")
    return found


def entries(parent: Table, name: str) -> list[object]:
    """Return the list of that name, made when missing or null. Raises CgpuError for another type."""
    found = parent.get(name)
    if found is None:
        found = parent[name] = []
    if not isinstance(found, list):
        raise CgpuError(f"config.json: {name}: {show(found)}: expected a list")
    return found


def objects(parent: Table, name: str) -> list[Table]:
    """Return the objects of a list, which may be missing. Raises CgpuError when one is no object."""
    found = []
    for entry in entries(parent, name) if parent.get(name) is not None else []:
        if not isinstance(entry, dict):
            raise CgpuError(f"config.json: {name}: {show(entry)}: expected objects")
        found.append(entry)
    return found


def set_variable(spec: Table, name: str, value: str) -> None:
    """Set one variable of the container, in the place of every earlier entry for it. Raises CgpuError."""
    variables = entries(table(spec, "process"), "env")
    replace(variables, lambda old: isinstance(old, str) and old.partition("=")[0] == name, f"{name}={value}")


def replace(found: list[object], is_old: Callable[[object], bool], new: object) -> None:
    """Put an entry in the place of the first old one, and drop the others; append it where none is old."""
    first = next((at for at, entry in enumerate(found) if is_old(entry)), len(found))
    found[:] = [*found[:first], new, *(entry for entry in found[first:] if not is_old(entry))]


def check_members(spec: Table) -> None:
    """Refuse members that differ from those used here only in case: runc, being Go, reads them as the same.

    Raises CgpuError.
    """
    for path, members in _MEMBERS.items():
        found: object = spec
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict):
            check_spelling(found, members)
            if path == ("linux", "seccomp") and isinstance(found.get("syscalls"), list):
                _check_rules(found["syscalls"])


def _check_rules(rules: list[object]) -> None:
    for rule in rules:
        if isinstance(rule, dict):
            check_spelling(rule, _RULE_MEMBERS)
