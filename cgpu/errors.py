# SPDX-License-Identifier: Apache-2.0
"""The one error of this project, and how values are shown in messages."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN = 64
# Begins each line of the runtime and the hook: a container engine prints the line in the middle of its own.
LINE_START = "opencgpu: "


class CgpuError(Exception):
    """Something was refused or did not work. The message is one line for the person who reads it."""

    def __init__(self, message: str) -> None:
        """Keep the message, with anything that could break the line escaped."""
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """Return the message as printable ASCII on one line."""
    if message.isascii() and message.isprintable():
        return message
    return "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in message)


def show(value: object) -> str:
    """Return a value as it may stand in a message: at most 64 characters, nothing unprintable."""
    text = value if isinstance(value, str) else _shape(value)
    shown = one_line(text[:SHOWN])
    return shown[:SHOWN] + "..." if len(shown) > SHOWN or len(text) > SHOWN else shown


def some(names: Sequence[str], most: int) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _shape(value: object) -> str:
    # A hostile document may hold anything: its repr could be as large as memory.
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if value.bit_length() <= 128 else "a very large number"
    return "a list" if isinstance(value, (list, tuple)) else "an object"
