# SPDX-License-Identifier: Apache-2.0
"""poststop: remove the container's registration."""

from __future__ import annotations

from cgpu import paths
from cgpu.client.tree import EngineDownError, Tree
from cgpu.hook import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cgpu.config.effective import Effective


def unregister(container: str, config: Effective) -> None:
    """Remove the registration; a second call is no error. Needs no bundle. Raises CgpuError.

    An engine that is down is no error: when it starts, it drops containers whose processes have ended.
    """
    try:
        Tree(paths.tree(config.tree)).destroy(container)
    except EngineDownError as error:
        log.event(log.WARNING, container, f"not removed now, the engine will when it is back: {error}")
    else:
        log.event(log.INFO, container, "removed")
