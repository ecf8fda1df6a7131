# SPDX-License-Identifier: Apache-2.0
"""The hook: `cgpu-hook STAGE [--grant GPU:BYTES:WEIGHT:PRIORITY]... [--native GPU]...`, OCI state on stdin.

A container with shares has `cgpu-hook STAGE --share ID...`.

The hook runs at every start of a container, so each import costs every start: `make bench` measures it.
"""

from __future__ import annotations

import os
import sys

from cgpu import paths
from cgpu.config import effective
from cgpu.errors import LINE_START, CgpuError, one_line, show
from cgpu.hook import log
from cgpu.hook.register import RegistrationError, register, unregister
from cgpu.hook.state import read_state
from cgpu.request.grants import parse_grant, parse_index, parse_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.hook.state import State
    from cgpu.request.grants import Grant

START = ("prestart", "createRuntime")
USAGE = (
    "expected: cgpu-hook prestart|createRuntime|poststop [--grant GPU:BYTES:WEIGHT:PRIORITY]... "
    "[--native GPU]... | --share ID..."
)


def main(argv: Sequence[str] | None = None, config_path: str = paths.EFFECTIVE, fd: int = 0) -> int:
    """Run one stage and return the exit status: 0, or 1 after one line on standard error.

    argv is without the program's name. The parameters config_path and fd are for tests.
    """
    arguments = sys.argv[1:] if argv is None else argv
    stage = arguments[0] if arguments else ""
    if stage == "poststop":
        return _stop(config_path, fd)
    seen = Seen()
    try:
        if stage not in START:
            raise CgpuError(f"stage {show(stage)}: {USAGE}")
        _start(arguments[1:], config_path, fd, seen)
    except RegistrationError as error:
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

    __slots__ = ("form", "grants", "state")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.grants: list[Grant] = []
        self.state: State | None = None
        self.form = "text"


def _start(arguments: Sequence[str], config_path: str, fd: int, seen: Seen) -> None:
    seen.grants, passthrough, shares = _gpus(arguments)
    seen.state = state = read_state(fd)
    config = effective.load(config_path)
    seen.form = config.log_format
    register(state, seen.grants, passthrough, shares, config)


def _refused(seen: Seen, message: str, logged: str) -> int:
    if seen.state is not None:
        from cgpu.hook import event_log

        state = seen.state
        event_log.refused(state.id, state.bundle, state.annotations, seen.grants, message)
    return _failed("-" if seen.state is None else seen.state.id, message, logged, seen.form)


def _stop(config_path: str, fd: int) -> int:
    container, form = "-", "text"
    try:
        container = read_state(fd).id
        config = effective.load(config_path)
        form = config.log_format
        unregister(container, config)
    except Exception as error:
        # The container has ended: a failure here would only prevent its runtime from cleaning up.
        _failed(container, str(error), f"not removed: {type(error).__name__}", form)
    return 0


def _gpus(arguments: Sequence[str]) -> tuple[list[Grant], list[int], list[str]]:
    grants: list[Grant] = []
    passthrough: list[int] = []
    shares: list[str] = []
    for flag, text in zip(arguments[::2], [*arguments[1::2], ""], strict=False):
        if flag == "--grant":
            grants.append(parse_grant(text))
        elif flag == "--native":
            passthrough.append(parse_index("--native", text))
        elif flag == "--share":
            shares.append(parse_share("--share", text))
        else:
            raise CgpuError(f"argument {show(flag)}: {USAGE}")
    if passthrough and not grants:
        raise CgpuError(f"argument --native: {USAGE}")
    if shares and grants:
        raise CgpuError(f"argument --share: {USAGE}")
    return grants, passthrough, shares


def _failed(container: str, message: str, logged: str, form: str = "text") -> int:
    try:
        os.write(2, f"{LINE_START}{one_line(message)}\n".encode("ascii", "backslashreplace"))
    except OSError:
        logged += " (no standard error)"
    log.event(log.ERROR, container, logged, form)
    return 1
