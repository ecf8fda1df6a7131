# SPDX-License-Identifier: Apache-2.0
"""The hook in Python: for hooks.d, where no wrapper has written a line, and to record what was refused.

The hook in C (cgpu_hook.c) starts this as `start.py STAGE`, with the OCI state on standard input, or as
`start.py refused LINE MESSAGE`.
"""

from __future__ import annotations

import os
import sys

from cgpu import paths
from cgpu.client.tree import EngineDownError, Tree
from cgpu.config import effective
from cgpu.errors import LINE_START, CgpuError, one_line, show
from cgpu.hook import event_log, log
from cgpu.hook.state import read_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.hook.state import State

START = ("prestart", "createRuntime")
USAGE = "expected: cgpu-hook prestart|createRuntime|poststop [TREE LINE]"


def main(argv: Sequence[str] | None = None, config_path: str = paths.EFFECTIVE, fd: int = 0) -> int:
    """Run one stage and return the exit status: 0, or 1 after one line on standard error.

    argv is without the program's name. The parameters config_path and fd are for tests.
    """
    arguments = sys.argv[1:] if argv is None else argv
    stage = arguments[0] if arguments else ""
    if stage == "poststop":
        return _stop(config_path, fd)
    if stage == "refused" and len(arguments) == 3:
        return _record(arguments[1], arguments[2], config_path)
    seen = Seen()
    try:
        if stage not in START or len(arguments) > 1:
            raise CgpuError(f"stage {show(' '.join(arguments))}: {USAGE}")
        _start(config_path, fd, seen)
    except log.LoggableError as error:
        return _refused(seen, str(error), str(error))
    except CgpuError as error:
        # The message may have a value of the container's environment: for its owner, and not for the log.
        return _refused(seen, str(error), "refused, the runtime shows why")
    except Exception as error:
        # After any other error the container must not start with the whole GPU either; one line says why.
        return _refused(seen, f"unexpected {type(error).__name__}: {error}", "unexpected error")
    return 0


class Seen:
    """Facts of a container that is refused, for the message."""

    __slots__ = ("form", "state")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.state: State | None = None
        self.form = "text"


def _start(config_path: str, fd: int, seen: Seen) -> None:
    # poststop and a refusal need nothing of this.
    from cgpu.hook.register import register

    seen.state = state = read_state(fd)
    config = effective.load(config_path)
    seen.form = config.log_format
    register(state, config)


def _refused(seen: Seen, message: str, logged: str) -> int:
    if seen.state is not None:
        state = seen.state
        event_log.refused(state.id, state.bundle, state.annotations, (), message)
    return _failed("-" if seen.state is None else seen.state.id, message, logged, seen.form)


def _record(line: str, message: str, config_path: str) -> int:
    """Record a container that was refused with its line; the hook in C has said why, in these words."""
    words = [word.partition("=")[::2] for word in line.split(" ")]
    container = dict(words).get("id", "-")
    grants = [tuple(map(int, value.split(":"))) for key, value in words if key == "gpu"]
    # The wrapper has written the container's name to the event log.
    event_log.refused(container, "", {}, grants, message)
    log.event(log.ERROR, container, message, _log_format(config_path))
    return 1


def _log_format(config_path: str) -> str:
    try:
        return effective.load(config_path).log_format
    except CgpuError:
        return "text"


def _stop(config_path: str, fd: int) -> int:
    """Remove the registration; a second call is no error. Also where the engine did not take C's line."""
    container, form = "-", "text"
    try:
        container = read_state(fd).id
        config = effective.load(config_path)
        form = config.log_format
        Tree(paths.tree(config.tree)).destroy(container)
    except EngineDownError as error:
        # When it starts, it drops containers whose processes have ended.
        words = f"not removed now, the engine will when it is back: {error}"
        log.event(log.WARNING, container, words, form)
    except Exception as error:
        # The container has ended: a failure here would only prevent its runtime from cleaning up.
        _failed(container, str(error), f"not removed: {type(error).__name__}", form)
    return 0


def _failed(container: str, message: str, logged: str, form: str) -> int:
    try:
        os.write(2, f"{LINE_START}{one_line(message)}\n".encode("ascii", "backslashreplace"))
    except OSError:
        logged += " (no standard error)"
    log.event(log.ERROR, container, logged, form)
    return 1
