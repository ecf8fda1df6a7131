# SPDX-License-Identifier: Apache-2.0
"""Texts of files that are ours as a whole: units, settings of modprobe, the first configuration."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

from cgpu import paths
from cgpu.config import effective
from cgpu.config.load import accepted, load
from cgpu.config.schema import schema
from cgpu.errors import CgpuError
from cgpu.install.places import KMOD
from cgpu.node_files import below

COLUMNS = 100
# Given at load; cgpu-config-apply cannot set them later.
AT_LOAD = ("enforce", "allow_zero_weight", "allow_unknown_driver", "count_pages")
HEAD = """\
# The configuration of this node for OpenCGPU. Every line is a comment, and shows what holds without it.
# After a change: cgpu config check, then systemctl reload cgpud, or with the kernel module
# cgpu-config-apply.
"""


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


def modprobe_settings(root: Path) -> str:
    """Return what modprobe has to know. Raises CgpuError for a configuration with a mistake."""
    config = load(below(root, paths.CONFIG))
    # cgpu_km.ko itself names its core, and NVIDIA's driver as the module to load first: a softdep
    # here would take the place of that, and name another core than an upgrade has brought.
    lines = ["# Made by cgpu install: what of the configuration can be given to cgpu_km at load only."]
    given = {key: getattr(config, key) for key in AT_LOAD if getattr(config, key) != effective.DEFAULTS[key]}
    if given:
        words = " ".join(f"{key}={int(value)}" for key, value in given.items())
        lines += [f"options cgpu_km {words}"]
    return "\n".join(lines) + "\n"


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
