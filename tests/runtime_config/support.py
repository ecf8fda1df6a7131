# SPDX-License-Identifier: Apache-2.0
"""Parts of the wrapper's tests: specs, cards, the engine's CDI, a launcher of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cgpu.config.effective import Effective
from cgpu.request.resolve import Allocation
from cgpu.runtime_config.oci_runtime.cdi import Description
from cgpu.runtime_config.oci_runtime.edit import Node
from cgpu.runtime_config.oci_runtime.lowlevel import low_level
from tests.client.support import uuid
from tests.hook.support import write_bundle

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "runtime_config" / "launcher"
OCI_RUNTIME = ROOT / "runtime_config" / "oci_runtime"
SANITIZERS = ("-fsanitize=address,undefined",)
MIB = 1 << 20
UUID, OTHER = uuid(0), uuid(1)
REQUEST = Allocation(((0, 6043 * MIB, 1, 0),), (), (UUID,))
ASKING = ("ALIYUN_COM_GPU_MEM_CONTAINER=6", "ALIYUN_COM_GPU_MEM_DEV=15")

JsonObject = dict[str, Any]


def program(path: Path, script: str = "") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def spec(*variables: str, **more: object) -> JsonObject:
    document: JsonObject = {
        "ociVersion": "1.0.2",
        "process": {"args": ["/bin/true"], "cwd": "/", "env": ["PATH=/bin", *variables]},
        "root": {"path": "rootfs"},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": "mount"}]},
    }
    return {**document, **more}


def description(*, vendor: bool = False, **device: object) -> Description:
    """Return the engine's description of two cards that are files."""
    return Description(cdi_document(vendor=vendor, **device))


def cdi_document(*, vendor: bool = False, **device: object) -> JsonObject:
    """Return the CDI document of two cards; device replaces the edits of both."""
    return {
        "cdiVersion": "0.6.0",
        "kind": "opencgpu.io/gpu",
        "annotations": {"opencgpu.io/vendor-toolkit": "true" if vendor else "false"},
        "containerEdits": {"mounts": [mount("nvidiactl")]},
        "devices": [
            {"name": name, "containerEdits": device or {"mounts": [mount(f"nvidia{index}")]}}
            for index, uuid in enumerate((UUID, OTHER))
            for name in (str(index), uuid)
        ],
    }


def mount(name: str) -> JsonObject:
    return {"hostPath": f"/run/cgpu/sim/{name}", "containerPath": f"/dev/{name}", "options": ["bind", "rw"]}


def node(cdi: Description | None = None, **facts: object) -> Node:
    """Return a node with the daemon engine and files as cards."""
    values: dict[str, Any] = {"config": Effective(), "listener": True, "tree": "/run/cgpu_km", **facts}
    return Node(description=cdi or description(), **values)


def compile_launcher(program: Path, options: Sequence[str] = SANITIZERS, **values: str | Path | int) -> None:
    """Compile the launcher with other places and times than its own."""
    defines = [
        f"-D{name}={value}" if isinstance(value, int) else f'-D{name}="{value}"'
        for name, value in values.items()
    ]
    flags = ["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", *options]
    subprocess.run(["cc", *flags, *defines, "-o", program, *sorted(SOURCES.glob("*.c"))], check=True)


class Launcher:
    """A launcher built with paths of its own, and a low-level runtime that only records how it was called."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.program = base / "package" / "launcher" / "cgpu-container-runtime"
        # The launcher by its name for NVIDIA's list.
        self.low_level = Path(low_level(str(self.program)))
        # The folder of the simulated cards' files, which is not there yet.
        self.simulated_cards = base / "cards" / "sim"
        # The engine's link to the low-level runtime; with .plain at its end to one that never calls us.
        self.link = base / "low-level-runtime"
        self.bin = base / "bin"

    def build(self, python: str | None = None) -> Launcher:
        """Compile the launcher; python is what it starts in Python's place."""
        self.program.parent.mkdir(parents=True)
        self.bin.mkdir()
        self.low_level.symlink_to(self.program.name)
        (self.program.parent.parent / "oci_runtime").symlink_to(OCI_RUNTIME)
        if python is None:
            python = str(self.tool("python", self.base / "bin"))
        paths: dict[str, str | Path] = {
            "CGPU_LINK_PATH": self.link,
            "CGPU_SIM_PATH": self.simulated_cards,
            "CGPU_PYTHON": python,
        }
        compile_launcher(self.program, SANITIZERS, CGPU_SERVER_PATH=self.base / "server.sock", **paths)
        return self

    def tool(self, name: str, directory: Path | None = None) -> Path:
        """Make a program that notes its name and how it was called."""
        path = (directory or self.bin) / name
        path.unlink(missing_ok=True)
        notes = f'printf "%s\\0" {name} "$@" >>{self.base}/calls\nenv -0 >{self.base}/env'
        return program(path, notes)

    def lead_to(self, runtime: Path | None, plain: Path | None = None) -> None:
        """Have the engine's links lead to these runtimes; None: there is no link. plain: as the other."""
        for end, target in (("", runtime), (".plain", plain or runtime)):
            link = self.link.with_name(self.link.name + end)
            link.unlink(missing_ok=True)
            if target is not None:
                link.symlink_to(target)

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> list[str]:
        """Run the launcher; return the name of what it started and its arguments."""
        (self.base / "calls").unlink(missing_ok=True)
        done = subprocess.run(
            [str(self.program), *arguments],
            env=dict(env or {}),
            cwd=cwd,
            capture_output=True,
            check=False,
            timeout=240,
        )
        calls = self.base / "calls"
        if not calls.exists():
            return [f"status {done.returncode}", done.stderr.decode()]
        return calls.read_text().rstrip("\0").split("\0")

    def environment(self) -> list[str]:
        return (self.base / "env").read_text().rstrip("\0").split("\0")

    def bundle(self, document: object) -> Path:
        return write_bundle(self.base, document)
