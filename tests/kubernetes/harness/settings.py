# SPDX-License-Identifier: Apache-2.0
"""Settings of this run by scripts/test-kubernetes: programs, version, cgroup and where logs go."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import Server

PREFIX = "CGPU_KUBERNETES"
# Features that a version has, and leaves off.
FEATURES = {
    "1.34": ("DRAConsumableCapacity", "DRADeviceTaints", "DRAExtendedResource", "ResourceHealthStatus")
}
API_GROUPS = {"1.34": ("resource.k8s.io/v1alpha3",)}


@dataclass(frozen=True)
class Settings:
    programs: Path
    version: str
    cgroup: str
    logs: Path
    #: whether features are on that this version leaves off
    features_on: bool = True

    @classmethod
    def of_environment(cls) -> Settings | None:
        """Return the settings of the script that this runs in, None outside."""
        if PREFIX not in os.environ:
            return None
        version, cgroup, logs = (os.environ[f"{PREFIX}_{word}"] for word in ("VERSION", "CGROUP", "LOGS"))
        features_on = os.environ.get(f"{PREFIX}_GATES") != "off"
        return cls(Path(os.environ[PREFIX]), version, cgroup, Path(logs), features_on)

    def program(self, name: str) -> list[str]:
        return [f"{self.programs}/cluster", name]

    def kubectl(self) -> Path:
        return self.programs / "kubectl"

    def component(
        self,
        name: str,
        flags: Sequence[str],
        ready: Callable[[], object],
        env: Mapping[str, str] | None = None,
    ) -> Server:
        return Server(name, [*self.program(name), *flags], self.logs / f"{name}.log", ready, env)

    @property
    def features(self) -> Sequence[str]:
        return FEATURES.get(self.version, ()) if self.features_on else ()

    def feature_flags(self) -> list[str]:
        return (
            [f"--feature-gates={','.join(f'{name}=true' for name in self.features)}"] if self.features else []
        )

    def api_flags(self) -> list[str]:
        served = API_GROUPS.get(self.version, ()) if self.features_on else ()
        groups = [f"--runtime-config={group}=true" for group in served]
        return [*groups, *self.feature_flags()]
