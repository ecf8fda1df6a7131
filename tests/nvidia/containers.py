# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's clients in containers on simulated cards: in a slice of cgpud, and without any engine.

The containers have the host's programs, NVIDIA's packages and the files for the preloaded library, all under
the paths that they have on the host.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cgpu.process_identity import start_time
from tests.integration.commands import Outcome
from tests.integration.engine import RUN, Engine
from tests.integration.runtimes import LAUNCHER, Environment, Runc
from tests.nvidia.archive import STORE
from tests.nvidia.clients import Cards, memory_folder, served
from tests.nvidia.devices import place
from tests.nvidia.software import PACKAGES, software

LINKS = ("bin", "sbin", "lib", "lib64")
HOST = (Path("/usr"), Path("/etc/ld.so.cache"))
MEMORY = Path("/memory")  # of the cards, in containers
# 6 of 15 parts of a T4: 6043 MiB of 15109.
SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}


def bind(source: Path, target: Path | None = None, mode: str = "ro") -> dict[str, object]:
    options = ["rbind", mode, "nosuid"]
    return {
        "destination": str(target or source),
        "type": "bind",
        "source": str(source),
        "options": options,
    }


@dataclass
class ClientRunc(Runc):
    """runc whose containers have what clients need.

    nodes: the cards' nodes, where no engine gives them.
    """

    cards: Cards | None = None
    folders: tuple[Path, ...] = ()
    nodes: tuple[Path, ...] = field(default=())

    def __post_init__(self) -> None:
        """Make the root file system, with a place for each mount."""
        super().__post_init__()
        self.rootfs.joinpath(MEMORY.relative_to("/")).mkdir()
        for name in LINKS:
            if Path("/", name).is_symlink():
                (self.rootfs / name).symlink_to(Path("/", name).readlink())
        for source in (*HOST, *self.folders):
            target = self.rootfs / source.relative_to("/")
            if source.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()

    def spec(self, command: Sequence[str], env: Environment) -> dict[str, object]:
        assert self.cards is not None
        spec = super().spec(command, env)
        process, mounts = spec["process"], spec["mounts"]
        assert isinstance(process, dict)
        assert isinstance(mounts, list)
        inside = {"CGPU_MEMORY": str(MEMORY)}
        variables = {
            **self.cards.environment(),
            **inside,
            **dict(v.split("=", 1) for v in process["env"][1:]),
        }
        process["env"] = [f"{name}={value}" for name, value in variables.items()]
        mounts += [bind(source) for source in (*HOST, *self.folders)]
        mounts += [bind(node, Path("/dev", node.name), "rw") for node in self.nodes]
        memory = self.cards.devices.memory if self.cards.devices else None
        mounts += [bind(memory, MEMORY, "rw")] if memory else []
        return spec

    def shell(self, script: str, env: Mapping[str, str] | None = None) -> Outcome:
        return self.run(["/bin/sh", "-c", script], env or {})


def _runc(
    base: Path, cards: Cards, launcher: Path, nodes: Sequence[Path] = (), more: Sequence[Path] = ()
) -> ClientRunc:
    base.mkdir()
    files = (cards.devices.folder,) if cards.devices else ()
    folders = (STORE, *files, *more)
    return ClientRunc(base, launcher=launcher, cards=cards, folders=folders, nodes=tuple(nodes))


@dataclass(frozen=True)
class Node:
    """A machine with simulated cards of one driver version, an engine, and both kinds of containers."""

    engine: Engine
    cards: Cards
    sliced: ClientRunc
    plain: ClientRunc


def _record(server: subprocess.Popen[bytes], cards: str) -> None:
    """Have the daemon find this server as its own."""
    record = {"pid": server.pid, "started": start_time(server.pid), "cards": cards}
    (RUN / "sim.json").write_text(json.dumps(record))


@contextmanager
def node(
    base: Path, version: str, cards: str = "T4", more: Sequence[Path] = (), **config: object
) -> Iterator[Node]:
    """Have such a machine, on the engine's default paths. Raises NotInArchiveError.

    more: further folders that the containers have. config: keys of the engine's configuration.
    """
    found = software(version, PACKAGES)
    RUN.mkdir(mode=0o700, parents=True, exist_ok=True)
    memory = memory_folder(base)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, memory)
        server = stack.enter_context(served(RUN / "sim", found.release.version, cards, memory))
        _record(server, cards)
        engine = Engine(cards, config, base)
        engine.start()
        try:
            own = Cards(RUN / "sim", found, place(RUN / "sim", base / "files", memory))
            runc = Path(shutil.which("runc") or "/usr/sbin/runc")
            nodes = sorted(path for path in own.mount.iterdir() if path.name.startswith("nvidia"))
            sliced = _runc(base / "sliced", own, LAUNCHER, more=more)
            plain = _runc(base / "plain", own, runc, nodes, more)
            try:
                yield Node(engine, own, sliced, plain)
            finally:
                sliced.close()
                plain.close()
        finally:
            engine.stop()
