# SPDX-License-Identifier: Apache-2.0
"""Whether the text of a variable or annotation has the form that it must have.

schema.json beside says the same; a test holds one against the other.
"""

from __future__ import annotations

AMOUNTS_LENGTH = 319
DEVICES_LENGTH = 2048
UUID_PREFIX = "GPU-"
SWITCH = ("true", "false", "1", "0")


def expected(key: str, value: object) -> str | None:
    """Return None for a value of the right form, else what is expected. An empty text counts as unset."""
    fits, words = _RULES[key]
    return None if isinstance(value, str) and (not value or fits(value)) else words


def _is_number(text: str, digits: int) -> bool:
    """Return whether the text is a whole number of at most so many digits, without zeros before it."""
    return len(text) <= digits and text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _are_amounts(text: str) -> bool:
    return len(text) <= AMOUNTS_LENGTH and all(_is_number(part, 9) for part in text.split(","))


def _is_whole_card(text: str) -> bool:
    return text != "0" and _is_number(text, 9)


def _are_devices(text: str) -> bool:
    return len(text) <= DEVICES_LENGTH and (text == "all" or all(map(_is_device, text.split(","))))


def _is_device(name: str) -> bool:
    rest = name.removeprefix(UUID_PREFIX)
    return _is_number(name, 4) or (rest != name and name.isascii() and rest.replace("-", "0").isalnum())


def _is_weight(text: str) -> bool:
    return _is_number(text, 3)


def _is_priority(text: str) -> bool:
    return text in ("0", "1")


def _is_switch(text: str) -> bool:
    return text.isascii() and text.lower() in SWITCH


_RULES = {
    "container": (
        _are_amounts,
        "expected a whole number or a comma list of them, one for each GPU, such as 6 or 3,1",
    ),
    "dev": (
        _is_whole_card,
        "expected a whole number from 1 to 999999999 that stands for the whole card, such as 15",
    ),
    "devices": (
        _are_devices,
        "expected indexes, UUIDs, both in a comma list, or all, such as 0,1",
    ),
    "weight": (_is_weight, "expected a whole number from 1 to the GPU's max_inst"),
    "highprio": (_is_priority, "expected 0 or 1"),
    "disable": (_is_switch, "expected true, 1, false or 0"),
}
