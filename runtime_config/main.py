# SPDX-License-Identifier: Apache-2.0
"""cgpu-runtime-config: tell a container engine about the runtime."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit, diff, obstacles
from cgpu.runtime_config import files
from cgpu.runtime_config.engines.docker import SAVED
from cgpu.runtime_config.engines.engine import ContainerEngine, Desired
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER, low_level

ROOT = Path("/")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when the settings are as asked, 1 after one line of error."""
    options = parser().parse_args(arguments)
    try:
        _configure(options, _engine(options.engine, options.config))
    except CgpuError as error:
        sys.stderr.write(f"cgpu-runtime-config: {error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu-runtime-config",
        description=__doc__,
        examples=(
            "cgpu-runtime-config docker --dry-run",
            "cgpu-runtime-config docker",
            "cgpu-runtime-config containerd --remove",
        ),
    )
    made.add_argument("engine", choices=tuple(ENGINES), help="the container engine")
    made.add_argument("--config", type=Path, metavar="PATH", help="the engine's settings file")
    made.add_argument("--runtime", type=Path, metavar="PATH", default=LAUNCHER, help="cgpu-container-runtime")
    made.add_argument(
        "--default-runtime", action="store_true", help="use it for containers that name no runtime"
    )
    made.add_argument("--remove", action="store_true", help="take the runtime out again")
    made.add_argument("--dry-run", action="store_true", help="only show what would change")
    return made


def _engine(name: str, config: Path | None) -> ContainerEngine:
    engine = ENGINES[name]
    if config is None:
        return engine
    try:
        path = os.path.abspath(config)
    except OSError as error:
        raise CgpuError(f"--config {config}: the folder that this is in is gone: cd /") from error
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise CgpuError(
            f"--config {config}: there is no folder {folder}; expected {name}'s own: mkdir -p {folder}"
        )
    return engine.with_settings(path)


def _configure(options: argparse.Namespace, engine: ContainerEngine) -> None:
    command = " ".join(engine.reload())
    if options.remove:
        edits = engine.plan_remove(ROOT)
        if engine.plan_release(ROOT):
            # A reload would leave the runtime in the engine, and may end it (plan_release).
            command = command.replace("try-reload-or-restart", "restart")
    else:
        runtime = _runtime(options.runtime)
        if engine.is_runtime:
            _runtime(Path(low_level(str(runtime))))
        edits = engine.plan_add(ROOT, Desired(runtime, default=options.default_runtime))
    if not edits:
        sys.stdout.write(f"{options.config or engine.name}: nothing to change\n")
    elif options.dry_run:
        for edit in edits:
            lines = diff(str(edit.path), edit.before, edit.after)
            sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.writelines(f"problem: {line}\n" for line in obstacles(ROOT, edits))
    else:
        _make(engine, edits)
        done = ("removed" if options.remove else "added") + (f"; now: {command}" if command else "")
        for edit in edits:
            if not edit.path.name.endswith(SAVED):
                sys.stdout.write(f"{edit.path}: runtime cgpu {done}\n")


def _make(engine: ContainerEngine, edits: Sequence[FileEdit]) -> None:
    """Make edits, and let the engine check them; after a failure files are as before. Raises CgpuError."""
    if lines := list(obstacles(ROOT, edits)):
        raise CgpuError(f"{'; '.join(lines)}; nothing was changed")
    files.apply(edits)
    try:
        engine.check(ROOT)
    except BaseException:
        files.take_back(edits)
        raise


def _runtime(path: Path) -> Path:
    if path.is_absolute() and path.is_file() and os.access(path, os.X_OK):
        return path
    raise CgpuError(
        f"--runtime {path}: expected the absolute path of cgpu-container-runtime; build it: make build"
    )


if __name__ == "__main__":
    sys.exit(main())
