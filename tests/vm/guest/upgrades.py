# SPDX-License-Identifier: Apache-2.0
"""Runs `cgpu upgrade` in the guest as often as it is told: Python starts once. JSON, a line each way.

In: words, the command line; or fix, what `cgpu doctor --fix` does first. kill: after which of its commands,
exchanges and configurations it is killed, counted from 1. fail: a text, and who runs a command with that in
it is told that it fails. Out: status, out, err, and how many there were.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from cgpu.config import apply
from cgpu.install import recover
from cgpu.install.commands.upgrade import main as upgrade_command
from cgpu.install.commands.upgrade import module as upgrade_module
from cgpu.install.transaction.runner import TIMEOUT_S, Done, SystemRunner

Asked = dict[str, Any]


def arm(asked: Asked, count: Callable[[], None]) -> None:
    """Have each command, exchange and configuration counted, and some fail."""
    run, exchange, configure = SystemRunner.run, upgrade_module._ask_to_exchange, apply.apply

    def counted(self: SystemRunner, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
        failing = asked.get("fail") and asked["fail"] in shlex.join(words)
        done = Done(1, "it fails today\n") if failing else run(self, words, timeout)
        count()
        return done

    def after(function: Callable[[Any], None]) -> Callable[[Any], None]:
        def both(value: Any) -> None:
            function(value)
            count()

        return both

    SystemRunner.run = counted  # type: ignore[method-assign]
    upgrade_module._ask_to_exchange = after(exchange)  # type: ignore[assignment]
    apply.apply = after(configure)  # type: ignore[assignment]


def work(asked: Asked, report: int) -> None:
    """Do one thing in this process, and report."""
    done = [0]

    def count() -> None:
        done[0] += 1
        os.pwrite(report, f"{done[0]}".encode(), 0)
        if done[0] == asked.get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)

    arm(asked, count)
    if asked.get("fix"):
        print("\n".join(recover.recover()))
        return
    status = upgrade_command.main(asked["words"])
    sys.stdout.flush()
    os._exit(status)


def child(asked: Asked) -> dict[str, Any]:
    """Do one thing in a process of its own; return how it went."""
    with contextlib.ExitStack() as files:
        out, err, report = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        pid = os.fork()
        if pid == 0:
            code = 2
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), line_buffering=True)
                work(asked, report.fileno())
                code = 0
            except BaseException as error:  # noqa: BLE001, the test has to see it
                os.write(2, repr(error).encode())
            finally:
                with contextlib.suppress(OSError):
                    sys.stdout.flush()
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        texts = [os.pread(file.fileno(), 1 << 16, 0).decode() for file in (out, err, report)]
    return {"status": status, "out": texts[0], "err": texts[1], "count": int(texts[2] or 0)}


def main() -> None:
    """Serve until the input ends."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
