# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's clients on simulated cards: without a slice, in a mount namespace that has the nodes in /dev."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import Outcome, call, eventually
from tests.nvidia.devices import Devices, place
from tests.nvidia.software import PACKAGES, Software, software
from tests.sim.support import BUILD

# A /dev of its own: links and nodes that programs need, and the cards' files. $1: their folder.
GIVE = """
set -e
mount -t tmpfs -o mode=0755,size=1m none /mnt
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/ptmx /dev/fd /mnt/
mkdir /mnt/shm /mnt/pts
mount --rbind /dev/shm /mnt/shm
mount --rbind /dev/pts /mnt/pts
for node in "$1"/nvidia*; do
	: > "/mnt/${node##*/}"
	mount --bind "$node" "/mnt/${node##*/}"
done
mount --rbind /mnt /dev
shift
exec "$@"
"""


@dataclass(frozen=True)
class Cards:
    """Simulated cards of a driver version, and NVIDIA's software of the same one."""

    mount: Path
    software: Software
    devices: Devices | None = None  # where the nodes are no devices

    def environment(self) -> dict[str, str]:
        own = self.devices.environment() if self.devices else {}
        return {**self.software.environment(), **own}

    def command(self, words: Sequence[str | Path], extra: Mapping[str, str] | None = None) -> list[str]:
        """Return the command line that runs a command on the cards, without a slice."""
        variables = [f"{name}={value}" for name, value in {**self.environment(), **(extra or {})}.items()]
        inside = ["/usr/bin/env", *variables, *map(str, words)]
        return ["unshare", "--mount", "/bin/sh", "-c", GIVE, "sh", str(self.mount), *inside]

    def run(self, *words: str | Path, extra: Mapping[str, str] | None = None) -> Outcome:
        """Run a command on the cards, without a slice, to its end."""
        return call(self.command(words, extra))


@contextmanager
def served(
    mount: Path, version: str, cards: str = "T4", memory: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Serve simulated cards of a driver version for as long as this lasts."""
    words: list[str | Path] = ["--mount", mount, "--cards", cards, "--driver", version]
    words += ["--memory", memory] if memory else []
    server = subprocess.Popen([BUILD / "cgpu-sim", *words])
    try:
        eventually((mount / "nvidiactl").exists, "the cards are served")
        yield server
    finally:
        server.terminate()
        server.wait(timeout=240)


def memory_folder(base: Path) -> Path:
    """Make a folder for cards' memory, where that is in memory too and not on a disk."""
    return Path(tempfile.mkdtemp(prefix=f"{base.name}-", dir="/dev/shm"))


@contextmanager
def alone(version: str, cards: str = "T4", packages: tuple[str, ...] = PACKAGES) -> Iterator[Cards]:
    """Have cards of a release, and its software, with no engine. Raises NotInArchiveError."""
    found = software(version, packages)
    with tempfile.TemporaryDirectory(prefix="clients-") as name:
        base = Path(name)
        memory = memory_folder(base)
        try:
            with served(base / "sim", found.release.version, cards, memory):
                yield Cards(base / "sim", found, place(base / "sim", base / "files", memory))
        finally:
            shutil.rmtree(memory)
