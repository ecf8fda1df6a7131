# SPDX-License-Identifier: Apache-2.0
"""containerd: a runtime called cgpu for its CRI plugin, in config.toml or in a file that it imports.

ctr needs no settings: ctr run --runc-binary. The plugin that owns runtimes has a name for each version of the
file (containerd's docs/cri/config.md).
"""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from cgpu.errors import CgpuError, show
from cgpu.node_files import FileEdit, below
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines import layers
from cgpu.runtime_config.engines.engine import (
    NAME_MAX,
    ContainerEngine,
    Desired,
    Ended,
    Listing,
    Run,
    alike,
    ended_by_cri,
    is_ended,
    is_ours,
    lines_of,
)
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.layers import Layer
from cgpu.runtime_config.engines.systems import system
from cgpu.runtime_config.files import read_text, runtime_path
from cgpu.runtime_config.oci_runtime.lowlevel import NAME as LAUNCHER_NAME
from cgpu.runtime_config.text import toml

PROGRAM = "containerd"
PATH = "/etc/containerd/config.toml"
FOLDER = "/etc/containerd/conf.d"
DROP_IN = "99-cgpu.toml"
#: since then imported files are merged by key (containerd #5837); before, a plugin is replaced as a whole
MERGES = (2, 1)
KEEPS_STOCK = (2, 0)
#: from the first to the last of these, a file of version 1 is read, and its settings for CRI are ignored
LOSES_V1 = ((2, 0), (2, 2))
SOCKET = "/run/containerd/containerd.sock"
STATE = "/run/containerd"
TASKS = "io.containerd.runtime.v2.task"
OF_DOCKER = "moby"  # docker's namespace, whose containers docker itself names
POD = ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name")
CONTAINER = "io.kubernetes.cri.container-name"
MOST_TASKS = 4096  # that are looked at for names
TYPE = "io.containerd.runc.v2"
STOCK = "runc"
STOCK_NOTE = "# containerd before 2.0 has runc by itself only where no other runtime is named"
DEFAULT = "default_runtime_name"
HANDED_ON = "pod_annotations"
CDI = "enable_cdi"
#: the first that knows CDI, and the first that has it on where enable_cdi is not set
KNOWS_CDI, HAS_CDI = (1, 7), (2, 0)
OURS = "opencgpu.io/*"
PLUGINS = {
    1: "cri",
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
OUR_TABLES = [
    layers.ours_in(("plugins", plugin, "containerd", "runtimes"), "options", "BinaryName")
    for plugin in dict.fromkeys(PLUGINS.values())
]
# Version of a new file: understood by every containerd since 1.3.
NEW_VERSION = 2


@dataclass(frozen=True, slots=True)
class Addition:
    """An addition to the settings. default: our runtime becomes the default; version: of a new file."""

    plugin: str
    runtimes: Mapping[str, Mapping[str, object]]
    default: bool
    version: int

    @property
    def place(self) -> tuple[str, ...]:
        """Return the table that has the runtimes and the name of the default one."""
        return ("plugins", self.plugin, "containerd")

    def values(self) -> dict[tuple[str, ...], object]:
        """Return every new value by its path."""
        found: dict[tuple[str, ...], object] = {(*self.place, DEFAULT): NAME} if self.default else {}
        return found | {(*self.place, "runtimes", name): table for name, table in self.runtimes.items()}


def addition(settings: Mapping[str, object], runtime: str, *, default: bool, keeps_stock: bool) -> Addition:
    """Return what is to be added to the settings in force. keeps_stock: containerd has runc beside any other.

    Raises CgpuError.
    """
    plugin = plugin_of(settings)
    place = ("plugins", plugin, "containerd")
    if toml.child(settings, *place, "runtimes", NAME) is not None:
        table = toml.write_key(*place, "runtimes", NAME)
        raise CgpuError(f"config.toml: [{table}] is there and was not added by this command: remove it first")
    wanted: dict[str, Mapping[str, object]] = {NAME: _like(settings, plugin, runtime)}
    # Before 2.0 the first table of a runtime removes runc, which is the default runtime where none is named:
    # the CRI plugin would not load.
    if not keeps_stock and toml.child(settings, *place, "runtimes") in (None, {}):
        wanted[STOCK] = {"runtime_type": TYPE}
    default = default and toml.child(settings, *place, DEFAULT) != NAME
    return Addition(plugin, wanted, default, version_of(settings))


def plugin_of(settings: Mapping[str, object]) -> str:
    """Return the plugin that owns runtimes in this version of the file. Raises CgpuError."""
    return PLUGINS[version_of(settings)]


def version_of(settings: Mapping[str, object]) -> int:
    """Return the version of a file; that of a new one where it says nothing at all. Raises CgpuError."""
    version = settings.get("version", 1 if settings else NEW_VERSION)
    if type(version) is not int or version not in PLUGINS:
        expected = ", ".join(map(str, PLUGINS))
        raise CgpuError(f"config.toml: version: {show(version)}: expected one of {expected}")
    return version


def _like(settings: Mapping[str, object], plugin: str, runtime: str) -> dict[str, object]:
    """Return the table of our runtime: a copy of the one of the runtime that pods get now, with our program.

    nvidia-ctk copies it as well: SystemdCgroup must be the kubelet's, and an administrator's other settings
    for pods (a base spec, CNI, annotations, a snapshotter) apply to pods with slices too.
    """
    place = ("plugins", plugin, "containerd")
    named = toml.child(settings, *place, "runtimes")
    for name in (*alike(toml.child(settings, *place, DEFAULT)), *(named if isinstance(named, dict) else ())):
        table = toml.child(settings, *place, "runtimes", name)
        # Only runc's own shim knows BinaryName; Kata and gVisor have other shims.
        if isinstance(table, dict) and str(table.get("runtime_type", TYPE)).startswith("io.containerd.runc."):
            options = table.get("options")
            kept = options if isinstance(options, dict) else {}
            return {
                "runtime_type": TYPE,
                **table,
                HANDED_ON: _handed_on(table.get(HANDED_ON)),
                "options": {**kept, "BinaryName": runtime},
            }
    return {"runtime_type": TYPE, HANDED_ON: [OURS], "options": {"BinaryName": runtime}}


def _handed_on(present: object) -> list[object]:
    """Return which annotations of a pod its containers get: ours, and those that were named before.

    Whether an annotation counts is a matter of trust_annotations in our own configuration.
    """
    kept = present if isinstance(present, list) else []
    return kept if OURS in kept else [*kept, OURS]


def insert(text: str, new: Addition, *, is_template: bool = False) -> str:
    """Return a file's text with an addition. Raises CgpuError when its form does not allow it."""
    edited = text
    if new.runtimes:
        tables = {(*new.place, "runtimes", name): table for name, table in new.runtimes.items()}
        lines = []
        for path, table in tables.items():
            lines += [STOCK_NOTE] if path[-1] == STOCK else []
            lines += toml.write_table(path, table)
        values: dict[tuple[str, ...], object] = {**tables}
        if is_template:
            lines[:0] = [] if text.strip() else [layers.HIDDEN + layers.BASE]
        elif not toml.parse("config.toml", text):
            lines.insert(0, f"version = {new.version}")
            values[("version",)] = new.version
        edited = toml.insert_block(text, lines)
        toml.check("config.toml", text, edited, values)
    return toml.put("config.toml", edited, (*new.place, DEFAULT), NAME) if new.default else edited


@dataclass(frozen=True, slots=True)
class Containerd(ContainerEngine):
    """containerd, alone or as a part of a node's software (nodes.py).

    path: its config.toml. folders: of drop-ins, the usual one first. templates: what the file is made of, by
    its version. default_setting: where the default runtime is set then. merges: drop-ins are merged into the
    file whatever containerd's version is. command: the restart, which shims and their containers outlive.
    """

    program: ClassVar[str] = PROGRAM
    settings_options: ClassVar[tuple[str, ...]] = ("--config", "-c")
    consumers_advice: ClassVar[str] = (
        "they run on, and pods of them get no further container, after a crash too; to remove a pod: kubectl "
        "delete pod, or crictl rmp -f"
    )

    name: str = PROGRAM
    path: str = PATH
    _: KW_ONLY
    folders: Sequence[str] = (FOLDER,)
    templates: Mapping[int, str] = field(default_factory=dict)
    default_setting: str = ""
    merges: bool = False
    state: str = STATE
    socket: str = SOCKET
    command: tuple[str, ...] = ("systemctl", "try-restart", "containerd")

    @property
    def settings_files(self) -> tuple[str, ...]:
        return self.path, *self.folders

    @property
    def kubelet_socket(self) -> str:
        return self.socket

    def is_present(self, root: Path) -> bool:
        """Return whether containerd is there and its CRI plugin on: docker's own packages switch that off."""
        path = below(root, self.path)
        if not path.exists():
            return not self.is_part and programs.find(PROGRAM, self.search) is not None
        disabled = layers.load(path, root).settings.get("disabled_plugins")
        return not (isinstance(disabled, list) and {"cri", PLUGINS[2]} & set(map(str, disabled)))

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        """Return the edits that add the runtime, in the file that counts. Raises CgpuError."""
        by_hand = system(root).by_hand
        if self.folders and by_hand:
            raise CgpuError(by_hand)
        version = programs.version(PROGRAM, self.search) or (1, 0)
        merges, keeps_stock = self.merges or version >= MERGES, version >= KEEPS_STOCK
        files = self._read(root)
        _refuse_v1(files[0], version)
        said, runtime = merged(files, merges=merges), runtime_path(desired)
        new = addition(said, runtime, default=desired.default, keeps_stock=keeps_stock)
        target = self._target(root, files, new, merges=merges)
        if not any(file.path == target for file in files):
            is_last = self.merges or target.suffix == layers.TEMPLATE
            at = len(files) if is_last else _place(files, target)
            files.insert(at, layers.load(target, root, our_entries))
        is_template = target.suffix == layers.TEMPLATE
        edited = [
            file.with_text(insert(file.text, new, is_template=is_template)) if file.path == target else file
            for file in files
        ]
        layers.verify(edited, target, merged(edited, merges=merges), new.values())
        return self._edits(self._with_others(root, edited))

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        """Return the edits that take our runtime out of every file. Raises CgpuError."""
        files = self._with_others(root, self._read(root))
        tables = [("plugins", plugin, "containerd") for plugin in dict.fromkeys(PLUGINS.values())]
        keys = [(*table, DEFAULT) for table in tables if not _has_runtime(files, table)]
        if self.default_setting and any(toml.child(files[0].settings, *key) == NAME for key in keys):
            raise CgpuError(f"{files[0].path}: {DEFAULT}: {NAME}: first take out {self.default_setting}")
        edited = [file for file in files if not file.is_generated]
        generated = [file for file in files if file.is_generated]
        return self._edits([*layers.release_default(edited, *keys), *generated])

    def check(self, root: Path) -> None:
        """Let containerd read its settings, and look for the default runtime among them. Raises CgpuError."""
        path = below(root, self.path)
        program = programs.find(PROGRAM, self.search)
        if program is None or not path.exists():
            return
        answer = programs.ask([program, "-c", str(path), "config", "dump"])
        see = f"see: containerd -c {path} config dump"
        if answer.status:
            raise CgpuError(f"{path}: containerd: {answer.last_line()}; {see}")
        if root != Path("/") and "imports" in layers.load(path, root).settings:
            return  # what it has read lies partly outside of that folder
        settings = toml.parse("containerd config dump", answer.output)
        place = ("plugins", plugin_of(settings), "containerd")
        default = toml.child(settings, *place, DEFAULT)
        is_filled_in = isinstance(default, str) and "$" in default  # by microk8s, when it starts
        if default and not is_filled_in and toml.child(settings, *place, "runtimes", str(default)) is None:
            raise CgpuError(f"{path}: {DEFAULT}: {default}: there is no runtime of that name; {see}")

    def reload(self) -> tuple[str, ...]:
        return self.command

    def read_settings(self, text: str) -> tuple[object, object]:
        """Return what any version's plugin names as our runtime and as the default. Raises ValueError."""
        settings = tomllib.loads(text)
        tables = [toml.child(settings, "plugins", plugin, "containerd") for plugin in PLUGINS.values()]
        runtimes = [toml.child(table, "runtimes", NAME, "options", "BinaryName") for table in tables]
        defaults = [toml.child(table, DEFAULT) for table in tables]
        return next(filter(None, runtimes), None), next(filter(None, defaults), None)

    def cdi_setting(self, text: str) -> object:
        """Return enable_cdi of any version's plugin. Raises ValueError."""
        settings = tomllib.loads(text)
        said = [toml.child(settings, "plugins", plugin, CDI) for plugin in PLUGINS.values()]
        return next((one for one in said if one is not None), None)

    def consumers(self, root: Path, run: Run) -> list[str]:
        """Return pods and containers whose task has our runtime: its shim writes that beside the bundle."""
        names, tasks = set(), f"{self.state}/{TASKS}"
        for namespace in _names(root, tasks):
            for identity in _names(root, f"{tasks}/{namespace}") if namespace != OF_DOCKER else ():
                folder = f"{tasks}/{namespace}/{identity}"
                if is_ours(_text(root, f"{folder}/runtime").strip()):
                    names.add(_pod(_text(root, f"{folder}/config.json")) or f"{namespace}/{identity}")
        return sorted(names)

    def running(self, *, ended: bool = False) -> list[Callable[[], object]]:
        """Return the way to the names of pods: ctr's containers have none."""
        return [partial(named, Path("/"), self.state)]

    def listings(self) -> list[Listing]:
        """Return its list by ctr, or by crictl where ctr is not there."""
        address = os.environ.get("CONTAINERD_ADDRESS", SOCKET) if self.socket == SOCKET else self.socket
        ctr, crictl = (programs.find(name, self.search) for name in ("ctr", "crictl"))
        if not Path(address).is_socket():
            return []
        if ctr is not None:
            return [Listing(self.name, partial(ended, [ctr, "-a", address]))]
        if crictl is not None:
            return [Listing(self.name, partial(ended_by_cri, [crictl, "-r", f"unix://{address}"]))]
        return []

    def _read(self, root: Path) -> list[Layer]:
        """Return the files that containerd reads. Raises CgpuError."""
        main, *others = read_files(below(root, self.path), root)
        return [replace(main, is_generated=main.is_generated or bool(self.templates)), *others]

    def _edits(self, files: Iterable[Layer]) -> list[FileEdit]:
        return layers.edits(files, is_made_anew=self.merges or bool(self.templates))

    def _target(self, root: Path, files: Sequence[Layer], new: Addition, *, merges: bool) -> Path:
        """Return the file to edit: our drop-in where it is read and merged, else the one that counts.

        Raises CgpuError where neither can be.
        """
        main = files[0]
        if self.merges:
            if main.before is not None and not main.is_generated:
                raise CgpuError(
                    f"{main.path}: is not managed by {self.name}, which reads no {self.folders[0]} then: "
                    f"cgpu-runtime-config containerd --config {self.path}, then restart {self.name}"
                )
            return below(root, f"{self.folders[0]}/{DROP_IN}")
        folder = self._imported(main) if merges and new.plugin != PLUGINS[1] else None
        if folder:
            return below(root, f"{folder}/{DROP_IN}")
        if self.templates:
            return below(root, self._template(main, new))
        owners = [file.path for file in files if toml.child(file.settings, "plugins", new.plugin) is not None]
        return owners[-1] if owners and (new.default or not merges) else main.path

    def _imported(self, main: Layer) -> str | None:
        """Return the folder from which the main file imports a drop-in of ours, the usual one first."""
        patterns = [os.path.split(one) for one in _patterns(main.settings, self.path) if self.folders]
        found = [where for where, name in patterns if "*" not in where and fnmatch.fnmatchcase(DROP_IN, name)]
        return next((folder for folder in (*self.folders, *found) if folder in found), None)

    def _template(self, main: Layer, new: Addition) -> str:
        if main.before is None:
            raise CgpuError(f"{main.path}: is not there yet: start {self.name} first")
        if new.default:
            raise CgpuError(
                f"{main.path}: {self.name} makes it at each start, with the default runtime of its own "
                f"settings: set {self.default_setting}, and leave out --default-runtime"
            )
        return self.templates.get(new.version) or list(self.templates.values())[-1]

    def _with_others(self, root: Path, files: Sequence[Layer]) -> list[Layer]:
        """Return the files, and those of ours that nothing may read now. Raises CgpuError."""
        places = [below(root, f"{folder}/{DROP_IN}") for folder in self.folders]
        places += [path for name in self.templates.values() if _has_ours(path := below(root, name), root)]
        there = {file.path for file in files}
        return [*files, *(layers.load(path, root, our_entries) for path in places if path not in there)]


def _has_ours(template: Path, root: Path) -> bool:
    """Return whether a template names our program: others are no TOML, and are not read."""
    return LAUNCHER_NAME in read_text(template, root)


def our_entries(settings: Mapping[str, object]) -> layers.Places:
    """Return the tables that are ours, whoever wrote the file: nvidia-ctk copies them, with all runtimes."""
    return tuple(place for find in OUR_TABLES for place in find(settings))


def _has_runtime(files: Iterable[Layer], table: tuple[str, ...]) -> bool:
    """Return whether somebody else has a runtime of our name."""
    return any(toml.child(file.settings, *table, "runtimes", NAME) is not None for file in files)


def _refuse_v1(main: Layer, version: tuple[int, int]) -> None:
    """Raise CgpuError where containerd would overlook what is added."""
    if LOSES_V1[0] <= version <= LOSES_V1[1] and version_of(main.settings) == 1:
        raise CgpuError(
            f"{main.path}: version: 1: containerd {version[0]}.{version[1]} overlooks what such a file says "
            "of CRI; expected 2 or 3: write it anew, by containerd 1.x: containerd config dump"
        )


def read_files(main: Path, root: Path) -> list[Layer]:
    """Return the main file and what it imports, in the order of reading. Raises CgpuError."""
    found: list[Layer] = []
    pending = [main]
    while pending:
        path = pending.pop(0)
        if any(layer.path == path for layer in found):
            continue
        if len(found) == layers.MAX_FILES:
            raise CgpuError(f"{main}: imports: expected at most {layers.MAX_FILES} files")
        layer = layers.load(path, root, our_entries)
        found.append(layer)
        pending += _imported(layer, root)
    return found


def merged(files: Sequence[Layer], *, merges: bool) -> dict[str, object]:
    """Return the settings in force. merges: by key; else a later plugin takes the place of a former one."""
    result: dict[str, object] = {}
    for file in files:
        former, plugins = result.get("plugins"), file.settings.get("plugins")
        result = layers.over(result, file.settings)
        if not merges and isinstance(plugins, dict):
            result["plugins"] = {**(former if isinstance(former, dict) else {}), **plugins}
    return result


def _patterns(settings: Mapping[str, object], main: str) -> list[str]:
    given = settings.get("imports")
    folder = os.path.dirname(main)
    return (
        [os.path.normpath(os.path.join(folder, str(one))) for one in given] if isinstance(given, list) else []
    )


def _imported(layer: Layer, root: Path) -> list[Path]:
    found: list[Path] = []
    inside = "/" + os.path.relpath(layer.path, root)
    for pattern in _patterns(layer.settings, inside):
        inner = pattern.lstrip("/")
        names = glob.glob(inner, root_dir=root, include_hidden=True) if "*" in pattern else [inner]
        found += [root / name for name in sorted(names) if (root / name).exists()]
    return found


def _place(files: Sequence[Layer], path: Path) -> int:
    """Return where a drop-in that is not there yet comes in the order of reading."""
    before = [at for at, file in enumerate(files) if file.path.parent == path.parent and file.path < path]
    return max(before, default=0) + 1


def ended(command: list[str]) -> Ended:
    """Ask ctr for all namespaces, docker's among them. Raises CgpuError."""
    found: Ended = {}
    for namespace in lines_of([*command, "namespaces", "ls", "--quiet"]):
        inside = [*command, "--namespace", namespace]
        found |= dict.fromkeys(lines_of([*inside, "containers", "ls", "--quiet"]), True)
        # A container without a task has no process.
        found |= ended_tasks(lines_of([*inside, "tasks", "ls"]))
    return found


def ended_tasks(lines: Iterable[str]) -> Ended:
    """Read the table of `ctr tasks ls`: TASK, PID, STATUS."""
    rows = (line.split() for line in lines)
    return {row[0]: is_ended(row[2]) for row in rows if len(row) == 3 and row[0] != "TASK"}


def named(root: Path, state: str) -> list[dict[str, object]]:
    """Return Id and Names of the containers of pods, named by namespace, pod and container.

    The shims' folders say it, which only root can write: no program is asked.
    """
    tasks = f"{state}/{TASKS}"
    folders = [
        f"{tasks}/{namespace}/{identity}"
        for namespace in _names(root, tasks)
        if namespace != OF_DOCKER
        for identity in _names(root, f"{tasks}/{namespace}")
    ]
    found: list[dict[str, object]] = []
    for folder in folders[:MOST_TASKS]:
        name = _pod(_text(root, f"{folder}/config.json"), CONTAINER)
        if name:
            found.append({"Id": folder.rpartition("/")[2], "Names": [name]})
    return found


def _pod(spec: str, *more: str) -> str | None:
    """Return the namespace and name of a container's pod, None for one that is in none.

    more: further annotations that it must have, whose values are appended.
    """
    try:
        notes = json.loads(spec or "null").get("annotations")
        return "/".join(str(notes[key])[:NAME_MAX] for key in (*POD, *more))
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        return None


def _names(root: Path, folder: str) -> list[str]:
    try:
        return sorted(os.listdir(below(root, folder)))
    except OSError:
        return []


def _text(root: Path, path: str) -> str:
    """Return a file's text, empty where it cannot be read: a task may end at any moment."""
    try:
        return read_text(below(root, path), root)
    except CgpuError:
        return ""
