# SPDX-License-Identifier: Apache-2.0
"""The self-test of a driver that is not in the table, at each start of the daemon. Nothing is remembered."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from cgpu import paths
from cgpu.check_driver.run import assure_unknown
from cgpu.errors import CgpuError

log = logging.getLogger(__name__)


def check(root: str) -> str | None:
    """Return the version of an unknown driver that has passed; None: it is in the table. Raises CgpuError."""
    outcome = assure_unknown(root)
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
    return outcome.driver


def expect(status: Mapping[str, str | int], checked: str | None) -> None:
    """Raise CgpuError when the engine has met an unknown driver that is not the one checked."""
    if status["layout"] == "nearest" and status["driver"] != checked:
        raise CgpuError(
            f"driver version {status['driver']} is unknown and was loaded after the check; "
            f"start anew: {paths.daemon_command('start')}"
        )
