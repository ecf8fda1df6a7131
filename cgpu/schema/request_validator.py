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


_AMOUNTS: Rule = (
    319,
    _columns(
        ",",
        "0",
        "123456789",
    ),
    (
        (-1, 1, 2),
        (3, -1, -1),
        (3, 4, 4),
        (-1, 1, 2),
        (3, 5, 5),
        (3, 6, 6),
        (3, 7, 7),
        (3, 8, 8),
        (3, 9, 9),
        (3, 10, 10),
        (3, 1, 1),
    ),
    (0, 1, 2, 4, 5, 6, 7, 8, 9, 10),
    "accepted is a whole number or a comma list of them, one for each GPU, such as 6 or 3,1",
)
_WHOLE: Rule = (
    9,
    _columns(
        "0",
        "123456789",
    ),
    (
        (-1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 5),
        (6, 6),
        (7, 7),
        (8, 8),
        (9, 9),
        (-1, -1),
    ),
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    "accepted is a whole number from 1 to 999999999 that stands for the whole card, such as 15",
)
_DEVICES: Rule = (
    2048,
    _columns(
        ",",
        "-",
        "0",
        "123456789",
        "ABCDEFHIJKLMNOQRSTVWXYZbcdefghijkmnopqrstuvwxyz",
        "G",
        "P",
        "U",
        "a",
        "l",
    ),
    (
        (-1, -1, 1, 2, -1, 3, -1, -1, 4, -1),
        (5, -1, -1, -1, -1, -1, -1, -1, -1, -1),
        (5, -1, 6, 6, -1, -1, -1, -1, -1, -1),
        (-1, -1, -1, -1, -1, -1, 7, -1, -1, -1),
        (-1, -1, -1, -1, -1, -1, -1, -1, -1, 8),
        (-1, -1, 1, 2, -1, 3, -1, -1, -1, -1),
        (5, -1, 9, 9, -1, -1, -1, -1, -1, -1),
        (-1, -1, -1, -1, -1, -1, -1, 10, -1, -1),
        (-1, -1, -1, -1, -1, -1, -1, -1, -1, 11),
        (5, -1, 1, 1, -1, -1, -1, -1, -1, -1),
        (-1, 12, -1, -1, -1, -1, -1, -1, -1, -1),
        (-1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
        (-1, 13, 13, 13, 13, 13, 13, 13, 13, 13),
        (5, 13, 13, 13, 13, 13, 13, 13, 13, 13),
    ),
    (0, 1, 2, 6, 9, 11, 13),
    "accepted are indexes, UUIDs, both in a comma list, or all, such as 0,1",
)
_WEIGHT: Rule = (
    3,
    _columns(
        "0",
        "123456789",
    ),
    (
        (1, 2),
        (-1, -1),
        (3, 3),
        (1, 1),
    ),
    (0, 1, 2, 3),
    "accepted is a whole number from 1 to the GPU's max_inst",
)
_PRIORITY: Rule = (
    1,
    _columns(
        "01",
    ),
    (
        (1,),
        (-1,),
    ),
    (0, 1),
    "accepted is 0 or 1",
)
_SWITCH: Rule = (
    5,
    _columns(
        "01",
        "Aa",
        "Ee",
        "Ff",
        "Ll",
        "Rr",
        "Ss",
        "Tt",
        "Uu",
    ),
    (
        (1, -1, -1, 2, -1, -1, -1, 3, -1),
        (-1, -1, -1, -1, -1, -1, -1, -1, -1),
        (-1, 4, -1, -1, -1, -1, -1, -1, -1),
        (-1, -1, -1, -1, -1, 5, -1, -1, -1),
        (-1, -1, -1, -1, 6, -1, -1, -1, -1),
        (-1, -1, -1, -1, -1, -1, -1, -1, 7),
        (-1, -1, -1, -1, -1, -1, 7, -1, -1),
        (-1, -1, 1, -1, -1, -1, -1, -1, -1),
    ),
    (0, 1),
    "accepted is true, 1, false or 0",
)
_SECTIONS: dict[str, dict[str, Rule]] = {
    "environment": {
        "ALIYUN_COM_GPU_MEM_CONTAINER": _AMOUNTS,
        "ALIYUN_COM_GPU_MEM_DEV": _WHOLE,
        "ALIYUN_COM_GPU_VISIBLE_DEVICES": _DEVICES,
        "ALIYUN_COM_GPU_SCHD_WEIGHT": _WEIGHT,
        "ALIYUN_COM_GPU_HIGH_PRIO": _PRIORITY,
        "CGPU_DISABLE": _SWITCH,
    },
    "annotations": {
        "opencgpu.io/mem-container": _AMOUNTS,
        "opencgpu.io/mem-dev": _WHOLE,
        "opencgpu.io/visible-devices": _DEVICES,
        "opencgpu.io/schd-weight": _WEIGHT,
        "opencgpu.io/high-prio": _PRIORITY,
        "opencgpu.io/disable": _SWITCH,
    },
}


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
