# SPDX-License-Identifier: Apache-2.0
"""cgpu-runtime-config: tell docker, containerd or podman about the runtime."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.runtime_config import containerd, docker, podman
from cgpu.runtime_config.files import read_text, replace_text

LAUNCHER = Path(__file__).resolve().parent / "launcher" / "cgpu-container-runtime"


@dataclass(frozen=True)
class Engine:
    """How one container engine is told. restart is the command after which it knows, empty for none."""

    path: str
    restart: str
    add: Callable[[str, str], str]
    remove: Callable[[str], str]


ENGINES = {
    "docker": Engine(docker.PATH, docker.RESTART, docker.add, docker.remove),
    "containerd": Engine(containerd.PATH, containerd.RESTART, containerd.add, containerd.remove),
    "podman": Engine(podman.PATH, podman.RESTART, podman.add, podman.remove),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when the settings are as asked, 1 after one line of error."""
    options = _parser().parse_args(arguments)
    try:
        _configure(options)
    except CgpuError as error:
        sys.stderr.write(f"cgpu-runtime-config: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cgpu-runtime-config", description=__doc__)
    parser.add_argument("engine", choices=tuple(ENGINES))
    parser.add_argument("--config", type=Path, metavar="PATH", help="the engine's settings file")
    parser.add_argument(
        "--runtime", type=Path, metavar="PATH", default=LAUNCHER, help="cgpu-container-runtime"
    )
    parser.add_argument("--remove", action="store_true", help="take the runtime out again")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    return parser


def _configure(options: argparse.Namespace) -> None:
    engine = ENGINES[options.engine]
    path = options.config or Path(engine.path)
    before = read_text(path)
    after = engine.remove(before) if options.remove else engine.add(before, _runtime(options.runtime))
    if after == before:
        sys.stdout.write(f"{path}: nothing to change\n")
        return
    if options.dry_run:
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(old, new, str(path), str(path)))
        return
    replace_text(path, after)
    advice = f"; now: {engine.restart}" if engine.restart else ""
    sys.stdout.write(f"{path}: runtime cgpu {'removed' if options.remove else 'added'}{advice}\n")


def _runtime(path: Path) -> str:
    if path.is_absolute() and path.is_file() and os.access(path, os.X_OK):
        return str(path)
    raise CgpuError(
        f"--runtime {path}: the absolute path of cgpu-container-runtime is accepted; build it: make build"
    )


if __name__ == "__main__":
    sys.exit(main())
