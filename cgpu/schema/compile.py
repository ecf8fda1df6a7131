# SPDX-License-Identifier: Apache-2.0
"""Write request_validator.py from request.schema.json: `python3 -m cgpu.schema.compile`.

The validator imports nothing, not even re: patterns become tables of states. The part of JSON Schema that is
understood is small, and a schema that uses more is an error here, never a check that is left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cgpu.schema.automaton import compile_pattern

HERE = Path(__file__).resolve().parent
SCHEMA = HERE / "request.schema.json"
OUTPUT = HERE / "request_validator.py"
REMARKS = {"$schema", "$id", "$comment", "title", "description"}

HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
# Generated from request.schema.json by `python3 -m cgpu.schema.compile`. Do not edit.
"""The check of a container's request."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Longest text, column of a character, next state by state and column, accepting states, what is accepted.
    Rule = tuple[int, dict[str, int], tuple[tuple[int, ...], ...], tuple[int, ...], str]


def _columns(*groups: str) -> dict[str, int]:
    return {character: column for column, group in enumerate(groups) for character in group}


'''

TAIL = '''

def check(document: object) -> tuple[str, str, object, str] | None:
    """Return None for a valid request, else section, name and value of the first misfit, what is accepted."""
    if not isinstance(document, dict):
        return "", "", document, "accepted is an object"
    for section, values in document.items():
        rules = _SECTIONS.get(section)
        if rules is None or not isinstance(values, dict):
            return "", section, values, "accepted are objects called " + " and ".join(_SECTIONS)
        for name, value in values.items():
            rule = rules.get(name)
            if rule is None:
                return section, name, value, "accepted are " + ", ".join(rules)
            if not isinstance(value, str) or not _matches(rule, value):
                return section, name, value, rule[4]
    return None


def _matches(rule: Rule, text: str) -> bool:
    longest, columns, rows, accepting, _ = rule
    if len(text) > longest:
        return False
    state = 0
    for character in text:
        column = columns.get(character, -1)
        state = rows[state][column] if column >= 0 else -1
        if state < 0:
            return False
    return state in accepting
'''


def generate(schema: dict[str, Any]) -> str:
    """Return the text of the validator. Raises ValueError for a schema that is not understood."""
    _only(schema, {"type", "additionalProperties", "properties", "$defs"}, "the schema")
    rules = [_rule(name, definition) for name, definition in schema["$defs"].items()]
    sections = ["_SECTIONS: dict[str, dict[str, Rule]] = {"]
    for section, content in _properties(schema, "the schema").items():
        _only(content, {"type", "additionalProperties", "properties"}, section)
        sections.append(f'    "{section}": {{')
        for name, reference in _properties(content, section).items():
            sections.append(f'        "{name}": {_constant(_target(name, reference, schema["$defs"]))},')
        sections.append("    },")
    return HEAD + "".join(rules) + "\n".join([*sections, "}\n"]) + TAIL


def _only(part: dict[str, Any], understood: set[str], name: str) -> None:
    unknown = sorted(set(part) - understood - REMARKS)
    if unknown:
        raise ValueError(f"{name}: not understood: {', '.join(unknown)}")


def _properties(part: dict[str, Any], name: str) -> dict[str, Any]:
    if part.get("type") != "object" or part.get("additionalProperties") is not False:
        raise ValueError(f"{name}: must be an object without additional properties")
    properties: dict[str, Any] = part["properties"]
    return properties


def _target(name: str, reference: dict[str, Any], definitions: dict[str, Any]) -> str:
    _only(reference, {"$ref"}, name)
    target: str = reference["$ref"].removeprefix("#/$defs/")
    if target not in definitions:
        raise ValueError(f"{name}: no definition {reference['$ref']}")
    return target


def _constant(name: str) -> str:
    return "_" + name.upper()


def _rule(name: str, definition: dict[str, Any]) -> str:
    _only(definition, {"type", "maxLength", "pattern"}, name)
    if definition["type"] != "string":
        raise ValueError(f"{name}: only strings are understood")
    table = compile_pattern(definition["pattern"])
    by_column: dict[int, list[str]] = {}
    for character, column in table.classes.items():
        by_column.setdefault(column, []).append(character)
    columns = "".join(f"        {json.dumps(''.join(c))},\n" for _, c in sorted(by_column.items()))
    rows = "".join(f"        {row},\n" for row in table.rows)
    lines = [
        f"{_constant(name)}: Rule = (\n    {definition['maxLength']},\n",
        f"    _columns(\n{columns}    ),\n    (\n{rows}    ),\n    {table.accepting},\n",
        f"    {json.dumps(definition['description'])},\n)\n",
    ]
    return "".join(lines)


def main() -> None:
    """Write the validator beside the schema."""
    OUTPUT.write_text(generate(json.loads(SCHEMA.read_text())))


if __name__ == "__main__":
    main()
