# SPDX-License-Identifier: Apache-2.0
"""Container engines of the tests' own. Their settings are lines KEY=VALUE; ours has the key cgpu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.node_files import FileEdit
from cgpu.runtime_config.engines.engine import ContainerEngine, Desired, Run

OURS = "cgpu="
BETWEEN = "cgpu=let-go"


@dataclass(frozen=True)
class Lines(ContainerEngine):
    """One engine. lets_go: it has settings in between when the runtime goes; asks: the command that tells."""

    path: str
    lets_go: bool = False
    command: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()

    def is_present(self, root: Path) -> bool:
        return True

    def read(self, root: Path) -> str | None:
        path = root / self.path
        return path.read_text() if path.exists() else None

    def plan_add(self, root: Path, desired: Desired) -> Sequence[FileEdit]:
        """Add our line at the end."""
        line = f"{OURS}{desired.runtime}{',default' if desired.default else ''}\n"
        return self._edit(root, (self._without(root) or "") + line)

    def plan_remove(self, root: Path) -> Sequence[FileEdit]:
        return self._edit(root, self._without(root) or None)

    def plan_release(self, root: Path) -> Sequence[FileEdit]:
        """Leave our line, with another value."""
        text = self.read(root)
        if not self.lets_go or text is None or OURS not in text:
            return []
        return self._edit(root, (self._without(root) or "") + BETWEEN + "\n")

    def check(self, root: Path) -> None:
        """Refuse what is no line of settings."""
        for line in (self.read(root) or "").splitlines():
            if "=" not in line:
                raise CgpuError(f"{self.path}: {line}: expected KEY=VALUE")

    def reload(self) -> tuple[str, ...]:
        return self.command

    def knows_runtime(self, run: Run) -> bool | None:
        """Look for the runtime in what the command prints."""
        return '"cgpu"' in run(self.asks).output if self.asks else None

    def _without(self, root: Path) -> str | None:
        text = self.read(root)
        kept = [line for line in (text or "").splitlines(keepends=True) if not line.startswith(OURS)]
        return None if text is None else "".join(kept)

    def _edit(self, root: Path, after: str | None) -> Sequence[FileEdit]:
        before = self.read(root)
        if before == after:
            return []
        old, new = (None if text is None else text.encode() for text in (before, after))
        return [FileEdit(root / self.path, old, new, 0o640)]


WHALE = Lines("whale", "etc/whale/whale.conf", lets_go=True, command=("systemctl", "try-restart", "whale"))
CRATE = Lines("crate", "etc/crate/conf.d/deep/crate.conf", command=("systemctl", "try-restart", "crate"))
SEAL = Lines("seal", "etc/seal.conf")
ENGINES = {one.name: one for one in (WHALE, CRATE, SEAL)}
