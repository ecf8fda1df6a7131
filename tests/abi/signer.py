# SPDX-License-Identifier: Apache-2.0
"""Somebody who signs rows, and the folder of a node that takes them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.commands import must

OPENSSL = "/usr/bin/openssl"


class Signer:
    """A key, and the folder of a node's configuration for files that it signs."""

    def __init__(self, node: Path, name: str = "maker", kind: str = "ed25519", *, known: bool = True) -> None:
        """Make a key, which the node has if it is known."""
        self.node = node
        self.rows, self.keys = node / "drivers.d", node / "driver-keys.d"
        self._secret = node / f"{name}.secret"
        for folder in (self.rows, self.keys):
            folder.mkdir(mode=0o755, exist_ok=True)
        must([OPENSSL, "genpkey", "-algorithm", kind, "-out", self._secret])
        self.key = self.keys / f"{name}.pem"
        if known:
            must([OPENSSL, "pkey", "-in", self._secret, "-pubout", "-out", self.key])

    def sign(self, path: Path) -> Path:
        """Sign a file as docs/engines.md says."""
        signature = path.with_name(path.name + ".sig")
        must([OPENSSL, "pkeyutl", "-sign", "-inkey", self._secret, "-rawin", "-in", path, "-out", signature])
        return path

    def give(self, row: object, name: str = "row.json") -> Path:
        """Give the node a signed row; text is taken as it is."""
        path = self.rows / name
        path.write_text(row if isinstance(row, str) else json.dumps(row))
        return self.sign(path)
