# SPDX-License-Identifier: Apache-2.0
"""How many descriptors a process of the daemon may have: the listeners of all containers are among them."""

from __future__ import annotations

import resource


def allow_all() -> None:
    """Let this process, and what it starts, have as many as the machine lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
