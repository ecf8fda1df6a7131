# SPDX-License-Identifier: Apache-2.0
"""What the settings of container engines say of us: our runtime and the default one, and nothing else."""

from __future__ import annotations

import glob
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cgpu.install.node.facts import files
from cgpu.runtime_config.oci_runtime.lowlevel import LOW_LEVEL
from cgpu.runtime_config.oci_runtime.lowlevel import NAME as LAUNCHER

NAME = "cgpu"
MAX_FILES = 64
DOCKER = "/etc/docker/daemon.json"
CONTAINERD = ("/etc/containerd/config.toml", "/etc/containerd/conf.d")
CONTAINERD_PLUGINS = ("cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
CRIO = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d")
PODMAN = ("/etc/containers/containers.conf", "/etc/containers/containers.conf.d")
NVIDIA = "/etc/nvidia-container-runtime/config.toml"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one file says. runtime: the path it names for ours. default: the default runtime's name."""

    engine: str
    file: str
    runtime: str | None = None
    default: str | None = None
    problem: str | None = None


def gather(root: Path) -> tuple[Entry, ...]:
    """Read every settings file that is there."""
    return (
        *_docker(root),
        *_tomls(root, "containerd", CONTAINERD),
        *_tomls(root, "crio", CRIO),
        *_tomls(root, "podman", PODMAN),
        *_tomls(root, "nvidia", (NVIDIA,)),
    )


def parse_docker(text: str) -> Entry:
    """Read a daemon.json."""
    document: object = json.loads(text.removeprefix("\ufeff")) if text.strip() else {}
    runtime = _child(document, "runtimes", NAME, "path")
    return Entry("docker", DOCKER, _word(runtime), _word(_child(document, "default-runtime")))


def parse_toml(engine: str, file: str, text: str) -> Entry:
    """Read a settings file of one of the others."""
    document = tomllib.loads(text)
    runtime, default = {
        "containerd": _containerd,
        "crio": _crio,
        "podman": _podman,
        "nvidia": _nvidia,
    }[engine](document)
    return Entry(engine, file, _word(runtime), _word(default))


def _docker(root: Path) -> Iterator[Entry]:
    text = files.text(root, DOCKER)
    if text is None:
        return
    try:
        yield parse_docker(text)
    except (ValueError, RecursionError):
        yield Entry("docker", DOCKER, problem="is not JSON")


def _tomls(root: Path, engine: str, places: tuple[str, ...]) -> Iterator[Entry]:
    for file in _files(root, places)[:MAX_FILES]:
        text = files.text(root, file)
        if text is None:
            continue
        try:
            yield parse_toml(engine, file, text)
        except (tomllib.TOMLDecodeError, RecursionError):
            yield Entry(engine, file, problem="is not TOML")


def _files(root: Path, places: tuple[str, ...]) -> list[str]:
    found = []
    for place in places:
        inside = [f"{place}/{name}" for name in files.names(root, place) if name.endswith((".toml", ".conf"))]
        found += inside or [place]
    return [*found, *sorted(_imports(root, found))]


def _imports(root: Path, known: list[str]) -> set[str]:
    """Return the further files that a containerd configuration names."""
    imported: set[str] = set()
    for file in known:
        try:
            document = tomllib.loads(files.text(root, file) or "")
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        patterns = document.get("imports")
        for pattern in patterns if isinstance(patterns, list) else []:
            # Not Path.glob(): it refuses forms that containerd takes, such as conf.d/**.toml.
            inner = str(pattern).lstrip("/") if str(pattern).startswith("/") else ""
            found = sorted(glob.glob(inner, root_dir=root, include_hidden=True)) if "\0" not in inner else []
            imported |= {f"/{name}" for name in found[:MAX_FILES]}
    return imported - set(known)


def _containerd(document: object) -> tuple[object, object]:
    runtimes, defaults = [], []
    for plugin in CONTAINERD_PLUGINS:
        at = _child(document, "plugins", plugin, "containerd")
        runtimes.append(_child(at, "runtimes", NAME, "options", "BinaryName"))
        defaults.append(_child(at, "default_runtime_name"))
    return _first(runtimes), _first(defaults)


def _crio(document: object) -> tuple[object, object]:
    at = _child(document, "crio", "runtime")
    return _child(at, "runtimes", NAME, "runtime_path"), _child(at, "default_runtime")


def _podman(document: object) -> tuple[object, object]:
    paths = _child(document, "engine", "runtimes", NAME)
    return (paths[0] if isinstance(paths, list) and paths else None), _child(document, "engine", "runtime")


def _nvidia(document: object) -> tuple[object, object]:
    paths = _child(document, "nvidia-container-runtime", "runtimes")
    ours = [one for one in paths if _is_ours(one)] if isinstance(paths, list) else []
    return (ours[0] if ours else None), None


def _child(parent: object, *names: str) -> object:
    """Return a value deep in a document, None where a name on the way is missing."""
    for name in names:
        parent = parent.get(name) if isinstance(parent, dict) else None
    return parent


def _is_ours(path: object) -> bool:
    return isinstance(path, str) and path.rpartition("/")[2] in (LAUNCHER, LOW_LEVEL)


def _first(values: list[object]) -> object:
    return next((value for value in values if value is not None), None)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 4096 else None
