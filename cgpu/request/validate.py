# SPDX-License-Identifier: Apache-2.0
"""Whether the text of a variable or annotation has the form that it must have.

schema.json beside says the same; a test holds one against the other.
"""

from __future__ import annotations

from cgpu.request.grants import is_number

AMOUNTS_LENGTH = 319
DEVICES_LENGTH = 2048
UUID_PREFIX = "GPU-"
SWITCH = ("true", "false", "1", "0")


def expected(key: str, value: object) -> str | None:
    """Return None for a value of the right form, else what is expected. An empty text counts as unset."""
    fits, words = _RULES[key]
    return None if isinstance(value, str) and (not value or fits(value)) else words


def _are_amounts(text: str) -> bool:
    return len(text) <= AMOUNTS_LENGTH and all(is_number(part, 9) for part in text.split(","))


def _are_devices(text: str) -> bool:
    return len(text) <= DEVICES_LENGTH and (text == "all" or all(map(_is_device, text.split(","))))


def _is_device(name: str) -> bool:
    rest = name.removeprefix(UUID_PREFIX)
    return is_number(name, 4) or (rest != name and name.isascii() and rest.replace("-", "0").isalnum())


_RULES = {
    "container": (
        _are_amounts,
        "expected a whole number or a comma list of them, one for each GPU, such as 6 or 3,1",
    ),
    "dev": (
        lambda text: text != "0" and is_number(text, 9),
        "expected a whole number from 1 to 999999999 that stands for the whole card, such as 15",
    ),
    "devices": (
        _are_devices,
        "expected indexes, UUIDs, both in a comma list, or all, such as 0,1",
    ),
    "weight": (lambda text: is_number(text, 3), "expected a whole number from 1 to the GPU's max_inst"),
    "highprio": (lambda text: text in ("0", "1"), "expected 0 or 1"),
    "disable": (
        lambda text: text.isascii() and text.lower() in SWITCH,
        "expected true, 1, false or 0",
    ),
}
