# SPDX-License-Identifier: Apache-2.0
"""An engine that `cgpu run` has started ends by itself when no run and no container needs it.

Every `cgpu run` holds a lock on one file, shared, for as long as it lives. Whoever has the whole lock knows
that none does, and that none begins meanwhile: the daemon keeps it to its end.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from cgpu.errors import CgpuError

if TYPE_CHECKING:
    from pathlib import Path

GRACE_S = 3.0  # for the run that has started us to take its lock


class Runs:
    """The lock of the runs, as the daemon sees it."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises CgpuError."""
        self._since = time.monotonic()
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise CgpuError(f"{path}: cannot be opened: {error.strerror}") from error

    def are_over(self) -> bool:
        """Return whether no run needs the engine; from then on none can begin until this process ends."""
        if time.monotonic() - self._since < GRACE_S:
            return False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
