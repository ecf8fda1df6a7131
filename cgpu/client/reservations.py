# SPDX-License-Identifier: Apache-2.0
"""A GPU's entry `reserved`, read as the reservations of shares."""

from __future__ import annotations

from cgpu.client.directory import directory_of
from cgpu.errors import CgpuError, show
from cgpu.slice import ATTRIBUTES, Slice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UNUSED = "-"
LINES = 25  # as many as a GPU has places


class Reservation:
    """A share's reservation on one GPU.

    container: the id of the container that uses the reservation, None while none does.
    """

    __slots__ = ("container", "share", "slice")

    def __init__(self, share: str, slice_: Slice, container: str | None) -> None:
        """Keep the values."""
        self.share = share
        self.slice = slice_
        self.container = container

    def __eq__(self, other: object) -> bool:
        """Compare all values."""
        if not isinstance(other, Reservation):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        """Go by the share, which names one reservation of an engine."""
        return hash(self.share)

    def __repr__(self) -> str:
        """Return the values as the tree has them."""
        return f"Reservation({self.share} {self.slice} {self.container or UNUSED})"


def parse(text: str) -> tuple[Reservation, ...]:
    """Return what an entry says. Raises CgpuError for a line that is none."""
    lines = text.split("\n") if text else []
    if len(lines) > LINES:
        raise CgpuError(f"reserved: {len(lines)} lines, expected at most {LINES}; see the engine's log")
    return tuple(_line(line) for line in lines)


def _line(line: str) -> Reservation:
    words = line.split(" ")
    if len(words) == len(ATTRIBUTES) + 2 and words[0] and words[-1]:
        numbers = [
            int(word)
            for word, of in zip(words[1:-1], ATTRIBUTES, strict=True)
            if word.isascii() and word.isdigit() and len(word) <= of.digits
        ]
        if len(numbers) == len(ATTRIBUTES):
            return Reservation(words[0], Slice(*numbers), None if words[-1] == UNUSED else words[-1])
    names = ", ".join(one.name for one in ATTRIBUTES)
    raise CgpuError(f"reserved: {show(line)}: expected share, {names} and container; see the engine's log")


def promised(slices: Mapping[str, int], reservations: Iterable[Reservation]) -> int:
    """Return the bytes of a GPU that are promised. slices: memory limits by the container's directory.

    A container that uses reservations counts with what it has, or with what they have where that is more.
    """
    reserved: dict[str | None, int] = {}
    for one in reservations:
        # A container that ended between two reads is in one of them only.
        directory = directory_of(one.container or "")
        user = directory if directory in slices else None
        reserved[user] = reserved.get(user, 0) + one.slice.memsize
    used = sum(max(size, reserved.get(name, 0)) for name, size in slices.items())
    return used + reserved.get(None, 0)


def beyond(slices: Mapping[str, int], reservations: Iterable[Reservation]) -> int:
    """Return the bytes that are promised to shares and that no container has. slices: as of promised()."""
    return promised(slices, reservations) - sum(slices.values())


def places(containers: Iterable[str], reservations: Iterable[Reservation]) -> int:
    """Return how many of a GPU's places are taken. containers: names of directories."""
    reserved = list(reservations)
    users = {directory_of(one.container) for one in reserved if one.container is not None}
    return len(reserved) + len(set(containers) - users)
