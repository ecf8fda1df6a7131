# SPDX-License-Identifier: Apache-2.0
"""The daemon's files, all below one directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cgpu import paths
from cgpu.errors import CgpuError


@dataclass(frozen=True, slots=True)
class Places:
    """Paths below the run directory."""

    run: Path = Path(paths.RUN)

    def _at(self, standard: str) -> Path:
        return self.run / Path(standard).name

    @property
    def effective(self) -> Path:
        """The configuration in force."""
        return self._at(paths.EFFECTIVE)

    @property
    def control(self) -> Path:
        """Control socket."""
        return self._at(paths.CONTROL_SOCKET)

    @property
    def seccomp(self) -> Path:
        """Socket for listeners."""
        return self._at(paths.SECCOMP_SOCKET)

    @property
    def keeper(self) -> Path:
        """Notify socket of the keeper."""
        return self._at(paths.KEEPER_SOCKET)

    @property
    def cdi(self) -> Path:
        """What containers are given."""
        return self._at(paths.CDI)

    @property
    def pid(self) -> Path:
        """Process id of the daemon."""
        return self._at(paths.PID)

    @property
    def started(self) -> Path:
        """Process id of the daemon, and when it started."""
        return self._at(paths.STARTED)

    @property
    def daemon(self) -> tuple[Path, Path]:
        """What names the daemon's process."""
        return self.pid, self.started

    @property
    def sim(self) -> Path:
        """Nodes of simulated cards."""
        return self._at(paths.SIM)

    @property
    def next_tree(self) -> Path:
        """Where a daemon that takes over prepares its tree."""
        return self.run / "next-tree"

    @property
    def driver(self) -> Path:
        """Which unknown driver has passed its check."""
        return self.run / "driver-passed.json"

    @property
    def lock(self) -> Path:
        """Held by the one daemon or keeper."""
        return self.run / "cgpud.lock"

    @property
    def runs(self) -> Path:
        """Held by every `cgpu run`."""
        return self._at(paths.RUNS_LOCK)

    @property
    def log(self) -> Path:
        """Messages of a daemon in the background, in a machine without a journal."""
        return self.run / "cgpud.log"

    def make(self) -> None:
        """Make the directory, only for root. Raises CgpuError."""
        try:
            self.run.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.run.chmod(0o700)
        except OSError as error:
            raise CgpuError(f"{self.run}: cannot be made: {error.strerror}; cgpud runs as root") from error
