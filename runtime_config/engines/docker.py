# SPDX-License-Identifier: Apache-2.0
"""Docker: a runtime called cgpu in daemon.json, edited as text so that nothing else of the file changes.

JSON has no comments that could have the former settings, and an uninstallation may have no other record of
them. So our own entry has the former default runtime: dockerd ignores keys that it does not know. White space
distinguishes an object or a file that was empty before from one that this module has made.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from cgpu.errors import CgpuError, show
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
    with_our_runtime,
)
from cgpu.runtime_config.files import changes, read_bytes, read_text, runtime_path, text_of
from cgpu.runtime_config.oci_runtime.spec_json import loads
from cgpu.runtime_config.text import json as json_text
from cgpu.runtime_config.text.toml import child

PATH = "/etc/docker/daemon.json"
DEFAULT = "default-runtime"
STOCK = '"runc"'
#: the key of our entry that has the former default runtime, in a list that is empty where there was none
KEPT = "default-runtime-before"
INDENT = " " * 4
WAS_EMPTY = " "
# Podman speaks Docker's protocol on its socket.
SOCKETS = (Path("/run/docker.sock"), Path("/run/podman/podman.sock"))
AT_ONCE_S = 2  # for an answer at once
#: what may give dockerd options, below the root
STARTED_BY = (
    "etc/default/docker",
    "etc/sysconfig/docker",
    "etc/systemd/system/docker.service",
    "etc/systemd/system/docker.service.d/*.conf",
    "usr/lib/systemd/system/docker.service",
    "usr/lib/systemd/system/docker.service.d/*.conf",
)


def add(text: str, runtime: str, *, default: bool = False) -> str:
    """Return the settings with the runtime at that path, and as the default. Raises CgpuError.

    An empty text is that of an empty file.
    """
    settings = parse(text)
    runtimes = _table(settings, "runtimes")
    entry = runtimes.get(NAME)
    if entry is not None and not (isinstance(entry, dict) and isinstance(entry.get("path"), str)):
        raise CgpuError(
            f"daemon.json: runtimes.{NAME}: {show(entry)}: was not added by this command: remove it first"
        )
    kept = _kept(text, settings) if default and settings.get(DEFAULT) != NAME else None
    text = _add_entry(text, runtime, kept) if entry is None else _update_entry(text, runtime, kept)
    return text if kept is None else _set_default(text, json.dumps(NAME))


def remove(text: str) -> str | None:
    """Return the settings without the runtime; None when there was no file before. Raises CgpuError."""
    settings = parse(text)
    entry = _table(settings, "runtimes").get(NAME)
    if entry is None:
        return text
    if settings.get(DEFAULT) == NAME:
        if not _is_kept(entry.get(KEPT) if isinstance(entry, dict) else None):
            raise CgpuError(
                f"daemon.json: {DEFAULT}: {NAME}: which one it was before is not known: set another "
                "one, or take that line out, then remove the runtime"
            )
        text = _restore_default(text)
    return _remove_entry(text)


def release(text: str) -> str:
    """Return settings with which a running dockerd releases the runtime; unchanged where it is not there.

    A reload does not change default runtime and runtimes where the file names none. When the default runtime
    is not among the runtimes, dockerd 28.5 refuses the reload, and 20.10 ends. So the settings name both.
    Raises CgpuError.
    """
    settings = parse(text)
    if NAME not in _table(settings, "runtimes"):
        return text
    bare = remove(text) or ""
    left = parse(bare)
    bare = bare if bare.strip() else bare + "{}"
    if settings.get(DEFAULT) == NAME and not left.get(DEFAULT):
        bare = _set_default(bare, STOCK)
    if "runtimes" not in left:
        bare = json_text.add(bare, json_text.read(bare), '"runtimes": {}')
    return bare


def parse(text: str) -> dict[str, object]:
    """Parse the settings; an empty text has none. Raises CgpuError."""
    if not text.strip(" \t\r\n"):
        return {}
    try:
        settings = loads(text.removeprefix("\ufeff").encode("utf-8"))  # dockerd takes the mark since 23.0
    except ValueError as error:
        raise CgpuError(f"daemon.json: {error}; expected one JSON object") from error
    if not isinstance(settings, dict):
        raise CgpuError(f"daemon.json: {show(settings)}: expected one JSON object")
    return settings


def _table(settings: dict[str, object], name: str) -> dict[str, object]:
    table = settings.get(name, {})
    if not isinstance(table, dict):
        raise CgpuError(f"daemon.json: {name}: {show(table)}: expected an object")
    return table


def _kept(text: str, settings: dict[str, object]) -> str:
    """Return the list with the default runtime as it is spelled now."""
    value = settings.get(DEFAULT)
    if value is not None and not isinstance(value, str):
        raise CgpuError(f"daemon.json: {DEFAULT}: {show(value)}: expected the name of a runtime")
    if DEFAULT not in settings:
        return "[]"
    member = _member(json_text.read(text), DEFAULT)
    return f"[{text[member.value : member.end]}]"


def _is_kept(value: object) -> bool:
    """Return whether a value is a list as _kept() writes it: of no default runtime, or of one."""
    return value == [] or (isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | None))


def _add_entry(text: str, runtime: str, kept: str | None) -> str:
    members = [f'"path": {json.dumps(runtime)}', *([] if kept is None else [f'"{KEPT}": {kept}'])]
    if not text.strip(" \t\r\n"):
        return text + _made(members)
    top = json_text.read(text)
    there = top.get("runtimes")
    if there is None:
        outer, unit = json_text.layout(text, top)
        return json_text.add(text, top, _runtimes(members, outer, unit))
    place = json_text.read(text, there.value)
    outer, unit = json_text.layout(text, place)
    entry = f'"{NAME}": {json_text.write(members, outer, unit)}'
    return json_text.add(text, place, entry, mark=WAS_EMPTY)


def _made(members: list[str]) -> str:
    """Return a whole document with nothing but ours."""
    return json_text.write([_runtimes(members, "\n" + INDENT, INDENT)], "\n", INDENT)


def _runtimes(members: list[str], outer: str, unit: str) -> str:
    entry = f'"{NAME}": {json_text.write(members, outer + unit, unit)}'
    return f'"runtimes": {json_text.write([entry], outer, unit)}'


def _update_entry(text: str, runtime: str, kept: str | None) -> str:
    path = _member(_entry(text), "path")
    if json.loads(text[path.value : path.end]) != runtime:
        text = text[: path.value] + json.dumps(runtime) + text[path.end :]
    if kept is None:
        return text
    entry = _entry(text)
    old = entry.get(KEPT)
    if old is not None:
        return text[: old.value] + kept + text[old.end :]
    return json_text.add(text, entry, f'"{KEPT}": {kept}')


def _remove_entry(text: str) -> str | None:
    top = json_text.read(text)
    there = _member(top, "runtimes")
    place = json_text.read(text, there.value)
    ours = _member(place, NAME)
    if len(place.members) > 1 or text[place.opens + 1 : ours.start] == WAS_EMPTY:
        return json_text.remove(text, place, ours)
    if len(top.members) == 1:
        made = _made([text[member.start : member.end] for member in _entry(text).members])
        if text == made + "\n":
            return None
        if text.endswith(made):
            return text.removesuffix(made)
    return json_text.remove(text, top, there)


def _set_default(text: str, value: str) -> str:
    top = json_text.read(text)
    there = top.get(DEFAULT)
    if there is None:
        return json_text.add(text, top, f'"{DEFAULT}": {value}')
    return text[: there.value] + value + text[there.end :]


def _restore_default(text: str) -> str:
    """Undo _set_default(), by the value in our entry."""
    entry = _entry(text)
    kept = _member(entry, KEPT)
    before = text[kept.value + 1 : kept.end - 1].strip()
    text = json_text.remove(text, entry, kept)
    if before:
        return _set_default(text, before)
    top = json_text.read(text)
    return json_text.remove(text, top, _member(top, DEFAULT))


def _entry(text: str) -> json_text.Object:
    runtimes = _member(json_text.read(text), "runtimes")
    return json_text.read(text, _member(json_text.read(text, runtimes.value), NAME).value)


def _member(place: json_text.Object, name: str) -> json_text.Member:
    found = place.get(name)
    assert found is not None, name
    return found


@dataclass(frozen=True, slots=True)
class Docker(ContainerEngine):
    """Docker. path: its daemon.json."""

    program: ClassVar[str] = "dockerd"
    settings_files: ClassVar[tuple[str, ...]] = (PATH,)
    settings_format: ClassVar[str] = "JSON"
    consumers_advice: ClassVar[str] = (
        "they run on, and cannot be started again; to remove them, now or later: docker rm -f {names}"
    )

    name: str = "docker"
    path: str = PATH

    def is_present(self, root: Path) -> bool:
        """Return whether dockerd or its settings are there."""
        return programs.find("dockerd", self.search) is not None or below(root, self.path).exists()

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        path = below(root, self.path)
        before = read_bytes(path, root)
        refuse_flags(root, default=desired.default)
        runtime, text = runtime_path(desired), text_of(path, before)
        after = add(text, runtime, default=desired.default)
        # Its last end of line tells a new file from one that was empty.
        return changes(path, before, after + "\n" if before is None else after)

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        return self._plan(root, remove)

    def plan_release(self, root: Path) -> Sequence[FileEdit]:
        """Return the edit after which a running dockerd forgets the runtime by a reload. Raises CgpuError."""
        return self._plan(root, release)

    def _plan(self, root: Path, change: Callable[[str], str | None]) -> Sequence[FileEdit]:
        path = below(root, self.path)
        before = read_bytes(path, root)
        return [] if before is None else changes(path, before, change(text_of(path, before)))

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
