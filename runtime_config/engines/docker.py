# SPDX-License-Identifier: Apache-2.0
"""Docker: a runtime called cgpu in daemon.json, and the file as it was before beside it.

JSON has no comments, and dockerd ignores keys of a runtime that it does not know: our entry has the former
default runtime. A file that says the same as before when the runtime is out again gets its former bytes back.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from cgpu.distribution import here, install_command
from cgpu.errors import CgpuError, show
from cgpu.fastjson import UniqueContext, loads
from cgpu.node_files import FileEdit, below
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.engine import (
    TIMEOUT_S,
    ContainerEngine,
    Desired,
    Ended,
    Listing,
    Run,
    by_state,
    is_our_program,
    with_our_runtime,
)
from cgpu.runtime_config.files import changes, read_bytes, read_text, runtime_path, text_of
from cgpu.runtime_config.text.toml import child

PATH = "/etc/docker/daemon.json"
DEFAULT = "default-runtime"
STOCK = "runc"
#: the key of our entry that has the former default runtime, in a list that is empty where there was none
KEPT = "default-runtime-before"
SAVED = ".before-cgpu"
INDENT = re.compile(r'\n([ \t]+)"')
# Podman speaks Docker's protocol on its socket.
SOCKETS = (Path("/run/docker.sock"), Path("/run/podman/podman.sock"))
AT_ONCE_S = 2  # for an answer at once
#: a folder of the docker that is a snap
SNAP = "/var/snap/docker"
#: what may give dockerd options, below the root
STARTED_BY = (
    "etc/default/docker",
    "etc/sysconfig/docker",
    "etc/systemd/system/docker.service",
    "etc/systemd/system/docker.service.d/*.conf",
    "usr/lib/systemd/system/docker.service",
    "usr/lib/systemd/system/docker.service.d/*.conf",
)


Settings = dict[str, object]


def add(settings: Settings, runtime: str, *, default: bool = False) -> Settings:
    """Return the settings with the runtime at that path, and as the default. Raises CgpuError."""
    runtimes = _table(settings, "runtimes")
    entry = runtimes.get(NAME, {"path": runtime})
    if not (isinstance(entry, dict) and _is_ours(entry)):
        raise CgpuError(
            f"daemon.json: runtimes.{NAME}: {show(entry)}: was not added by this command: remove it first"
        )
    entry = {**entry, "path": runtime}
    if default and settings.get(DEFAULT) != NAME:
        before = settings.get(DEFAULT)
        if not isinstance(before, str | None):
            raise CgpuError(f"daemon.json: {DEFAULT}: {show(before)}: expected the name of a runtime")
        entry[KEPT] = [before] if DEFAULT in settings else []
        settings = {**settings, DEFAULT: NAME}
    return {**settings, "runtimes": {**runtimes, NAME: entry}}


def remove(settings: Settings) -> Settings:
    """Return the settings without the runtime. Raises CgpuError."""
    runtimes = _table(settings, "runtimes")
    entry = runtimes.get(NAME)
    if not (isinstance(entry, dict) and _is_ours(entry)):
        return settings
    for key in entry.keys() - {"path", KEPT}:
        raise CgpuError(f"daemon.json: runtimes.{NAME}.{key}: was added by others: move it, or take it out")
    found = {**settings, "runtimes": {name: one for name, one in runtimes.items() if name != NAME}}
    if settings.get(DEFAULT) == NAME:
        match entry.get(KEPT):
            case []:
                del found[DEFAULT]
            case [str() | None as before]:
                found[DEFAULT] = before
            case _:
                raise CgpuError(
                    f"daemon.json: {DEFAULT}: {NAME}: which one it was before is not known: set another "
                    "one, or take that line out, then remove the runtime"
                )
    return _bare(found)


def release(settings: Settings) -> Settings:
    """Return settings with which a running dockerd releases the runtime; the same where it is not there.

    A reload does not change default runtime and runtimes where the file names none. When the default runtime
    is not among the runtimes, dockerd 28.5 refuses the reload, and 20.10 ends. So the settings name both.
    Raises CgpuError.
    """
    left = remove(settings)
    if left is settings:
        return settings
    named = {DEFAULT: left.get(DEFAULT) or STOCK} if settings.get(DEFAULT) == NAME else {}
    return {"runtimes": {}, **left, **named}


def parse(text: str) -> Settings:
    """Parse the settings; an empty text has none. Raises CgpuError."""
    if not text.strip(" \t\r\n"):
        return {}
    text = text.removeprefix("\ufeff")  # dockerd takes the mark since 23.0
    try:
        settings = loads(text.encode("utf-8"), UniqueContext)
    except ValueError as error:
        raise CgpuError(f"daemon.json: {error}; expected one JSON object") from error
    if not isinstance(settings, dict):
        raise CgpuError(f"daemon.json: {show(settings)}: expected one JSON object")
    return settings


def write(settings: Settings, like: str) -> str:
    """Return the text of settings, indented as another text is."""
    found = INDENT.search(like)
    return json.dumps(settings, indent=found[1] if found else 4, ensure_ascii=like.isascii()) + "\n"


def _is_ours(entry: object) -> bool:
    return is_our_program(child(entry, "path"))


def _bare(settings: Settings) -> Settings:
    """Return settings without a table of runtimes that has none."""
    return {name: one for name, one in settings.items() if name != "runtimes" or one}


def _table(settings: Settings, name: str) -> Settings:
    table = settings.get(name, {})
    if not isinstance(table, dict):
        raise CgpuError(f"daemon.json: {name}: {show(table)}: expected an object")
    return table


@dataclass(frozen=True, slots=True)
class Docker(ContainerEngine):
    """Docker. path: its daemon.json."""

    program: ClassVar[str] = "dockerd"
    settings_format: ClassVar[str] = "JSON"
    consumers_advice: ClassVar[str] = (
        "they run on, and cannot be started again; to remove them, now or later: docker rm -f {names}"
    )

    name: str = "docker"
    path: str = PATH

    def is_present(self, root: Path) -> bool:
        """Return whether dockerd or its settings are there."""
        return programs.find("dockerd", self.search) is not None or below(root, self.path).exists()

    def absence(self, root: Path) -> str:
        if programs.find("dockerd", self.search) is not None or not below(root, SNAP).is_dir():
            return ""
        install = install_command("docker.io", here())
        return f"is a snap here, which starts no program of the host: snap remove docker; {install}"

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        """Return the edits that add the runtime, and save a file that has none of ours. Raises CgpuError."""
        if hint := self.absence(root):
            raise CgpuError(f"docker: {hint}")
        path, saved, before, settings = self._read(root)
        refuse_flags(root, default=desired.default)
        wanted = add(settings, runtime_path(desired), default=desired.default)
        if wanted == settings:
            return []
        text = text_of(path, before)
        edits = changes(path, before, write(wanted, text))
        if NAME not in _table(settings, "runtimes"):
            saves = changes(saved, read_bytes(saved, root), None if before is None else text)
            # The file may have passwords of proxies.
            edits = [*(replace(edit, mode=0o600) for edit in saves), *edits]
        return edits

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edits that take the runtime out, and the saved file away. Raises CgpuError."""
        path, saved, before, settings = self._read(root)
        left, kept = remove(settings), read_bytes(saved, root)
        edits = changes(saved, kept, None)
        if left is settings:
            return edits
        text = None if not left and kept is None else write(left, text_of(path, before))
        if kept is not None and _bare(parse(text_of(saved, kept))) == left:
            text = text_of(saved, kept)
        return [*changes(path, before, text), *edits]

    def plan_release(self, root: Path) -> Sequence[FileEdit]:
        """Return the edit after which a running dockerd forgets the runtime by a reload. Raises CgpuError."""
        path, _, before, settings = self._read(root)
        left = release(settings)
        return [] if left is settings else changes(path, before, write(left, text_of(path, before)))

    def _read(self, root: Path) -> tuple[Path, Path, bytes | None, Settings]:
        """Return the file, where it is saved, its content, and its settings. Raises CgpuError."""
        path = below(root, self.path)
        before = read_bytes(path, root)
        return path, path.with_name(path.name + SAVED), before, parse(text_of(path, before))

    def check(self, root: Path) -> None:
        """Let dockerd check the file, which it can since 23.0. Raises CgpuError with what it printed."""
        path = below(root, self.path)
        dockerd = programs.find("dockerd", self.search)
        if dockerd is None or not path.exists():
            return
        if "--validate" not in programs.ask([dockerd, "--help"]).output:
            return
        answer = programs.ask([dockerd, "--validate", "--config-file", str(path)])
        if answer.status:
            raise CgpuError(
                f"{path}: dockerd: {answer.last_line()}; see: dockerd --validate --config-file {path}"
            )

    def reload(self) -> tuple[str, ...]:
        """Return the command by which dockerd reads the file again: SIGHUP; nothing where it does not run."""
        return ("systemctl", "try-reload-or-restart", "docker")

    def read_settings(self, text: str) -> tuple[object, object]:
        settings: object = json.loads(text.removeprefix("\ufeff")) if text.strip() else {}
        return child(settings, "runtimes", NAME, "path"), child(settings, DEFAULT)

    def consumers(self, root: Path, run: Run) -> list[str]:
        return with_our_runtime(run, self.name, ".HostConfig.Runtime")

    def knows_runtime(self, run: Run) -> bool | None:
        """Return whether dockerd knows our runtime, None where it does not answer. Raises CgpuError."""
        answer = run(("docker", "info", "--format", "{{json .Runtimes}} {{json .DefaultRuntime}}"))
        return f'"{NAME}"' in answer.output if answer.status == 0 else None

    def running(self, *, ended: bool = False) -> list[Callable[[], object]]:
        return [partial(running, path, stopped=ended) for path in sockets()]

    def listings(self) -> list[Listing]:
        """Return a list for each socket that speaks Docker's protocol; /run and /var/run are one folder."""
        found: dict[Path, Path] = {}
        for path in sockets():
            if path.is_socket():
                found.setdefault(path.resolve(), path)
        return [Listing(f"docker ({path})", partial(ended, path)) for path in found.values()]


def sockets() -> list[Path]:
    """Return the sockets to ask. A local one in DOCKER_HOST comes first, as for the docker command."""
    host = os.environ.get("DOCKER_HOST", "")
    named = [Path(host.removeprefix("unix://"))] if host.startswith("unix:///") else []
    return [*named, *SOCKETS]


def ended(socket: Path) -> Ended:
    """Return which containers of an engine that speaks Docker's protocol have ended. Raises CgpuError."""
    if not socket.is_socket():
        raise CgpuError(f"{socket}: does not answer: there is no such socket")
    return by_state(rows(socket, int(TIMEOUT_S), stopped=True), "Id", "State")


def running(socket: Path, *, stopped: bool = False) -> object:
    """Return the running containers of an engine that speaks Docker's protocol, or all. Raises CgpuError."""
    if not socket.is_socket():
        raise CgpuError(f"{socket}: there is no such socket")
    return rows(socket, AT_ONCE_S, stopped=stopped)


def rows(socket: Path, timeout_s: int, *, stopped: bool) -> object:
    """Return the list of containers by Docker's protocol. Raises CgpuError."""
    # Slow to import, and not needed where no engine listens.
    import docker.errors
    from requests.exceptions import RequestException

    try:
        client = docker.APIClient(base_url=f"unix://{socket}", version="auto", timeout=timeout_s)
        try:
            return client.containers(all=stopped)
        finally:
            client.close()
    except (docker.errors.DockerException, RequestException, OSError, ValueError) as error:
        raise CgpuError(f"{socket}: does not answer: {error}") from error


def refuse_flags(root: Path, *, default: bool) -> None:
    """Raise CgpuError where dockerd is started with options that it does not take beside the file's keys."""
    flags = re.compile(r"--(?:add|default)-runtime\b" if default else r"--add-runtime\b")
    for place in STARTED_BY:
        for path in sorted(below(root, "/").glob(place)):
            for line in read_text(path, root).splitlines():
                flag = flags.search(line)
                if flag and not line.lstrip().startswith(("#", ";")):
                    raise CgpuError(
                        f"{path}: {flag[0]}: dockerd does not start with this and the same in daemon.json: "
                        "move it there, then: systemctl daemon-reload"
                    )
