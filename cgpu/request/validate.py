# SPDX-License-Identifier: Apache-2.0
"""The value of a variable or annotation: where it is from, and whether its text has the right form."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.request.grants import is_number
from cgpu.sizes import is_memory
from cgpu.slice import BESIDE_MEMORY

MEMORY_LENGTH = 1024
AMOUNTS_LENGTH = 319
DEVICES_LENGTH = 2048
UUID_PREFIX = "GPU-"
SWITCH = ("true", "false", "1", "0")


class SourcedValue:
    """One value, with the name of its source for messages; trusted: it is known not to be the image's."""

    __slots__ = ("source", "text", "trusted")

    def __init__(self, source: str, text: str, *, trusted: bool = False) -> None:
        self.source = source
        self.text = text
        self.trusted = trusted

    def refuse(self, why: str) -> CgpuError:
        """Return the error for this value: name, value, what is wrong or expected."""
        return CgpuError(f"{self.source}={show(self.text)}: {why}")


def expected(key: str, value: object) -> str | None:
    """Return None for a value of the right form, else what is expected. An empty text counts as unset."""
    fits, words = _RULES[key]
    return None if isinstance(value, str) and (not value or fits(value)) else words


def _are_sizes(text: str) -> bool:
    return len(text) <= MEMORY_LENGTH and all(map(is_memory, text.split(",")))


def _are_amounts(text: str) -> bool:
    parts = text.split(",") if len(text) <= AMOUNTS_LENGTH else [""]
    return all(is_number(part, 9) for part in parts) and ("0" not in parts or set(parts) == {"0"})


def _are_devices(text: str) -> bool:
    return len(text) <= DEVICES_LENGTH and (text == "all" or all(map(_is_device, text.split(","))))


def _is_device(name: str) -> bool:
    rest = name[len(UUID_PREFIX) :].replace("-", "0")
    is_uuid = name[: len(UUID_PREFIX)].upper() == UUID_PREFIX and name.isascii() and rest.isalnum()
    return is_uuid or is_number(name, 4)


_RULES = {
    "mem": (
        _are_sizes,
        "expected a size such as 6G, 512M or 40%, or a comma list of them, one for each GPU",
    ),
    "container": (
        _are_amounts,
        "expected a whole number or a comma list, one for each GPU, such as 6 or 3,1, or 0 for no slice",
    ),
    "dev": (
        lambda text: text != "0" and is_number(text, 9),
        "expected a whole number from 1 to 999999999 that stands for the whole card, such as 15",
    ),
    "devices": (
        _are_devices,
        "expected indexes or UUIDs in a comma list, such as 0,1, or all (cgpu-smi lists them)",
    ),
    **{one.asked: (one.fits, one.expected) for one in BESIDE_MEMORY},
    "disable": (
        lambda text: text.isascii() and text.lower() in SWITCH,
        "expected true, 1, false or 0",
    ),
}
