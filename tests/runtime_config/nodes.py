# SPDX-License-Identifier: Apache-2.0
"""Machines for editors: a root folder with settings, and programs that say which version they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cgpu.runtime_config import files
from cgpu.runtime_config.engines.containerd import Containerd
from cgpu.runtime_config.engines.crio import Crio
from cgpu.runtime_config.engines.docker import Docker
from cgpu.runtime_config.engines.engine import Editor, Wish
from cgpu.runtime_config.engines.hooks import Hooks
from cgpu.runtime_config.engines.nvidia import Nvidia
from cgpu.runtime_config.engines.podman import Podman

RUNTIME = Path("/usr/lib/cgpu/cgpu-container-runtime")
WISH = Wish(RUNTIME)
DEFAULT = Wish(RUNTIME, default=True)
PROGRAMS = {
    "docker": "dockerd",
    "containerd": "containerd",
    "crio": "crio",
    "podman": "podman",
    "nvidia": "nvidia-container-runtime",
    "hooks": "podman",
}

# Paths below the root.
DAEMON_JSON = "etc/docker/daemon.json"
CONFIG_TOML = "etc/containerd/config.toml"
DROP_IN = "etc/containerd/conf.d/99-cgpu.toml"
CRIO = "etc/crio/crio.conf.d/99-cgpu.conf"
CONTAINERS_CONF = "etc/containers/containers.conf"
PODMAN_DROP_IN = "etc/containers/containers.conf.d/99-cgpu.conf"
NVIDIA = "etc/nvidia-container-runtime/config.toml"
MAIN = {
    "docker": (DAEMON_JSON, ""),
    "containerd": (CONFIG_TOML, "1.6.20"),
    "crio": ("etc/crio/crio.conf", "1.30.0"),
    "podman": (CONTAINERS_CONF, "3.4.4"),
    "nvidia": (NVIDIA, "1.17.0"),
}


@dataclass(frozen=True)
class Machine:
    """A root folder and its programs."""

    base: Path

    @property
    def root(self) -> Path:
        """Return the root folder."""
        return self.base / "root"

    def program(self, name: str, script: str) -> Path:
        """Make a program out of shell lines."""
        path = self.base / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def editor(self, name: str, version: str | None = None) -> Editor:
        """Return an engine's editor; the engine is there when a version is given."""
        if version is not None:
            self.program(PROGRAMS[name], f'echo "{PROGRAMS[name]} version {version}"')
        search = (str(self.base / "bin"),)
        made: dict[str, Editor] = {
            "docker": Docker(search=search),
            "containerd": Containerd(search=search),
            "crio": Crio(search=search),
            "podman": Podman(search=search),
            "nvidia": Nvidia(search=search),
            "hooks": Hooks(search=search),
        }
        return made[name]

    def write(self, path: str, content: str | bytes) -> Path:
        """Make a file below the root."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def read(self, path: str) -> str:
        """Return the text of a file below the root."""
        return (self.root / path.lstrip("/")).read_bytes().decode()

    def add(self, editor: Editor, wish: Wish = WISH) -> None:
        """Add the runtime to an engine's settings."""
        files.apply(editor.plan_add(self.root, wish))

    def remove(self, editor: Editor) -> None:
        """Take it out."""
        files.apply(editor.plan_remove(self.root))

    def state(self) -> Mapping[str, bytes]:
        """Return every file below the root but copies of originals."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(found)
            if not path.name.endswith(files.BACKUP_SUFFIX)
        }
