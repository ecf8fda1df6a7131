# SPDX-License-Identifier: Apache-2.0
"""Files that are ours as a whole: units, settings of modprobe, the first configuration."""

from __future__ import annotations

import json
import os
import textwrap
from typing import Any

from cgpu import paths, replace
from cgpu.config.load import accepted, schema
from cgpu.errors import CgpuError
from cgpu.install.places import KMOD, target
from cgpu.install.plan import PlanContext
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.file_changes import FilesPlan
from cgpu.install.transaction.store import digest
from cgpu.node_files import FileEdit, below

COLUMNS = 100
HEAD = """\
# The configuration of this node for OpenCGPU. Every line is a comment, and shows what holds without it.
# After a change: cgpu config check, then systemctl reload cgpud, or with the kernel module
# cgpu-config-apply.
"""


def plan(context: PlanContext, path: str, content: str, title: str) -> list[Plan]:
    """Return the step that puts a file of ours in place; none where it is, or where it was edited since."""
    after = content.encode()
    before = _content(context, path)
    if before == after:
        return []
    ours = context.put_at(path)
    if before is not None and ours and digest(before) not in ours:
        context.kept.append(f"{path}: was edited since cgpu install wrote it; it stays as it is")
        return []
    return [FilesPlan(title, (FileEdit(below(context.root, path), before, after),))]


def configuration(context: PlanContext) -> list[Plan]:
    """Return the step that makes the first configuration; none where there is one."""
    if _content(context, paths.CONFIG) is not None:
        return []
    title = f"makes {paths.CONFIG}, with every key as a comment"
    return plan(context, paths.CONFIG, first_configuration(), title)


def first_configuration() -> str:
    """Return a configuration that has every key with its meaning, and changes none."""
    return HEAD + "".join(_key(name, rule) for name, rule in schema()["properties"].items())


def unit(name: str, program: str) -> str:
    """Return the text of a unit that comes with the package, with our command where it is installed.

    name: the unit's file. Raises CgpuError.
    """
    path = KMOD / "units" / name
    try:
        text = path.read_text()
    except OSError as error:
        raise CgpuError(f"{path}: cannot be read ({error.strerror}); install the package again") from error
    own = f"/usr/bin/{os.path.basename(program)}"
    if name.endswith(".service") and own not in text:
        raise CgpuError(f"{path}: does not start {own}; install the package again")
    return text.replace(own, _escaped(program))


def _escaped(path: str) -> str:
    """Return a path as a unit takes it in a command. Raises CgpuError."""
    if not path.isprintable() or any(c in path for c in "'\"\\"):
        raise CgpuError(
            f"{path}: no unit can start this path; install the package elsewhere, such as /opt/opencgpu"
        )
    doubled = path.replace("%", "%%").replace("$", "$$")
    return f'"{doubled}"' if " " in doubled else doubled


def _key(name: str, rule: dict[str, Any]) -> str:
    words = textwrap.wrap(rule["description"], COLUMNS - 2, break_on_hyphens=False)
    comment = "".join(f"# {line}\n" for line in [*words, f"Accepted: {accepted(name)}."])
    return f"\n{comment}#{name}: {json.dumps(rule['default'])}\n"


def _content(context: PlanContext, path: str) -> bytes | None:
    try:
        found = replace.read(target(context.root, path))
    except OSError as error:
        raise CgpuError(f"{path}: cannot be read: {error.strerror}") from error
    return found[0] if found else None
