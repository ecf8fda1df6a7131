# SPDX-License-Identifier: Apache-2.0
"""The daemon's files, all below one directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cgpu import paths
from cgpu.errors import CgpuError


@dataclass
class Places:
    """Paths below the run directory."""

    run: Path = Path(paths.RUN)

    def __post_init__(self) -> None:
        """Name the files."""
        run = self.run
        self.effective = run / Path(paths.EFFECTIVE).name  # the configuration in force
        self.refused = run / Path(paths.REFUSED).name  # why the last start refused the configuration
        self.events = run / Path(paths.EVENTS).name  # the event log
        self.control = run / Path(paths.CONTROL_SOCKET).name
        self.seccomp = run / Path(paths.SECCOMP_SOCKET).name  # the socket for listeners
        self.keeper = run / Path(paths.KEEPER_SOCKET).name  # the keeper's notify socket
        self.cdi = run / Path(paths.CDI).name  # containers' devices
        # Names of GPUs for --device. Container engines look at one place, which is the one daemon's.
        shared = run == Path(paths.RUN)
        self.cdi_devices = Path(paths.CDI_DEVICES) if shared else run / "cdi-devices.json"
        # Links to the runtime below the wrapper, which looks at one place as well.
        self.low_level = Path(paths.LOW_LEVEL) if shared else run / "low-level-runtime"
        self.low_level_plain = Path(paths.LOW_LEVEL_PLAIN) if shared else run / "low-level-runtime.plain"
        self.command = run / Path(paths.COMMAND).name  # by which a person has started the daemon
        self.pid = run / Path(paths.PID).name  # process id alone, for other programs
        self.started = run / Path(paths.STARTED).name  # names the daemon, with its start time
        self.sim = run / Path(paths.SIM).name  # nodes of simulated cards
        self.next_tree = run / "next-tree"  # where a daemon prepares its tree
        self.driver = run / "driver-passed.json"  # which unknown driver has passed its check
        self.lock = run / Path(paths.LOCK).name  # names the keeper, or the daemon that has none
        self.log = run / "cgpud.log"  # of a daemon in the background, on a machine without a journal

    def make(self) -> None:
        """Make the directory, only for root. Raises CgpuError."""
        try:
            self.run.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.run.chmod(0o700)
        except OSError as error:
            raise CgpuError(f"{self.run}: cannot be made: {error.strerror}; cgpud runs as root") from error
