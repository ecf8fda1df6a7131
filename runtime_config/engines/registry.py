# SPDX-License-Identifier: Apache-2.0
"""All container engines, by the names that --runtimes and cgpu-runtime-config take."""

from __future__ import annotations

from cgpu.runtime_config.engines.containerd import Containerd
from cgpu.runtime_config.engines.crio import Crio
from cgpu.runtime_config.engines.docker import Docker
from cgpu.runtime_config.engines.engine import ContainerEngine
from cgpu.runtime_config.engines.hooks import Hooks
from cgpu.runtime_config.engines.nodes import KINDS
from cgpu.runtime_config.engines.nvidia import Nvidia
from cgpu.runtime_config.engines.podman import Podman

ALL: tuple[ContainerEngine, ...] = (Docker(), Containerd(), *KINDS, Crio(), Podman(), Nvidia(), Hooks())
ENGINES: dict[str, ContainerEngine] = {engine.name: engine for engine in ALL}
