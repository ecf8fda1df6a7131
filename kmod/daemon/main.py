# SPDX-License-Identifier: Apache-2.0
"""cgpud: the daemon engine's command."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cgpu import __version__, paths
from cgpu.arguments import Parser
from cgpu.errors import CgpuError, one_line
from cgpu.kmod.daemon import control, lock, log
from cgpu.kmod.daemon.arguments import Arguments, check_config, worker_arguments
from cgpu.kmod.daemon.lock import HeldError
from cgpu.kmod.daemon.manage import end, started, status, stopped
from cgpu.kmod.daemon.places import Places
from cgpu.kmod.daemon.program import allow_all_descriptors
from cgpu.kmod.daemon.simulate import check_cards
from cgpu.kmod.daemon.store import notify_socket
from cgpu.kmod.daemon.store.keeper import Keeper, report
from cgpu.kmod.daemon.store.notify_socket import START, NotifySocket, order
from cgpu.kmod.daemon.tree import libfuse

if TYPE_CHECKING:
    from cgpu.kmod.daemon.service import Service

WAIT_S = 10.0  # for a daemon that is starting or ending


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    out = Parser(
        prog="cgpud",
        description="The GPU-sharing engine in user space.",
        examples=(
            "cgpud",
            "cgpud --simulate T4",
            "cgpud --simulate T4=8192:2",
            "cgpud --status",
            "cgpud --stop",
        ),
        meant={
            "start": "cgpud",
            "restart": "cgpud --stop, then cgpud",
            "--restart": "cgpud --stop, then cgpud",
            "stop": "cgpud --stop",
            "status": "cgpud --status",
            "-f": "cgpud --foreground",
        },
    )
    out.add_argument(
        "--simulate",
        metavar="MODEL[=MIB][:COUNT][/mig=CARD]",
        help="serve simulated cards: T4, V100, A10, A100, A100-80GB, L4, L40S, H100, H200, B200",
    )
    out.add_argument("--tree", metavar="DIR", help=f"where the tree is mounted (default {paths.TREE_DAEMON})")
    out.add_argument("--config", metavar="FILE", help=f"configuration (default {paths.CONFIG})")
    out.add_argument(
        "--foreground", action="store_true", help="stay in the foreground, log to standard error"
    )
    asked = out.add_mutually_exclusive_group()
    asked.add_argument(
        "--status", action="store_true", help="print what a running daemon says of itself, as JSON"
    )
    asked.add_argument("--stop", action="store_true", help="stop; containers that run keep their slices")
    out.add_argument("--force", action="store_true", help="with --stop: take the slices away too")
    out.add_argument(
        "--run", metavar="DIR", default=paths.RUN, help=f"sockets and state (default {paths.RUN})"
    )
    out.add_argument("--version", action="version", version=f"cgpud {__version__}")
    out.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    out.add_argument("--rehearse", metavar="JSON", help=argparse.SUPPRESS)
    return out


def arguments_of(options: argparse.Namespace) -> Arguments:
    """Check the options of a start, and that it can have a tree. Raises CgpuError."""
    libfuse.find()  # first: without it the program of simulated cards does not run either
    if options.simulate is not None:
        options.simulate = check_cards(options.simulate)
    if options.tree is not None and not Path(options.tree).is_absolute():
        raise CgpuError(f"--tree {options.tree}: expected an absolute path")
    config = Path(options.config) if options.config is not None else Path(paths.CONFIG)
    return Arguments(
        options.simulate,
        options.tree,
        config,
        options.config is not None,
        Places(Path(options.run)),
        options.foreground,
    )


def run_worker(arguments: Arguments) -> int:
    """Be the daemon. Its manager is systemd or a keeper."""
    notify = NotifySocket(os.environ.get("NOTIFY_SOCKET"))
    handed = notify_socket.inherited(os.environ, os.getpid())
    service: Service | None = None
    code = 0
    allow_all_descriptors()
    try:
        # Here, as it takes libfuse.
        from cgpu.kmod.daemon.service import Service
        from cgpu.kmod.daemon.upgrade import in_place

        before = in_place.take(os.environ)
        arguments.places.make()
        lock.become_daemon(arguments.places)
        if before is None:
            check_config(arguments)
        service = Service(arguments, notify, handed, before)
        service.run()
    except Exception as error:
        line = one_line(str(error) or type(error).__name__)
        logging.getLogger(__name__).error("%s", line, exc_info=not isinstance(error, CgpuError))
        notify.status(line)
        code = 1
    if service is not None and service.stuck:
        # Delayed threads use memory that an orderly end would free. The memory file has all state.
        logging.shutdown()
        os._exit(code)
    return code


def become_keeper(arguments: Arguments) -> bool:
    """Become the keeper, and wait for one that is ending.

    False: a keeper that only held containers' descriptors has started the daemon anew. Raises CgpuError, also
    when that daemon was refused.
    """
    asked = False
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            lock.become_keeper(arguments.places)
        except HeldError as held:
            answer = control.ask(str(arguments.places.control), {"command": "status"})
            if answer is not None and asked:
                return False
            if answer is not None:
                # The file may name the keeper.
                raise HeldError(held.path, int(answer.get("pid", held.pid))) from held
            if time.monotonic() > deadline:
                raise
            line = _ask_keeper(arguments)
            if line == "ready":
                return False
            if line:
                raise CgpuError(line) from held
            # A keeper that is starting the daemon already heeds no order, and gives no answer.
            asked = asked or line is not None
        else:
            return True
        time.sleep(0.02)


def _ask_keeper(arguments: Arguments) -> str | None:
    # Heeded only while no daemon runs below it.
    return order(arguments.places.keeper, f"{START}={json.dumps(worker_arguments(arguments))}")


def run_keeper(arguments: Arguments, report_fd: int, *, foreground: bool) -> int:
    """Be the keeper. report_fd gets one line: "ready" or an error."""
    log.start(arguments.places.log, foreground=foreground)
    allow_all_descriptors()
    from cgpu.config.load import load

    config = load(arguments.config, required=arguments.config_required)
    log.set_form(config.log_format)
    tree = arguments.tree or config.tree or paths.TREE_DAEMON
    return Keeper(arguments.places, tree, worker_arguments(arguments), report_fd).run()


def detach() -> None:
    """Leave the terminal, and close the standard streams that a caller may read to their end."""
    os.setsid()
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.umask(0o022)


def start(arguments: Arguments, *, foreground: bool) -> int:
    """Start keeper and daemon; in the background, return when the tree can be used. Raises CgpuError."""
    check_config(arguments)
    arguments.places.make()
    if not become_keeper(arguments):
        _say(started(arguments.places))
        return 0
    reader, writer = os.pipe2(os.O_CLOEXEC)
    if foreground:
        return run_keeper(arguments, writer, foreground=True)
    if os.fork() == 0:
        _background(arguments, writer)
    os.close(writer)
    line = _read_report(reader)
    if line != "ready":
        raise CgpuError(line or "the daemon ended before it was ready; try: cgpud --foreground")
    _say(started(arguments.places))
    return 0


def _say(line: str) -> None:
    # A closed standard output does not undo the work.
    with contextlib.suppress(OSError):
        print(line, flush=True)


def _background(arguments: Arguments, writer: int) -> NoReturn:
    code = 1
    try:
        detach()
        lock.sign(arguments.places.lock)
        code = run_keeper(arguments, writer, foreground=False)
    except Exception as error:
        logging.getLogger(__name__).exception("keeper")
        report(writer, one_line(str(error)))
    finally:
        os._exit(code)


def _read_report(reader: int) -> str:
    with os.fdopen(reader, "rb") as stream:
        return stream.readline(4096).decode("utf-8", "replace").strip()


def dispatch(options: argparse.Namespace) -> int:
    """Carry out the command line. Raises CgpuError."""
    places = Places(Path(options.run))
    if not places.run.is_absolute():
        raise CgpuError(f"--run {options.run}: expected an absolute path")
    if options.force and not options.stop:
        raise CgpuError("--force: expected only with --stop")
    if options.status:
        status(places)
        return 0
    if options.stop:
        _say(stopped(places, end(places, force=options.force), force=options.force))
        return 0
    arguments = arguments_of(options)
    if options.rehearse is not None:
        from cgpu.kmod.daemon.upgrade.rehearsal import rehearse

        rehearse(arguments, options.rehearse)
        return 0
    if options.worker:
        log.start(places.log, foreground=options.foreground)
        return run_worker(arguments)
    if os.geteuid() != 0:
        raise CgpuError("cgpud runs as root: sudo cgpud")
    if "NOTIFY_SOCKET" in os.environ:
        log.start(places.log, foreground=True)
        places.make()
        lock.become_keeper(places)
        return run_worker(replace(arguments, foreground=True))
    return start(arguments, foreground=options.foreground)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; any fault is one line on standard error and exit status 1."""
    try:
        return dispatch(parser().parse_args(argv))
    except CgpuError as error:
        print(f"cgpud: {error}", file=sys.stderr)
    except OSError as error:
        print(f"cgpud: {one_line(str(error))}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
