# SPDX-License-Identifier: Apache-2.0
"""The message that a runtime sends with a seccomp listener: the OCI container process state.

https://github.com/opencontainers/runtime-spec/blob/v1.2.0/config-linux.md#the-container-process-state
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from cgpu.errors import CgpuError, show

MAX_BYTES = 1 << 20
FD_NAME = "seccompFd"
MAX_PID = 1 << 22
ID = re.compile(r"[A-Za-z0-9_+.-]{1,127}")


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The container a listener belongs to, and which of the descriptors sent along is the listener.

    pid: of the process that has the filter; 0 where the message does not say.
    """

    container_id: str
    listener: int
    pid: int = 0


def parse(text: bytes, descriptors: int) -> ProcessState:
    """Read the message. descriptors: how many came with it. Raises CgpuError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CgpuError("the listener's message is not JSON") from error
    if not isinstance(document, dict):
        raise CgpuError("the listener's message is no object")
    state, names = document.get("state"), document.get("fds")
    container_id = state.get("id") if isinstance(state, dict) else None
    if not isinstance(container_id, str) or not ID.fullmatch(container_id):
        raise CgpuError(f"the listener's message names no container: {show(container_id)}")
    pid = document.get("pid")
    if not isinstance(pid, int) or not 0 < pid <= MAX_PID:
        pid = 0
    return ProcessState(container_id, _index(names, descriptors), int(pid))


def complete(text: bytes) -> bool:
    """Tell whether the message has come whole: runtimes may send it in parts."""
    stripped = text.rstrip()
    if not stripped.endswith(b"}"):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _index(names: Any, descriptors: int) -> int:
    if not isinstance(names, list) or names.count(FD_NAME) != 1:
        raise CgpuError(f"the listener's message does not say which descriptor is {FD_NAME}")
    index = names.index(FD_NAME)
    if len(names) != descriptors or index >= descriptors:
        raise CgpuError(f"the listener's message names {len(names)} descriptors and brings {descriptors}")
    return int(index)
