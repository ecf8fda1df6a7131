# SPDX-License-Identifier: Apache-2.0
"""hooks.d: podman and CRI-O call our hook for containers with our annotations, whichever runtime they use.

Both watch the folder or read it at each call.

With the kernel module a registration is all that a limit needs. cgpud needs a seccomp listener in the bundle,
which a hook cannot add: there the hooks are refused, because nothing would limit a registered container.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit, below
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines.engine import ContainerEngine, Desired
from cgpu.runtime_config.files import changes, read_bytes
from cgpu.runtime_config.oci_runtime.edit import HOOK_ENV, HOOK_PATH

#: the one folder that both read by default
FOLDER = "/usr/share/containers/oci/hooks.d"
STAGES = ("prestart", "poststop")
ENGINES = ("podman", "crio")
TIMEOUT = 10  # seconds, as in hook_timeout's default


def document(stage: str) -> str:
    """Return a hook of that stage in the form of oci-hooks(5), version 1.0.0."""
    hook = {"path": HOOK_PATH, "args": ["cgpu-hook", stage], "env": [HOOK_ENV], "timeout": TIMEOUT}
    # Only where an annotation asks: no other container depends on this program.
    when = {"annotations": {r"^opencgpu\.io/": ".*"}}
    return json.dumps({"version": "1.0.0", "hook": hook, "when": when, "stages": [stage]}, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Hooks(ContainerEngine):
    """hooks.d: two files of our own."""

    by_request: ClassVar[bool] = True

    name: str = "hooks"
    folder: str = FOLDER

    def is_present(self, root: Path) -> bool:
        """Return whether the kernel module is the engine, and podman or CRI-O are there."""
        return _has_module(root) and any(programs.find(name, self.search) for name in ENGINES)

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        """Return the edits that add the hooks. Raises CgpuError without the kernel module."""
        if not _has_module(root):
            raise CgpuError(
                f"hooks: {paths.TREE_MODULE}: is not there, and without the kernel module a hook limits "
                "nothing: use the runtime cgpu, or load the module: modprobe cgpu_km"
            )
        return [edit for stage in STAGES for edit in self._change(root, stage, document(stage))]

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edits that take the hooks away. Raises CgpuError."""
        return [edit for stage in STAGES for edit in self._change(root, stage, None)]

    def _change(self, root: Path, stage: str, text: str | None) -> list[FileEdit]:
        path = below(root, f"{self.folder}/99-cgpu-{stage}.json")
        before = read_bytes(path, root)
        if before is not None and not _is_ours(before, stage):
            raise CgpuError(f"{path}: is there and was not added by this command: remove it first: rm {path}")
        return changes(path, before, text)


def _is_ours(written: bytes, stage: str) -> bool:
    """Return whether a file says what ours says, wherever our program was when it was written."""
    wanted = json.loads(document(stage))
    try:
        found = json.loads(written)
        return bool({**found, "hook": {**found["hook"], "path": HOOK_PATH}} == wanted)
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _has_module(root: Path) -> bool:
    return below(root, f"{paths.TREE_MODULE}/version").exists()
