# SPDX-License-Identifier: Apache-2.0
"""The node's configuration: /etc/cgpu/config.yaml, checked against its schema.

For the engine and the tools. Programs that must start fast read what the engine wrote (effective.py).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jsonschema import Draft202012Validator

from cgpu import paths
from cgpu.config.effective import CLOSED, Effective
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded
from cgpu.replace import replace_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema.exceptions import ValidationError

SCHEMA = Path(__file__).resolve().parent / "schema.json"
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


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice, which plain YAML silently lets pass."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002, PyYAML's
        """Build a mapping. Raises CgpuError for a key given twice."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                line = key.start_mark.line + 1
                raise CgpuError(f"{self.name}: {show(key.value)}: given twice (line {line}); keep one")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of the configuration."""
    document: dict[str, Any] = json.loads(SCHEMA.read_text())
    return document


def load(path: str | Path = paths.CONFIG, *, required: bool = False) -> Effective:
    """Read and check a configuration file; the defaults when it is absent and not required.

    Raises CgpuError with one line that names the key, its value and what is expected.
    """
    try:
        raw = read_bounded(str(Path(path).resolve()), MAX_BYTES)
    except FileNotFoundError as error:
        if not required:
            return Effective()
        raise CgpuError(f"{path}: there is no such file; without --config the defaults hold") from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "links go in a circle"
        raise CgpuError(f"{path}: cannot be read: {reason}") from error
    return check(parse(raw, str(path)), str(path))


def check(document: object, source: str) -> Effective:
    """Return the configuration a document says, with defaults. Raises CgpuError, whose line names source."""
    if document is None:
        return Effective()
    if not isinstance(document, dict):
        raise CgpuError(f"{source}: {show(document)}: expected lines of the form KEY: VALUE")
    properties = schema()["properties"]
    for key, value in document.items():
        if key not in properties:
            expected = ", ".join(sorted(properties))
            raise CgpuError(
                f"{source}: {show(key)}: {show(value)}: there is no such key; expected one of {expected}"
            )
        if _is_unfit(value):
            raise _misfit(source, key, value)
    _refuse_contradiction(document, source)
    problem: ValidationError | None = next(iter(Draft202012Validator(schema()).iter_errors(document)), None)
    if problem is not None:
        key = str(problem.absolute_path[0])
        raise _misfit(source, key, document[key])
    # JSON Schema takes 20.0 for a whole number.
    return Effective(**{k: int(v) if isinstance(v, float) else v for k, v in document.items()})


def accepted(key: str) -> str:
    """Return in words what a key accepts."""
    rule: Mapping[str, Any] = schema()["properties"][key]
    kinds = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    if "enum" in rule:
        return ", ".join(rule["enum"][:-1]) + f" or {rule['enum'][-1]}"
    if "boolean" in kinds:
        return "true or false"
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


def _refuse_contradiction(document: Mapping[str, Any], source: str) -> None:
    opened = next((key for key in CLOSED if document.get(key) is True), None)
    if document.get("shared_node") is True and opened is not None:
        raise CgpuError(
            f"{source}: {opened}: true: shared_node: true forbids it; expected one of them: "
            "leave out the other"
        )


def _misfit(source: str, key: str, value: object) -> CgpuError:
    default = json.dumps(schema()["properties"][key]["default"])
    return CgpuError(f"{source}: {key}: {show(value)}: expected {accepted(key)} (default {default})")


def parse(raw: bytes, source: str) -> object:
    """Return what a configuration file's bytes say, unchecked. Raises CgpuError for what is not YAML."""
    loader = None
    try:
        loader = _Loader(raw)
        loader.name = source
        return loader.get_single_data()
    except NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        why = getattr(error, "problem", None) or "see yaml.org"
        raise CgpuError(f"{source}: is not YAML{where} ({show(why)}): expected lines KEY: VALUE") from error
    finally:
        if loader is not None:
            loader.dispose()
