# SPDX-License-Identifier: Apache-2.0
"""Entries of the tree that stay open between reads: a frequent reader asks the engine once for each."""

from __future__ import annotations

import os
import weakref

from cgpu.client.tree import Tree, read_text


class OpenEntries:
    """Descriptors below one tree, for one thread at a time. They fail with its engine, and are made anew."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._place: tuple[str, int] | None = None
        self._fds: dict[tuple[str, ...], int] = {}
        self.generation = 0  # changes when all of them are opened anew
        weakref.finalize(self, _close, self._fds)

    def read(self, tree: Tree, *parts: str) -> str:
        """Return the text of an entry, as Tree.read() does. Raises CgpuError."""
        place = tree.path, _device(tree.path)
        if place != self._place:
            self._place = place
            self._forget()
        fd = self._fds.get(parts)
        if fd is not None:
            try:
                return read_text(fd)
            except OSError:
                self._forget()
        fd = tree.open(*parts)
        try:
            text = read_text(fd)
        except OSError as error:
            os.close(fd)
            raise tree.failed(error, "read", *parts) from error
        self._fds[parts] = fd
        return text

    def _forget(self) -> None:
        _close(self._fds)
        self.generation += 1


def _device(path: str) -> int:
    """Return which file system is at a path, 0 for none that answers.

    An open entry keeps one alive that is mounted there no more, with the engine that serves it.
    """
    try:
        return os.stat(path).st_dev
    except OSError:
        return 0


def _close(fds: dict[tuple[str, ...], int]) -> None:
    while fds:
        os.close(fds.popitem()[1])
