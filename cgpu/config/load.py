# SPDX-License-Identifier: Apache-2.0
"""The node's configuration: /etc/cgpu/config.yaml, checked against its schema.

For the engine and the tools. Programs that must start fast read what the engine wrote (effective.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jsonschema import Draft202012Validator

from cgpu import paths, suggest
from cgpu.config.effective import CLOSED, Effective
from cgpu.config.schema import schema
from cgpu.config.words import meant, shown
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded
from cgpu.replace import replace_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema.exceptions import ValidationError

MAX_BYTES = 1 << 20
MAX_BITS = 128
# PyYAML raises more than its own: for a tag whose value does not fit, a date that is none, depth without end.
NOT_YAML = (
    yaml.YAMLError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

INT, FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
OTHER_DIGITS = re.compile("^[-+]?0[0-9bx]|[_:]")


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice, and that takes 010, 0x10, 1_0 and 1:30 for texts.

    PyYAML takes them for 8, 16, 10 and 90: amounts here have the usual digits alone.
    """

    def lines(self, root: yaml.Node | None) -> dict[str, int]:
        """Return the line of each key of the document."""
        pairs = root.value if isinstance(root, yaml.MappingNode) else []
        return {key.value: key.start_mark.line + 1 for key, _ in pairs if isinstance(key, yaml.ScalarNode)}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002, PyYAML's
        """Build a mapping. Raises CgpuError for a key given twice."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                line = key.start_mark.line + 1
                raise CgpuError(f"{self.name}:{line}: {show(key.value)}: given twice; keep one")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

    def construct_number(self, node: yaml.ScalarNode) -> object:
        """Return a number of the usual digits, the text of any other."""
        if OTHER_DIGITS.search(node.value):
            return node.value
        return self.construct_yaml_int(node) if node.tag == INT else self.construct_yaml_float(node)


for tag in (INT, FLOAT):
    _Loader.add_constructor(tag, _Loader.construct_number)


def load(path: str | Path = paths.CONFIG, *, required: bool = False) -> Effective:
    """Read and check a configuration file; the defaults when it is absent and not required.

    Raises CgpuError with one line that names the line of the file, the key, its value and what is expected.
    """
    try:
        raw = read_bounded(str(Path(path).resolve()), MAX_BYTES)
    except FileNotFoundError as error:
        if not required:
            return Effective()
        raise CgpuError(
            f"{path}: there is no such file; expected the path of a configuration, such as {paths.CONFIG}"
        ) from error
    except (OSError, RuntimeError) as error:
        raise CgpuError(f"{path}: cannot be read: {unread(error)}") from error
    return check_bytes(raw, str(path))


def unread(error: Exception) -> str:
    """Return why a configuration file cannot be read, and what helps."""
    circle = "links go in a circle"
    reason = getattr(error, "strerror", None) or (circle if isinstance(error, RuntimeError) else error)
    if isinstance(error, IsADirectoryError):
        return f"{reason}; expected a file"
    return f"{reason}; run it as root, such as by sudo" if isinstance(error, PermissionError) else str(reason)


def check_bytes(raw: bytes, source: str) -> Effective:
    """Return the configuration that a file's bytes say, with defaults. Raises CgpuError like load()."""
    document, lines = _parsed(raw, source)
    return check(document, source, lines)


def check(document: object, source: str, lines: Mapping[str, int] | None = None) -> Effective:
    """Return the configuration a document says, with defaults. Raises CgpuError, whose message names source.

    lines: the line of each key in a file.
    """
    if document is None:
        return Effective()
    if not isinstance(document, dict):
        what = show(document)
        raise CgpuError(
            f"{source}: {what}: expected lines of the form KEY: VALUE, with a blank behind the colon"
        )
    properties = schema()["properties"]
    for key, value in document.items():
        if key not in properties:
            raise unknown_key(f"{_at(source, key, lines)}: {show(key)}: {shown(value)}", key)
        if _is_unfit(value):
            raise _misfit(_at(source, key, lines), key, value)
    _refuse_contradiction(document, source, lines)
    problem: ValidationError | None = next(iter(Draft202012Validator(schema()).iter_errors(document)), None)
    if problem is not None:
        key = str(problem.absolute_path[0])
        raise _misfit(_at(source, key, lines), key, document[key])
    # JSON Schema takes 20.0 for a whole number.
    return Effective(**{k: int(v) if isinstance(v, float) else v for k, v in document.items()})


def _at(source: str, key: object, lines: Mapping[str, int] | None) -> str:
    """Return the place of a key for a message: FILE:LINE, where the line is known."""
    line = (lines or {}).get(str(key))
    return source if line is None else f"{source}:{line}"


def unknown_key(where: str, key: object) -> CgpuError:
    """Return the error for a key that the schema does not have. where: the message's first words."""
    meant = suggest.expected(key, list(schema()["properties"]), "every key: cgpu config explain")
    return CgpuError(f"{where}: there is no such key; {meant}")


def accepted(key: str) -> str:
    """Return in words what a key accepts."""
    rule: Mapping[str, Any] = schema()["properties"][key]
    kinds = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    if "enum" in rule:
        return suggest.one_of(rule["enum"])
    if "boolean" in kinds:
        return "true or false"
    if "names" in rule:
        return ", ".join(f"{number} ({name})" for number, name in enumerate(rule["names"]))
    words = "an absolute path"
    if "integer" in kinds:
        words = f"a whole number from {rule['minimum']} to {rule['maximum']}"
    return words + (" or null" if "null" in kinds else "")


def write_effective(config: Effective, path: str | Path = paths.EFFECTIVE) -> None:
    """Put the configuration where hooks read it: all at once, mode 0600. Raises CgpuError."""
    try:
        replace_text(Path(path), json.dumps(config.to_dict(), indent=1) + "\n")
    except OSError as error:
        raise CgpuError(f"{path}: cannot be written: {error.strerror}") from error


def _is_unfit(value: object) -> bool:
    """Tell whether no key takes such a value, and the validator had better not see it."""
    if isinstance(value, str):
        # Halves of characters are in no path.
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, int):
        return value.bit_length() > MAX_BITS
    # The validator shows all of it. A list of lists by reference is small here and endless then.
    return isinstance(value, (dict, list, set, tuple))


def _refuse_contradiction(document: Mapping[str, Any], source: str, lines: Mapping[str, int] | None) -> None:
    opened = next((key for key in CLOSED if document.get(key) is True), None)
    if document.get("shared_node") is True and opened is not None:
        raise CgpuError(
            f"{_at(source, opened, lines)}: {opened}: true: shared_node: true forbids it; expected one of "
            "them: leave out the other"
        )


def _misfit(place: str, key: str, value: object) -> CgpuError:
    rule = schema()["properties"][key]
    default = json.dumps(rule["default"])
    unit = f", in {rule['unit']}" if "unit" in rule else ""
    wanted = f"{accepted(key)}{unit}"
    hint = meant(value, rule)
    if key == "policy" and value is not None:
        return CgpuError(
            f"{place}: policy {shown(value)} does not exist; expected {wanted} (default {default}){hint}"
        )
    return CgpuError(f"{place}: {key}: {shown(value)}: expected {wanted} (default {default}){hint}")


def parse(raw: bytes, source: str) -> object:
    """Return what a configuration file's bytes say, unchecked. Raises CgpuError for what is not YAML."""
    return _parsed(raw, source)[0]


def _parsed(raw: bytes, source: str) -> tuple[object, dict[str, int]]:
    loader = None
    try:
        loader = _Loader(raw)
        loader.name = source
        root = loader.get_single_node()
        document = loader.construct_document(root) if root is not None else None
        return document, loader.lines(root)
    except NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark is not None else source
        why = getattr(error, "problem", None) or "see yaml.org"
        raise CgpuError(f"{where}: is not YAML ({show(why)}): expected lines KEY: VALUE") from error
    finally:
        if loader is not None:
            loader.dispose()
