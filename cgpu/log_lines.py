# SPDX-License-Identifier: Apache-2.0
"""Log lines with fields: a JSON object, or an entry of systemd's journal. The hook has them, too.

The fields are called as in the event log: id (of the container), gpu, uuid, memsize and so on.
"""

from __future__ import annotations

import time

from cgpu import paths
from cgpu.client.directory import directory_of
from cgpu.errors import one_line
from cgpu.events.append import rfc3339
from cgpu.fastjson import flat_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# By severity, as syslog(3) has them.
LEVELS = {3: "error", 4: "warning", 6: "info", 7: "debug"}
# Names that docker and podman give to these in the journal; others are the same in capitals.
JOURNAL_NAMES = {"id": "CONTAINER_ID_FULL", "name": "CONTAINER_NAME", "uuid": "GPU_UUID"}


def as_json(level: int, component: str, message: str, fields: Mapping[str, str | int]) -> str:
    """Return a line that is one JSON object."""
    head = {"time": rfc3339(time.time_ns()), "level": LEVELS.get(level, "error"), "component": component}
    return flat_object({**head, "message": message, **fields})


def to_journal(level: int, component: str, message: str, fields: Mapping[str, str | int]) -> bool:
    """Send an entry to the journal by its native protocol; False where it does not take it at once."""
    from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_DGRAM, socket

    entry = {"PRIORITY": level, "SYSLOG_IDENTIFIER": component, "MESSAGE": message}
    named = {JOURNAL_NAMES.get(key, key.upper()): value for key, value in fields.items()}
    if "id" in fields:
        named["CONTAINER_ID"] = directory_of(str(fields["id"]))
    # Each value is on one line, so that none of them can begin another field.
    data = "".join(f"{key}={one_line(str(value))}\n" for key, value in {**named, **entry}.items())
    try:
        sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC)
        try:
            sender.setblocking(False)
            sender.sendto(data.encode("ascii"), paths.JOURNAL)
        finally:
            sender.close()
    except OSError:
        return False
    return True
