# SPDX-License-Identifier: Apache-2.0
"""cgpu config: arguments, and the only place that prints."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cgpu import paths
from cgpu.arguments import Parser
from cgpu.config import effective
from cgpu.config import load as config
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded
from cgpu.install.checks.configuration import differences
from cgpu.install.commands.config import edit
from cgpu.install.commands.config.apply import apply, check_file, command
from cgpu.install.transaction import atomic, lock

AS_ROOT = "; run it as root, such as by sudo"


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    out = Parser(prog="cgpu config", description="Show, check, set and explain the configuration.")
    actions = out.add_subparsers(dest="action", required=True)
    shown = actions.add_parser("show", help="every key: its value, and where that comes from")
    shown.add_argument("--json", action="store_true", help="one JSON document")
    checked = actions.add_parser("check", help="whether a file is valid")
    checked.add_argument("file", nargs="?", type=Path, metavar="FILE", help=f"default {paths.CONFIG}")
    put = actions.add_parser("set", help="set one key; comments and order stay")
    put.add_argument("key", metavar="KEY")
    put.add_argument("value", metavar="VALUE")
    put.add_argument("--apply", action="store_true", help="and put it in force")
    explained = actions.add_parser("explain", help="what a key means and accepts")
    explained.add_argument("key", nargs="?", metavar="KEY", help="default: every key")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0, or 1 after one line of error."""
    options = parser().parse_args(arguments)
    run = {"show": _show, "check": _check, "set": _set, "explain": _explain}[options.action]
    try:
        run(options)
    except CgpuError as error:
        print(f"cgpu config: {error}", file=sys.stderr)
        return 1
    return 0


def _show(options: argparse.Namespace) -> None:
    wanted = config.load(paths.CONFIG)
    path = Path(paths.EFFECTIVE)
    in_force = effective.load(paths.EFFECTIVE) if path.exists() else None
    said = _keys_in_file()
    changed = differences(wanted, in_force) if in_force is not None else []
    if options.json:
        rows = {
            key: {
                "value": value,
                "from": "file" if key in said else "default",
                "in_force": key not in changed,
            }
            for key, value in wanted.to_dict().items()
        }
        print(json.dumps({"file": paths.CONFIG, "keys": rows}, indent=1))
        return
    for key, value in wanted.to_dict().items():
        note = "" if key in said else "  # default"
        note += f"  # not in force: {command(key)}" if key in changed else ""
        print(f"{key}: {json.dumps(value)}{note}")


def _keys_in_file() -> set[str]:
    text = _read(Path(paths.CONFIG))
    return set(edit.document(text, paths.CONFIG))


def _check(options: argparse.Namespace) -> None:
    file = options.file or Path(paths.CONFIG)
    config.load(file, required=options.file is not None)
    there = file.exists()
    print(f"{file}: {'valid' if there else 'is not there: the defaults hold'}")


def _set(options: argparse.Namespace) -> None:
    key, path = options.key, Path(paths.CONFIG)
    _known(key)
    value = edit.value_of(options.value, key)
    config.check({key: value}, paths.CONFIG)
    if options.apply:
        check_file()
    with lock.held(Path("/"), lambda line: print(line, file=sys.stderr)):
        before = _read(path)
        after = edit.with_value(before, key, value, paths.CONFIG)
        if after != before:
            _write(path, after)
    print(f"{path}: {key}: {json.dumps(value)}")
    if options.apply:
        print(f"{key}: {apply((key,))}")
    else:
        print(f"to put it in force: {command(key).replace('VALUE', shlex.quote(options.value))}")


def _explain(options: argparse.Namespace) -> None:
    if options.key is not None:
        _known(options.key)
    keys = [options.key] if options.key is not None else list(config.schema()["properties"])
    print("\n\n".join(explanation(key) for key in keys))


def explanation(key: str) -> str:
    """Return what the schema says of a key."""
    rule = config.schema()["properties"][key]
    return "\n".join(
        (
            key,
            f"  {rule['description']}",
            f"  accepted: {config.accepted(key)}",
            f"  default: {json.dumps(rule['default'])}",
            f"  in force after: {command(key)}",
        )
    )


def _known(key: str) -> None:
    properties = config.schema()["properties"]
    if key not in properties:
        raise CgpuError(f"{show(key)}: there is no such key; accepted are {', '.join(sorted(properties))}")


def _read(path: Path) -> str:
    try:
        return read_bounded(str(path.resolve()), config.MAX_BYTES).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, RuntimeError, ValueError) as error:
        raise CgpuError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        real = path.resolve()
        now = atomic.read(real)
        meta = replace(now[1], mtime_ns=None) if now else atomic.Meta(0o644, os.geteuid(), os.getegid())
        atomic.write(real, text.encode(), meta)
    except OSError as error:
        advice = AS_ROOT if isinstance(error, PermissionError) and os.geteuid() else ""
        raise CgpuError(f"{path}: cannot be written: {error.strerror}{advice}") from error
