# SPDX-License-Identifier: Apache-2.0
"""poststop: take the container's registration away."""

from __future__ import annotations

from cgpu import paths
from cgpu.client.tree import EngineDownError, Tree
from cgpu.hook import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cgpu.config.effective import Effective


def unregister(container: str, config: Effective) -> None:
    """Remove the registration, as often as asked. Needs no bundle. Raises CgpuError.

    An engine that is down is no error: it drops a container whose processes are gone when it is back.
    """
    try:
        Tree(paths.tree(config.tree)).destroy(container)
    except EngineDownError as error:
        log.event(log.WARNING, container, f"not removed now, the engine will when it is back: {error}")
    else:
        log.event(log.INFO, container, "removed")
