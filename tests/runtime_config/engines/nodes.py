# SPDX-License-Identifier: Apache-2.0
"""Machines for container engines: a root folder with settings, and programs that print their versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cgpu.runtime_config import files
from cgpu.runtime_config.engines import nvidia
from cgpu.runtime_config.engines.engine import ContainerEngine, Desired
from cgpu.runtime_config.engines.podman import Podman
from cgpu.runtime_config.engines.registry import ENGINES
from tests.runtime_config.support import program

RUNTIME = Path("/usr/lib/cgpu/cgpu-container-runtime")
DESIRED = Desired(RUNTIME)
DEFAULT = Desired(RUNTIME, default=True)
# Engine without a program of its own.
PROGRAMS = {"nvidia": nvidia.PROGRAM, "hooks": Podman.program}

# Paths below the root.
DAEMON_JSON = "etc/docker/daemon.json"
CONFIG_TOML = "etc/containerd/config.toml"
DROP_IN = "etc/containerd/conf.d/99-cgpu.toml"
CRIO = "etc/crio/crio.conf.d/99-cgpu.conf"
CONTAINERS_CONF = "etc/containers/containers.conf"
PODMAN_DROP_IN = "etc/containers/containers.conf.d/99-cgpu.conf"
NVIDIA = "etc/nvidia-container-runtime/config.toml"
#: the first file of each engine, and a version that edits this one, if any does
MAIN = {
    name: one.settings_files[0].lstrip("/")
    for name, one in ENGINES.items()
    if one.settings_files and not one.is_part
}
OLD = {**dict.fromkeys(MAIN, "1.0"), "podman": "4.0"}


@dataclass(frozen=True)
class Machine:
    base: Path

    @property
    def root(self) -> Path:
        return self.base / "root"

    def program(self, name: str, script: str) -> Path:
        return program(self.base / "bin" / name, script)

    def engine(self, name: str, version: str | None = None) -> ContainerEngine:
        """Return an engine of this machine; its program is there when a version is given."""
        made = ENGINES[name]
        if version is not None:
            its = made.program or PROGRAMS[name]
            self.program(its, f'echo "{its} version {version}"')
        return replace(made, search=(str(self.base / "bin"),))

    def write(self, path: str, content: str | bytes) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_bytes().decode()

    def add(self, engine: ContainerEngine, desired: Desired = DESIRED) -> None:
        files.apply(engine.plan_add(self.root, desired))

    def remove(self, engine: ContainerEngine) -> None:
        files.apply(engine.plan_remove(self.root))

    def state(self) -> Mapping[str, bytes]:
        """Return every file below the root."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in sorted(found)}
