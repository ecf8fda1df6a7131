# SPDX-License-Identifier: Apache-2.0
"""Entries of the tree that stay open between reads: who comes often asks the engine once for each."""

from __future__ import annotations

import os
import weakref

from cgpu.client.tree import Tree, read_text


class OpenEntries:
    """Descriptors below one tree, for one thread at a time. They fail with its engine, and are made anew."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._path = ""
        self._fds: dict[tuple[str, ...], int] = {}
        self.generation = 0  # changes when all of them are opened anew
        weakref.finalize(self, _close, self._fds)

    def read(self, tree: Tree, *parts: str) -> str:
        """Return the text of an entry, as Tree.read() does. Raises CgpuError."""
        if tree.path != self._path:
            self._path = tree.path
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


def _close(fds: dict[tuple[str, ...], int]) -> None:
    while fds:
        os.close(fds.popitem()[1])
