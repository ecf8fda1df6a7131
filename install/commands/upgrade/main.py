# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade: replaces the running engine by the installed version."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from cgpu import __version__, paths
from cgpu.arguments import Parser
from cgpu.config import load as config
from cgpu.errors import CgpuError, one_line, show
from cgpu.install import drain, lock, signals
from cgpu.install.commands.upgrade import daemon, module
from cgpu.install.places import EXPORTER, PUBLISHER, SERVER
from cgpu.install.privilege import require_root
from cgpu.install.runner import Runner, SystemRunner
from cgpu.install.steps.systemd import NOT_LOADED
from cgpu.kmod.daemon.places import Places
from cgpu.node_files import below

if TYPE_CHECKING:
    from cgpu.client.tree import Tree
    from cgpu.kmod.daemon.program import Program

ROOT = Path("/")
#: the words by which services beside the engine are started
SERVICES = frozenset({"exporter", "--publish"})


def parser() -> argparse.ArgumentParser:
    out = Parser(
        prog="cgpu upgrade",
        description="Have the installed version take over from the engine that runs. Without an option: "
        "while containers go on where that is possible, else when no sliced container runs.",
        examples=("cgpu upgrade --dry-run", "cgpu upgrade", "cgpu upgrade --cold"),
    )
    how = out.add_mutually_exclusive_group()
    how.add_argument(
        "--hot", action="store_true", help="only while containers go on; also to the same version"
    )
    how.add_argument(
        "--cold", action="store_true", help="only when no sliced container runs; stop, then start"
    )
    out.add_argument("--dry-run", action="store_true", help="say what would be done, and whether it can be")
    out.add_argument("--program", metavar="PATH", help="the cgpud that takes over (this package's)")
    out.add_argument("--run", metavar="DIR", default=paths.RUN, help=argparse.SUPPRESS)
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 1 after one line on standard error."""
    options = parser().parse_args(arguments)
    try:
        require_root("cgpu upgrade")
        with _alone(options) as runner:
            if not options.dry_run:
                module.finish(runner, __version__, print)
            tree = module.module_tree()
            if tree is not None:
                _module(runner, tree, options)
            else:
                _daemon(Places(Path(options.run)), options)
            if not options.dry_run:
                _services(runner)
    except (CgpuError, OSError) as error:
        print(f"cgpu upgrade: {one_line(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cgpu upgrade: interrupted; ask again: what was begun comes to its end", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _alone(options: argparse.Namespace) -> Iterator[Runner]:
    """Hold the node's lock; a drain mark that exists then was left by a killed command, and is removed."""
    if options.dry_run:
        yield SystemRunner()
        return
    with lock.held(ROOT, print) as held:
        drain.clear(ROOT, print)
        yield SystemRunner((held,))


@contextlib.contextmanager
def _drained() -> Iterator[None]:
    """Refuse new slices inside the context; a container whose start was under way is registered by then."""
    with signals.interrupting(), drain.refusing(ROOT):
        time.sleep(drain.SETTLE_S)
        yield


def _refuse_cold(containers: int, reserved: int, why: str) -> None:
    """Raise CgpuError where sliced containers run or shares are reserved. why: against a hot upgrade."""
    reason = f"{why}; " if why else ""
    if containers:
        verb = "runs" if containers == 1 else "run"
        raise CgpuError(f"{reason}--cold: {drain.count(containers)} {verb}; stop them first")
    if reserved:
        raise CgpuError(
            f"{reason}--cold: reservations of shares would be lost, {reserved} of them; release them first "
            "(in a cluster: kubectl drain)"
        )


def _services(runner: Runner) -> None:
    """Restart the services beside the engine with this version where systemd runs them, and name others."""
    if below(ROOT, paths.SYSTEMD).is_dir():
        for name in (PUBLISHER, EXPORTER, SERVER):
            done = runner.run(("systemctl", "try-restart", name))
            # A node without the unit has nothing to exchange.
            if done.status not in (0, NOT_LOADED):
                print(f"To do: systemctl restart {name} ({done.last_line()})")
    for pid, name, version in _of_other_versions():
        print(f"To do: end process {pid} ({name}) of version {version}, and start it again")


def _of_other_versions() -> Iterator[tuple[int, str, str]]:
    """Yield number, name and version of services that run from the folder of another version of the bundle.

    systemd does not run them, so that nothing has restarted them. A package's versions have one folder.
    """
    folder, own = os.path.split(paths.BUNDLE or "")
    for process in psutil.process_iter() if own else ():
        with contextlib.suppress(psutil.Error, OSError):
            version = process.exe().removeprefix(f"{folder}/").partition("/")[0]
            if version in ("", own) or _lies_elsewhere(process.pid, folder):
                continue
            if not SERVICES.isdisjoint(process.cmdline()):
                yield process.pid, show(process.name()), show(version)


def _lies_elsewhere(pid: int, folder: str) -> bool:
    """Return whether a program is not of the bundle's file system: a container may have such a path, too."""
    return os.stat(f"/proc/{pid}/exe").st_dev != os.stat(folder).st_dev


# --- the daemon ---


def _daemon(places: Places, options: argparse.Namespace) -> None:
    program, version = daemon.installed(SystemRunner(), options.program)
    running = daemon.running(places)
    if running is None:
        print(f"no engine runs: there is nothing to do; version {version} is the next to start")
        return
    print(f"cgpud {running.version} runs as process {running.pid}, with {drain.count(running.containers)}")
    asked = options.hot or options.cold or options.program is not None
    if running.version == version and not asked:
        print(f"version {version} is what is installed: there is nothing to do")
        return
    if running.managed and options.program is not None:
        print("systemd starts what its unit names the next time: see ExecStart= of cgpud.service")
    if options.cold:
        _daemon_cold(places, running, program, version, "", options)
        return
    try:
        _daemon_hot(places, running, program, version, options)
    except CgpuError as error:
        # Only where the upgrade was refused before it began, and the same cgpud goes on.
        now = daemon.running(places)
        if options.hot or now is None or now.pid != running.pid:
            raise
        _refuse_cold(now.containers, now.reserved, str(error))
        print(f"not while it runs: {error}")
        _daemon_cold(places, now, program, version, str(error), options)


def _daemon_hot(
    places: Places, running: daemon.Running, program: Program, version: str, options: argparse.Namespace
) -> None:
    print(f"cgpud {version} takes over while containers go on")
    if options.dry_run:
        ready = daemon.rehearse(places, running, program)
        print(f"cgpud {ready} was ready to take over; nothing was changed")
        return
    result = daemon.hot(places, running, program)
    print(f"cgpud {version} runs; containers' calls waited {result['pause_ms']} ms")


def _daemon_cold(
    places: Places,
    running: daemon.Running,
    program: Program,
    version: str,
    why: str,
    options: argparse.Namespace,
) -> None:
    _refuse_cold(running.containers, running.reserved, why)
    print(f"cgpud {running.version} stops, and cgpud {version} starts")
    if options.dry_run:
        return
    with _drained():
        now = daemon.running(places)
        if now is None:
            raise daemon.gone()
        _refuse_cold(now.containers, now.reserved, why)
        # A stopped cgpud has to be started again. Without the lock, which the started process would inherit.
        with signals.ignored():
            daemon.cold(SystemRunner(), places, now, program)
    print(f"cgpud {version} runs")


# --- the kernel module ---


def _module(runner: Runner, tree: Tree, options: argparse.Namespace) -> None:
    if options.program is not None:
        raise CgpuError(
            f"--program {options.program}: is for nodes whose engine is cgpud; here it is cgpu_km"
        )
    running = module.running(tree)
    print(f"cgpu_km runs with core {running.version}, with {drain.count(len(running.names()))}")
    if running.version == __version__ and not options.cold:
        left = "" if options.dry_run else module.tidy(runner, __version__)
        print(f"version {__version__} is what is installed: there is nothing to do{left}")
        return
    if options.cold:
        _module_cold(runner, tree, running, "", options)
        return
    module.find(runner, __version__)
    print(f"core {__version__} takes over while containers go on")
    if options.dry_run:
        print(f"modprobe {module.core_of(__version__)}")
        print(f"echo 1 > {tree.path}/upgrade")
        print(f"rmmod {module.core_of(running.version)}")
        return
    try:
        left = module.hot(runner, tree, running, __version__)
    except CgpuError as error:
        if options.hot:
            raise
        running = module.running(tree)
        if not running.names():
            print(f"not while it runs: {error}")
        _module_cold(runner, tree, running, str(error), options)
        return
    print(f"core {__version__} runs{left}")


def _module_cold(
    runner: Runner, tree: Tree, running: module.Running, why: str, options: argparse.Namespace
) -> None:
    _refuse_cold(len(running.names()), running.reserved, why)
    wanted = config.load(paths.CONFIG, required=False)
    print(f"cgpu_km and its cores are unloaded, and those of version {__version__} are loaded")
    if options.dry_run:
        module.find(runner, __version__, whole=True)
        return
    with _drained():
        now = module.running(tree)
        _refuse_cold(len(now.names()), now.reserved, why)
        module.cold(runner, now, __version__, wanted)
    print(f"core {__version__} runs")
