# SPDX-License-Identifier: Apache-2.0
"""Container engines: what OpenCGPU knows of each, and readers of formats that several share.

Each engine is a class; registry.py lists them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit
from cgpu.runtime_config import programs
from cgpu.runtime_config.oci_runtime.lowlevel import NAME as LAUNCHER_NAME

#: the name by which engines and their users know our runtime
RUNTIME_NAME = "cgpu"
TIMEOUT_S = 10.0
AT_ONCE_S = 2.0  # for an answer at once
# By which the kubelet names a container (k8s.io/kubernetes, pkg/kubelet/types/labels.go).
LABELS = ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name")
AT_ONCE = 200  # containers in one question
NAME_MAX = 253  # characters of a name in Kubernetes
# States of a container that has ended, in engines' words. A container in any other may have processes.
ENDED = frozenset({"exited", "dead", "stopped", "removing", "configured", "container_exited"})


@dataclass(frozen=True, slots=True)
class Desired:
    """Wanted settings. runtime: the absolute path of cgpu-container-runtime."""

    runtime: Path
    default: bool = False


Run = Callable[[Sequence[str]], programs.Done]
"""Runs a command to its end, within a time that the caller chooses. Raises CgpuError."""

Ended = dict[str, bool]
"""Whole container id to whether the engine says that no process of the container is left."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One list of containers. ask raises CgpuError when the engine does not answer."""

    name: str
    ask: Callable[[], Ended]


@dataclass(frozen=True, slots=True)
class ContainerEngine(ABC):
    """One container engine. name: its word in --runtimes and for cgpu-runtime-config.

    path: the settings file that is edited, empty where none can be chosen. folders: of drop-ins beside it.

    Edits are planned below a root folder, and nothing is written. A method with a body here is for the few
    engines that have something to say.
    """

    #: the program that runs while the engine serves, or its command; empty for what is no container engine
    program: ClassVar[str] = ""
    #: whether only --runtimes NAME chooses it, never the list of all that are here
    by_request: ClassVar[bool] = False
    #: whether it is a runtime: one with a list of low-level runtimes, ours among them, and no default runtime
    is_runtime: ClassVar[bool] = False
    settings_format: ClassVar[str] = "TOML"
    #: options of its program that name another settings file
    settings_options: ClassVar[tuple[str, ...]] = ()
    #: what becomes of {names}, the containers with our runtime, without it; empty: they are not listed
    consumers_advice: ClassVar[str] = ""

    name: str
    path: str = ""
    _: KW_ONLY
    folders: Sequence[str] = ()
    #: whether other software brings it: its settings tell of it, not a program in the usual folders
    is_part: bool = False
    #: the folders of programs
    search: Sequence[str] = programs.SEARCH

    @property
    def settings_files(self) -> tuple[str, ...]:
        """Return files that have its settings, and folders of such files, in the order of reading."""
        return (self.path,) if self.path else ()

    @property
    def kubelet_socket(self) -> str:
        """Return the socket by which a kubelet reaches it; empty for an engine of no kubelet."""
        return ""

    @abstractmethod
    def is_present(self, root: Path) -> bool:
        """Return whether the engine, or settings of it, are on this machine."""

    def absence(self, root: Path) -> str:
        """Return what is here in place of an engine that is not present; empty for nothing."""
        return ""

    @abstractmethod
    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        """Return the edits that add the runtime; none when it is there. Raises CgpuError."""

    @abstractmethod
    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edits that take out only what plan_add() has put in. Raises CgpuError."""

    def plan_release(self, root: Path) -> Sequence[FileEdit]:
        """Return edits after which a reload makes a running engine release the runtime. Raises CgpuError.

        They come before those of plan_remove(), or before the original bytes are put back; none for an engine
        that forgets by itself what its settings no longer name.
        """
        return []

    def check(self, root: Path) -> None:
        """Let the engine itself check its settings where it can. Raises CgpuError with what it said."""

    def reload(self) -> tuple[str, ...]:
        """Return the command after which the engine knows its new settings; containers outlive it.

        Empty for an engine that reads its settings at each call.
        """
        return ()

    def with_settings(self, path: str) -> Self:
        """Return the engine with another settings file and without the usual drop-ins. Raises CgpuError."""
        if not self.path or self.is_part:
            raise CgpuError(f"--config {path}: {self.name} has no settings file to choose: leave it out")
        return replace(self, path=path, folders=())

    def read_settings(self, text: str) -> tuple[object, object]:
        """Return our runtime's path and the default runtime's name in a settings file, None for nothing.

        Raises ValueError.
        """
        return None, None

    def cdi_setting(self, text: str) -> object:
        """Return what a settings file says of CDI for pods, None for nothing. Raises ValueError."""
        return None

    def copies_image_annotations(self, version: tuple[int, ...]) -> bool:
        """Return whether this version gives annotations of an image to its containers. (): not known."""
        return False

    def consumers(self, root: Path, run: Run) -> list[str]:
        """Return the names of containers with our runtime, running or not. Raises CgpuError."""
        return []

    def stuck(self, run: Run) -> list[str]:
        """Return running containers that the engine could not stop without our runtime. Raises CgpuError."""
        return []

    def knows_runtime(self, run: Run) -> bool | None:
        """Return whether the running engine knows our runtime; None where that cannot be asked.

        Raises CgpuError.
        """
        return None

    def running(self, *, ended: bool = False) -> list[Callable[[], object]]:
        """Return ways to ask for rows with Id and Names of running containers, the cheapest first.

        ended: also of those that have ended, where the engine still lists them. Each raises CgpuError when it
        gets no answer at once.
        """
        return []

    def listings(self) -> list[Listing]:
        """Return how this machine's engine is asked for its containers; none where it is not there."""
        return []


def is_ours(runtime: str) -> bool:
    """Return whether an engine's word for a runtime means ours: the name, or the path."""
    return runtime == RUNTIME_NAME or is_our_program(runtime)


def alike(default: object) -> list[str]:
    """Return the runtimes whose settings ours takes over, the first that is there: one that pods get now.

    NVIDIA's comes last: it has settings of its own, and also those of the kubelet (SystemdCgroup).
    """
    given = [default] if isinstance(default, str) and default != RUNTIME_NAME else []
    return sorted([*given, "runc", "crun", "nvidia"], key=lambda name: name.startswith("nvidia"))


def is_our_program(path: object) -> bool:
    """Return whether a path in settings is that of our runtime, wherever it is installed."""
    return isinstance(path, str) and path.rpartition("/")[2] == LAUNCHER_NAME


def with_our_runtime(run: Run, engine: str, runtime: str, which: str = "--all") -> list[str]:
    """Return the containers with our runtime, by a command line that is docker's. Raises CgpuError.

    engine: the command; runtime: the field of `container inspect` that names it; which: an option of ps.
    """
    listed = run((engine, "ps", which, "--quiet"))
    if listed.status != 0:
        raise CgpuError(listed.last_line())
    # Warnings of the command are among the lines.
    identities = [line for line in listed.output.splitlines() if line.isalnum()]
    inspect = (engine, "container", "inspect", "--format", f"{{{{{runtime}}}}}|{{{{.Name}}}}")
    names = set()
    for first in range(0, len(identities), AT_ONCE):
        # The exit status says whether all of them are still there; the printed lines count.
        for line in run((*inspect, *identities[first : first + AT_ONCE])).output.splitlines():
            found, bar, name = line.partition("|")
            if bar and is_ours(found):
                names.add(name.strip().removeprefix("/"))
    return sorted(names)


def ended_by_cri(command: Sequence[str]) -> Ended:
    """Ask an engine that speaks Kubernetes' protocol, by crictl. Raises CgpuError."""
    answer = json_of([*command, "ps", "--all", "--output", "json"])
    rows = answer.get("containers") if isinstance(answer, dict) else None
    return by_state(rows, "id", "state")


def named_by_cri(command: Sequence[str]) -> list[dict[str, object]]:
    """Return Id and Names of running containers, named by namespace, pod and container. Raises CgpuError."""
    answer = json_of([*command, "ps", "--output", "json"], AT_ONCE_S)
    rows = answer.get("containers") if isinstance(answer, dict) else None
    found: list[dict[str, object]] = []
    for row in rows if isinstance(rows, list) else []:
        match row:
            case {"id": str(identity), "labels": dict(labels)} if all(key in labels for key in LABELS):
                name = "/".join(str(labels[key])[:NAME_MAX] for key in LABELS)
                found.append({"Id": identity, "Names": [name]})
    return found


def by_state(rows: object, key: str, state: str) -> Ended:
    """Return which containers of an engine's list have ended; one in a state not known may have processes."""
    found: Ended = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get(key), str):
            found[row[key]] = is_ended(row.get(state))
    return found


def is_ended(state: object) -> bool:
    """Return whether an engine's word means that no process is left."""
    return isinstance(state, str) and state.lower() in ENDED


def json_of(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> object:
    """Return what a command prints as JSON. Raises CgpuError."""
    output = _output(command, timeout_s)
    try:
        return json.loads(output or "null")
    except (ValueError, RecursionError) as error:
        raise CgpuError(f"{command[0]}: answers no JSON") from error


def lines_of(command: Sequence[str]) -> list[str]:
    """Return the lines that a command prints. Raises CgpuError."""
    return [line.strip() for line in _output(command).splitlines() if line.strip()]


def _output(command: Sequence[str], timeout_s: float = TIMEOUT_S) -> str:
    answer = programs.ask(command, timeout_s)
    if answer.status:
        raise CgpuError(f"{' '.join(command)}: {answer.last_line()}")
    return answer.output
