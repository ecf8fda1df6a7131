# SPDX-License-Identifier: Apache-2.0
"""A made-up clone of the driver's sources: small headers, in the places of NVIDIA's, at a few tags."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cgpu.kmod.abi.clone import Clone
from cgpu.kmod.abi.extract import COMMON

SDK = "src/common/sdk/nvidia/inc"
CALLS = "src/nvidia/arch/nvalloc/unix/include/nv_escape.h"
CONTROLS = f"{SDK}/ctrl/ctrl2080.h"
NODES = "kernel-open/nvidia/nv.c"
FILES = {
    f"{SDK}/nvtypes.h": "typedef unsigned int NvU32;\ntypedef unsigned long long NvU64;\n",
    f"{SDK}/nvstatus.h": "#define NV_OK 0x00000000\n",
    COMMON: "#pragma once\ntypedef struct { NvU32 hRoot; NvU32 status; } FREE_PARAMETERS;\n",
    CALLS: "#define NV_ESC_RM_FREE 0x29\n",
    CONTROLS: (
        '#define NV2080_CTRL_CMD_CLOCK (0x20800101) /* finn: Evaluated from "(X << 8)" */\n'
        "#define NV2080_CTRL_FLAGS_FAST 3:1\n"
    ),
    "src/nvidia/inc/kernel/rmapi/control.h": "#define RMCTRL_FLAGS_PRIVILEGED 0x1\n",
    NODES: (
        "/* Opens a node, unlike nv_close() { */\n"
        "static nv_file_t *\nnv_open(\n    struct inode *inode, // of the node\n    int flags\n)\n{\n"
        "    if (nv_is_open(inode)) {\n        return 0;\n    }\n}\n"
    ),
    "kernel-open/nvidia-uvm/uvm_ioctl.h": "#define UVM_FREE UVM_IOCTL_BASE(34)\n",
}
OPEN = "static nv_file_t *nv_open(struct inode *inode, int flags)"
ENVIRONMENT = {
    **{f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def make_clone(path: Path, versions: Mapping[str, Mapping[str, str]]) -> Clone:
    """Make a repository with a tag for each version: the files above, with the changes up to it."""

    def git(*arguments: str) -> None:
        environment = os.environ | ENVIRONMENT
        subprocess.run(["git", "-C", str(path), *arguments], check=True, env=environment, capture_output=True)

    path.mkdir()
    git("init")
    files = dict(FILES)
    for tag, changes in versions.items():
        files.update(changes)
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        git("add", ".")
        git("commit", "--allow-empty", "-m", tag)
        git("tag", tag)
    return Clone(path)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables that know version 1.10.01 of the made-up driver."""
    folder = tmp_path / "tables"
    folder.mkdir()
    layout = {"first": "1.10.01", "size": 8, "fields": {"hRoot": [0, 4], "status": [4, 4]}}
    written = {
        "nvidia.json": {
            "about": "made up",
            "tags": ["1.10.01"],
            "escapes": {"NV_ESC_RM_FREE": {"nr": 41, "source": f"{CALLS}:1"}},
            "structs": {"FREE_PARAMETERS": {"source": f"{COMMON}:1", "layouts": [layout]}},
            "functions": {
                "nv_open": {"source": NODES, "prototypes": [{"first": "1.10.01", "prototype": OPEN}]}
            },
            "constants": {"NV2080_CTRL_FLAGS_FAST": {"value": "3:1", "source": f"{CONTROLS}:2"}},
        },
        "card.json": {"about": "made up", "structs": {}},
        "controls.json": {"controls": {"0x20800101": {"verdict": "pass"}}},
        "classes.json": {"classes": {}},
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content))
    return folder
