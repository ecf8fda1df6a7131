# SPDX-License-Identifier: Apache-2.0
"""The programs that run once per container: hook, launcher, interpreter."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import cgpu
from cgpu import distribution, paths
from cgpu.config import effective
from cgpu.errors import CgpuError
from cgpu.install.checks.finding import Finding, ok, problem
from cgpu.install.node.facts import programs
from cgpu.runtime_config.oci_runtime.edit import HOOK_PATH
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER, find, low_level
from cgpu.runtime_config.programs import numbers

FIRST_PYTHON = (3, 11)
OTHERS = stat.S_IWGRP | stat.S_IWOTH
BUILD = "install the package again, or in a checkout: make build"
PYTHON = re.compile(r"python3(\.\d+)?")
IN_PYTHON = "start.py"  # beside the hook, as in hook/cgpu_hook.h
START_S = 10.0


def interpreter(path: str = paths.PYTHON) -> list[Finding]:
    """Whether hook and runtime find a Python that can run them."""
    said = programs.output(path, "-IS", "-c", "import sys; print(*sys.version_info[:3], sep='.')")
    if said is None:
        return problem("interpreter", f"{path} does not run", _install_python(path))
    if numbers(said) < FIRST_PYTHON:
        expected = ".".join(map(str, FIRST_PYTHON))
        fix = f"install Python {expected} or newer as {path}"
        return problem("interpreter", f"{path}: Python {said.strip()}: expected {expected} or newer", fix)
    return ok("interpreter", f"{path}: Python {said.strip()}")


def _install_python(path: str) -> str:
    """Return the command that installs an interpreter: /usr/bin/python3.12 is the package python3.12."""
    folder, name = os.path.split(path)
    package = name if folder == "/usr/bin" and PYTHON.fullmatch(name) else "python3"
    return distribution.install_command(package, distribution.here())


def launcher(path: str = LAUNCHER) -> list[Finding]:
    """Whether the runtime is there and reaches the one below it."""
    for one in (path, low_level(path)):
        if not _is_program(one):
            return problem("runtime", f"{one}: is not there, or no program", BUILD)
    if programs.output(path, "--version", timeout_s=START_S) is None:
        return problem("runtime", f"{path}: does not start a low-level runtime", _cure(path))
    return ok("runtime", f"{path} starts its low-level runtime")


def _cure(path: str) -> str:
    """Return what helps where no low-level runtime starts: it names the one that is set."""
    try:
        found = find(effective.load().low_level_runtime, plain=False)
    except CgpuError as error:
        return str(error)
    return f"{path} --version; {found} --version; another one: cgpu config set low_level_runtime PATH --apply"


def hook(path: str = HOOK_PATH) -> list[Finding]:
    """Whether the hook is there, and what it hands calls over to that need Python."""
    if not _is_program(path):
        return problem("hook", f"{path}: is not there, or no program", BUILD)
    script = os.path.join(os.path.dirname(os.path.realpath(path)), IN_PYTHON)
    if not os.path.isfile(script):
        return problem("hook", f"{script}: is not there", BUILD)
    return ok("hook", path)


def ownership(files: tuple[str, ...] = (), top: str = "/") -> list[Finding]:
    """Whether only root can change what root runs for each container."""
    package = Path(cgpu.__file__).resolve().parent
    looked_at = files or (
        LAUNCHER,
        low_level(LAUNCHER),
        HOOK_PATH,
        paths.PYTHON,
        str(package / "effective.py"),
    )
    open_to = sorted({str(path) for file in looked_at for path in _writable(Path(file), Path(top))})
    if open_to:
        fix = f"chown root:root {' '.join(open_to)}; chmod go-w {' '.join(open_to)}"
        return problem("ownership", f"{', '.join(open_to)}: others than root may write there", fix)
    return ok("ownership", "only root can change hook, runtime and interpreter")


def _writable(file: Path, top: Path) -> list[Path]:
    """Return what on the way to a file, links resolved, others than root may write."""
    found: list[Path] = []
    path = file.resolve()
    while path not in (top, path.parent):
        try:
            about = path.stat()
        except OSError:
            return found
        shared = stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX
        if about.st_uid != 0 or (about.st_mode & OTHERS and not shared):
            found.append(path)
        path = path.parent
    return found


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
