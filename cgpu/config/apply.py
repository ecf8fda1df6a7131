# SPDX-License-Identifier: Apache-2.0
"""cgpu-config-apply: check the node's configuration and put it in force in a loaded kernel module."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cgpu import __version__, cdi_devices, paths
from cgpu.arguments import Parser
from cgpu.check_driver.run import DEV, assure_unknown
from cgpu.client.tree import EngineDownError, Tree
from cgpu.config import effective, refused
from cgpu.config.load import load, write_effective
from cgpu.errors import CgpuError
from cgpu.kmod.abi.rows.files import Row, read
from cgpu.runtime_config.oci_runtime import lowlevel

if TYPE_CHECKING:
    from cgpu.config.effective import Effective

# Keys by where the module has them.
ROOT_KEYS = ("default_memsize",)
GPU_KEYS = ("max_inst", "policy", "prio_ratio")
SWITCHES = ("enforce", "allow_zero_weight", "allow_unknown_driver", "managed_memory", "count_pages")
VALUES = ("context_memory", "page_margin", "drift_tolerance", "drift_reaction", "slice_us")
ROW_S = 20.0  # until the module has taken a row
ROW_ROUND_S = 0.5


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu-config-apply",
        description=__doc__.partition(": ")[2],
        examples=("cgpu-config-apply", "cgpu-config-apply --config trial.yaml"),
    )
    made.add_argument("--config", type=Path, metavar="FILE", help=f"configuration (default {paths.CONFIG})")
    made.add_argument("--version", action="version", version=f"cgpu-config-apply {__version__}")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when the configuration is in force, 1 after one line of error."""
    options = parser().parse_args(arguments)
    try:
        apply(_load(options.config))
    except CgpuError as error:
        sys.stderr.write(f"cgpu-config-apply: {error}\n")
        return 1
    return 0


def _load(given: Path | None) -> Effective:
    """Read the configuration; let the runtime know why that of the node is refused. Raises CgpuError."""
    try:
        config = load(given or paths.CONFIG, required=given is not None)
    except CgpuError as error:
        if given is None:
            refused.note(paths.CONFIG, str(error))
        raise
    with contextlib.suppress(OSError):
        refused.forget()
    return config


def apply(config: Effective) -> None:
    """Give a checked configuration to the module, then to hook and runtime.

    Raises CgpuError; everything is as before then.

    The first time after the module was loaded, everything is written. Later only keys whose value has changed
    are: a value that was written to a node by hand meanwhile stays.
    """
    tree = _tree(config)
    rows = _give_row(tree)
    before = effective.load(paths.EFFECTIVE) if effective.is_configured() else None
    changed = [
        key for key, value in config.to_dict().items() if before is None or getattr(before, key) != value
    ]
    if "low_level_runtime" in changed:
        lowlevel.check(config.low_level_runtime)
    with contextlib.ExitStack() as undo:
        for key in (*SWITCHES, *VALUES):
            _set_parameter(key, getattr(config, key), undo)
        for key, node in nodes(tree, changed):
            _write(tree, node, str(getattr(config, key)), undo)
        _write_effective(config)
        undo.pop_all()
    _publish_devices(tree)
    if not _has_word(tree, "driver=row"):
        _check_driver(rows)
    try:
        Path(paths.CONFIGURED).write_text("Y")
    except OSError as error:
        raise CgpuError(f"{paths.CONFIGURED}: cannot be written: {error.strerror}") from error


def _tree(config: Effective) -> Tree:
    if not paths.is_module_loaded():
        tree = Tree(paths.TREE_DAEMON)
        with contextlib.suppress(EngineDownError):
            engine = tree.read("engine").partition(" ")[0]
            raise CgpuError(
                f"{tree.path}: {engine} reads its configuration itself: {paths.daemon_command('reload')}"
            )
        raise CgpuError(f"{paths.TREE_MODULE}: the kernel module is not loaded: modprobe cgpu_km")
    if config.tree not in (None, paths.TREE_MODULE):
        raise CgpuError(
            f"tree: {config.tree}: the kernel module is loaded; expected {paths.TREE_MODULE} or null"
        )
    return Tree(paths.TREE_MODULE)


def nodes(tree: Tree, keys: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield those of the keys that the tree has nodes for, each with every node."""
    yield from ((key, (key,)) for key in ROOT_KEYS if key in keys)
    for gpu in tree.gpus():
        yield from ((key, (str(gpu.index), key)) for key in GPU_KEYS if key in keys)


def _write(tree: Tree, node: tuple[str, ...], value: str, undo: contextlib.ExitStack) -> None:
    old = tree.read(*node)
    if old != value:
        tree.write(value, *node)
        undo.callback(tree.write, old, *node)


def _set_parameter(key: str, given: str | int, undo: contextlib.ExitStack) -> None:
    """Set a parameter of the module. Raises CgpuError where it is another one and cannot be changed."""
    path = Path(paths.PARAMETERS, key)
    value = ("Y" if given else "N") if isinstance(given, bool) else str(given)
    try:
        old = path.read_text().strip()
        if old != value:
            path.write_text(value)
            undo.callback(_restore, path, old)
    except OSError as error:
        word = int(given) if isinstance(given, bool) else given
        again = f"unload it, then: modprobe cgpu_km {key}={word}; cgpu-config-apply"
        raise CgpuError(
            f"{key}: {str(given).lower()}: cannot be set in the loaded module ({error.strerror}): {again}"
        ) from error


def _restore(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        path.write_text(text)


def _give_row(tree: Tree) -> str:
    """Give the module the row of its driver, if a signed file has one; return the rows where it counts.

    What is wrong with a file, or keeps its row from counting, is said and leaves the node as it was.
    """
    try:
        version = Path(paths.DRIVER_MODULE, "version").read_text().strip()
    except OSError:  # no driver is loaded
        return ""
    rows = read()
    row = rows.of(version)
    said = [*rows.problems]
    # A file that has become wrong takes no row out of force.
    if row or not said:
        said += _write_row(tree, version, row)
    sys.stderr.writelines(f"cgpu-config-apply: {line}\n" for line in said)
    return "" if _is_provisional(tree) else rows.text()


def _write_row(tree: Tree, version: str, row: Row | None) -> Iterator[str]:
    """Write the row, or that there is none, until the module has taken it; give a line where it does not."""
    deadline = time.monotonic() + ROW_S
    try:
        Path(paths.PARAMETERS, "driver_row").write_text(f"{row.line if row else ''}\n")
        while row and _is_provisional(tree) and time.monotonic() < deadline:
            time.sleep(ROW_ROUND_S)
            # The module tries once for each write, and not beside a container or a call of one.
            Path(paths.PARAMETERS, "driver_row").write_text(f"{row.line}\n")
    except OSError as error:
        yield f"driver_row: {error.strerror}: stop the containers with slices, then: cgpu-config-apply"
        return
    if row and _is_provisional(tree):
        yield (
            f"driver_row: not taken within {ROW_S:.0f} seconds: end what is left of removed containers, "
            "or load a cgpu_km of this release, then: cgpu-config-apply"
        )
    elif row and not _has_word(tree, "driver=row"):
        again = f"{paths.DRIVER_ANEW}; cgpu-config-apply"
        yield f"NVIDIA driver {version}: was refused before it had its row: {again}"


def _is_provisional(tree: Tree) -> bool:
    return _has_word(tree, "driver=provisional")


def _has_word(tree: Tree, word: str) -> bool:
    return word in tree.read("engine").split()


def _check_driver(rows: str) -> None:
    """Check a driver that is not in the table; where it passes, name it to the module. Raises CgpuError."""
    if not Path(paths.DRIVER_MODULE).exists():
        return
    outcome = assure_unknown(DEV, rows)
    if not outcome.known:
        try:
            Path(paths.PARAMETERS, "driver_checked").write_text(outcome.driver)
        except OSError as error:
            raise CgpuError(f"driver_checked: cannot be written: {error.strerror}") from error


def _publish_devices(tree: Tree) -> None:
    with contextlib.suppress(OSError, CgpuError):  # the variables name GPUs as well
        cdi_devices.publish(((gpu.index, gpu.uuid) for gpu in tree.gpus()), Path(paths.CDI_DEVICES))


def _write_effective(config: Effective) -> None:
    path = Path(paths.EFFECTIVE)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CgpuError(
            f"{path.parent}: cannot be made: {error.strerror}; run cgpu-config-apply as root"
        ) from error
    write_effective(config, path)
    with contextlib.suppress(OSError):  # the wrapper then looks for the runtime at each call
        lowlevel.keep_links(config.low_level_runtime, paths.LOW_LEVEL, paths.LOW_LEVEL_PLAIN)


if __name__ == "__main__":
    sys.exit(main())
