# SPDX-License-Identifier: Apache-2.0
"""The self-test of a driver that is not in the table, at each start of the daemon.

The daemon records a passed test beside its state. The record counts only while containers run already:
their memory on a card can make a check fail that has passed before, and their calls would wait for ever.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cgpu import paths
from cgpu.check_driver.run import CheckError, Outcome, assure_unknown
from cgpu.errors import CgpuError
from cgpu.files import open_nofollow
from cgpu.replace import replace_text

log = logging.getLogger(__name__)

BOOT = Path("/proc/sys/kernel/random/boot_id")
RECORD_MAX = 1024
FOREIGN = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Checked:
    """An unknown driver that may be used.

    failure: why it does not pass now, where it did before; then only for containers that run already.
    """

    driver: str
    failure: CheckError | None = None


def check(root: str, record: Path, rows: str = "", *, taken_up: bool) -> Checked | None:
    """Return the unknown driver that may be used; None: table or rows have it. Raises CgpuError.

    record: the file of what has passed. taken_up: there is a state with containers that need this daemon.
    """
    try:
        outcome = assure_unknown(root, rows)
    except CheckError as error:
        found = error.outcome
        if not taken_up or found is None or not _has_recorded(record, _passed(found, root)):
            raise
        return Checked(found.driver, error)
    if outcome.known:
        return None
    skipped = ", ".join(f"{one.card}: {one.name}" for one in outcome.with_verdict("skipped"))
    log.warning(
        "driver %s is not in the table: %d checks passed with the layouts of %s%s",
        outcome.driver,
        len(outcome.with_verdict("passed")),
        outcome.table,
        f"; skipped: {skipped}" if skipped else "",
    )
    replace_text(record, _passed(outcome, root))
    return Checked(outcome.driver)


def expect(status: Mapping[str, str | int], checked: Checked | None, *, containers: int) -> None:
    """Raise CgpuError when the engine has met an unknown driver that is not the one checked.

    Also when that one failed and there is no container to serve.
    """
    if status["layout"] == "nearest" and (checked is None or status["driver"] != checked.driver):
        raise CgpuError(
            f"driver version {status['driver']} is unknown and was loaded after the check; "
            f"start anew: {paths.daemon_command('start')}"
        )
    if checked is None or checked.failure is None:
        return
    if containers == 0:
        raise checked.failure
    log.warning(
        "%s; serving all the same: it passed earlier in this boot, and %d containers count on it",
        checked.failure,
        containers,
    )


def _passed(outcome: Outcome, root: str) -> str:
    """Return the record of a driver that has passed: with the version whose layouts it has, and the boot."""
    boot = BOOT.read_text().strip()
    return json.dumps({"driver": outcome.driver, "table": outcome.table, "dev": root, "boot": boot}) + "\n"


def _has_recorded(record: Path, passed: str) -> bool:
    """Tell whether a file of root's, which nobody else writes, is this record."""
    try:
        fd = open_nofollow(record)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as stream:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & FOREIGN:
            return False
        return stream.read(RECORD_MAX + 1) == passed.encode()
