# SPDX-License-Identifier: Apache-2.0
"""cgpu config: show, check, set and explain the configuration, put it in force."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from cgpu import paths, replace
from cgpu.arguments import Parser
from cgpu.client.tree import Tree
from cgpu.config import apply as apply_module
from cgpu.config import effective
from cgpu.config import load as config
from cgpu.config.schema import schema
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded
from cgpu.install import lock
from cgpu.install.checks.configuration import AT_START, FIRST, differences
from cgpu.kmod.daemon import control
from cgpu.runtime_config.oci_runtime import lowlevel

AS_ROOT = "; run it as root, such as by sudo"
RELOAD_S = 10.0
PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")


def parser() -> argparse.ArgumentParser:
    out = Parser(
        prog="cgpu config",
        description="Show, check, set and explain the configuration.",
        examples=(
            "cgpu config show",
            "cgpu config explain default_memsize",
            "cgpu config set policy 2 --apply",
            "cgpu config check new.yaml",
        ),
        meant={"get": "show", "list": "show", "edit": "set", "validate": "check", "help": "explain"},
    )
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
    said = parse_document(_read(Path(paths.CONFIG)), paths.CONFIG)
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
        note += f"  # not in force: {command_after(key)}" if key in changed else ""
        print(f"{key}: {json.dumps(value)}{note}")


def _check(options: argparse.Namespace) -> None:
    file = options.file or Path(paths.CONFIG)
    lowlevel.check(config.load(file, required=options.file is not None).low_level_runtime)
    there = file.exists()
    print(f"{file}: {'valid' if there else 'is not there: the defaults hold'}")


def _set(options: argparse.Namespace) -> None:
    key, path = options.key, Path(paths.CONFIG)
    _check_known(key)
    value = parse_value(options.value, key)
    lowlevel.check(config.check({key: value}, paths.CONFIG).low_level_runtime)
    if options.apply:
        check_file()
    with lock.held(Path("/"), lambda line: print(line, file=sys.stderr)):
        before = _read(path)
        after = replace_value(before, key, value, paths.CONFIG)
        if after != before:
            _write(path, after)
    print(f"{path}: {key}: {json.dumps(value)}")
    if options.apply:
        print(f"{key}: {apply_keys((key,))}")
    else:
        print(f"to put it in force: {command_after(key).replace('VALUE', shlex.quote(options.value))}")


def _explain(options: argparse.Namespace) -> None:
    if options.key is not None:
        _check_known(options.key)
    keys = [options.key] if options.key is not None else list(schema()["properties"])
    print("\n\n".join(explanation(key) for key in keys))


def explanation(key: str) -> str:
    """Return what the schema says of a key."""
    rule = schema()["properties"][key]
    return "\n".join(
        (
            key,
            f"  {rule['description']}",
            f"  accepted: {config.accepted(key)}",
            f"  default: {json.dumps(rule['default'])}",
            f"  in force after: {command_after(key)}",
        )
    )


def _check_known(key: str) -> None:
    if key not in schema()["properties"]:
        raise config.unknown_key(show(key), key)


def _read(path: Path) -> str:
    try:
        return read_bounded(str(path.resolve()), config.MAX_BYTES).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, RuntimeError, ValueError) as error:
        raise CgpuError(f"{path}: cannot be read: {config.unread(error)}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        real = path.resolve()
        replace.write(real, text.encode(), replace.for_new_content(replace.read(real), 0o644))
    except OSError as error:
        advice = AS_ROOT if isinstance(error, PermissionError) and os.geteuid() else ""
        raise CgpuError(f"{path}: cannot be written: {error.strerror}{advice}") from error


# --- one value in the text of a file ---


def replace_value(text: str, key: str, value: object, source: str) -> str:
    """Return the text with a key's value replaced, or with a line added. Raises CgpuError."""
    before = parse_document(text, source)
    after = _replaced(text, key, _written(value), source)
    try:
        found = parse_document(after, source)
    except CgpuError:
        found = None
    if found != {**before, key: value}:
        raise CgpuError(
            f"{source}: {key}: cannot be set by this command in a file of this form; edit it by hand"
        )
    config.check_bytes(after.encode(), source)
    return after


def parse_value(word: str, key: str) -> object:
    """Return the value that a word of the command line means. Raises CgpuError for one that is no value."""
    try:
        return config.parse(os.fsencode(word), key)
    except CgpuError as error:
        raise CgpuError(f"{key}: {show(word)}: is no value; see: cgpu config explain {key}") from error


def parse_document(text: str, source: str) -> dict[str, object]:
    """Return the keys and values of a text. Raises CgpuError."""
    found = config.parse(text.encode(), source)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise CgpuError(f"{source}: expected lines of the form KEY: VALUE: cgpu config check")
    return found


def _written(value: object) -> str:
    """Return a value as it is written: a word without quotes where YAML reads it as the same."""
    plain = isinstance(value, str) and PLAIN.fullmatch(value) and config.parse(value.encode(), "") == value
    return str(value) if plain else json.dumps(value)


def _replaced(text: str, key: str, value_text: str, source: str) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for name, value in pairs:
        if isinstance(name, yaml.ScalarNode) and name.value == key:
            start, end = value.start_mark.index, value.end_mark.index
            gap = " " if text[start - 1 : start] == ":" else ""
            # A block of several lines ends behind its last newline.
            tail = "\n" if text[start:end].endswith("\n") else ""
            return text[:start] + gap + value_text + tail + text[end:]
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise CgpuError(f"{source}: expected lines of the form KEY: VALUE")
    line_end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{line_end}{key}: {value_text}\n"


# --- in force ---


def command_after(key: str) -> str:
    """Return the command after which a changed key is in force."""
    if key in FIRST and not paths.is_module_loaded():
        return f"cgpu config set {key} VALUE --apply"
    return paths.config_command("restart" if key in AT_START else "reload")


def apply_keys(keys: Sequence[str]) -> str:
    """Have the running engine take the file; return what was done. Raises CgpuError.

    keys: those that were changed. What the tree has nodes for counts for the GPUs that there are, too.
    """
    if paths.is_module_loaded():
        apply_module.apply(config.load(paths.CONFIG))
        return "in force in cgpu_km"
    status = _daemon_status()
    if status is None:
        start = paths.start_command(paths.tree(effective.load(paths.EFFECTIVE).tree))
        raise CgpuError(
            f"the engine is not running; what the file says holds from its start on; start it: {start}"
        )
    reload()
    _set_entries(Tree(str(status["tree"])), keys)
    return "in force in cgpud"


def check_file() -> None:
    """Raise CgpuError when cgpud goes by another file than the usual one."""
    file = str((_daemon_status() or {}).get("config", paths.CONFIG))
    if file != paths.CONFIG:
        raise CgpuError(f"cgpud was started with --config {file}: it does not read {paths.CONFIG}")


def _daemon_status() -> dict[str, Any] | None:
    return control.ask(paths.CONTROL_SOCKET, {"command": "status"}, RELOAD_S)


def reload() -> None:
    """Have cgpud read its file, whichever that is. Raises CgpuError."""
    answer = control.ask(paths.CONTROL_SOCKET, {"command": "reload"}, RELOAD_S)
    if answer is None or not answer.get("ok"):
        raise CgpuError(str((answer or {}).get("error", "cgpud does not answer; see its log")))


def _set_entries(tree: Tree, keys: Sequence[str]) -> None:
    """Give the GPUs that there are the changed settings: a reload counts for those that come."""
    now = effective.load(paths.EFFECTIVE)
    for key, node in apply_module.nodes(tree, keys):
        value = str(getattr(now, key))
        if tree.read(*node) != value:
            tree.write(value, *node)
