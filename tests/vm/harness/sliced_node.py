# SPDX-License-Identifier: Apache-2.0
"""A machine with driver and engine, and figures of the card itself and of the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.commands import eventually
from tests.vm.harness.bundles import Containers, Spec
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    TREE,
    load_driver,
    load_engine,
    real_driver,
    unload_driver,
    unload_engine,
    write,
)
from tests.vm.harness.process import Finished, Process

# Memory that the card itself has given out: the fake driver's own view, or the witness below NVIDIA's.
CARD = "/proc/opencgpu_card" if real_driver() else "/proc/driver/nvidia/opencgpu_card"
NUMBER = re.compile(r"(\w+)=(-?\d+)")
SECONDS = 60.0
SECONDS_TO_AGREE = 10.0
PAGE_MARGIN = 16 << 20  # page_margin, where nothing else is configured
TABLES = 1 << 20  # of a few VA spaces, which the ledger charges before the driver takes them
POOLED = 64 << 10  # bytes: a page that 535 keeps in its pools after a refused reservation
IDLE = ("/bin/sleep", "3600")

# One start of a shell for all of it.
LOOK_AT = f"""
cat {CARD}
cd "$1"
for instance in [0-9]*/*/; do
	[ -e "$instance/memsize" ] || continue
	{{ read -r line <$instance/stat; }} 2>/dev/null || continue
	echo "$instance $line"
done
for gpu in [0-9]*/; do
	while read -r id bytes; do echo "left=$bytes"; done <"$gpu/left"
done 2>/dev/null
"""
LOOK = LOOK_AT.replace("$1", TREE)


@dataclass(frozen=True)
class View:
    """Memory taken, as the card says, and each container's memory, as the engine says."""

    cards: tuple[dict[str, int], ...]
    limits: dict[tuple[int, str], int]
    used: dict[tuple[int, str], int]
    charged: dict[tuple[int, str], int]
    left: int  # by removed containers, and shown by their names

    @property
    def agreeing(self) -> bool:
        """Say whether what each container has is what its calls are charged with, and little more.

        The driver's own needs are more. The charge of a call under way comes first, and so do page tables.
        """
        return all(-TABLES <= has - self.charged[each] <= PAGE_MARGIN for each, has in self.used.items())

    @property
    def empty(self) -> bool:
        """Say whether nothing is held, open or registered, but for a page that the engine shows."""
        return self.empty_but(POOLED)

    def empty_but(self, pooled: int, *, shown: bool = True) -> bool:
        """Say whether nothing is held, open or registered, but for bytes at most. shown: by the engine."""
        names = ("clients", "objects", "files")
        held = sum(card["used"] for card in self.cards)
        busy = any(card.get(name, 0) for card in self.cards for name in names)
        return not self.limits and not busy and held <= pooled and (held == self.left or not shown)


def parse(text: str) -> View:
    cards, limits, used, charged, left = [], {}, {}, {}, 0
    for line in text.splitlines():
        numbers = {name: int(value) for name, value in NUMBER.findall(line)}
        if "total" in numbers:
            cards.append(numbers)
        elif "memsize" in numbers:
            gpu, name = line.split()[0].split("/")[:2]
            limits[int(gpu), name] = numbers["memsize"]
            used[int(gpu), name] = numbers["used"]
            charged[int(gpu), name] = numbers["charged"]
        else:
            left += numbers.get("left", 0)
    return View(tuple(cards), limits, used, charged, left)


def look(machine: Machine, *, agreeing: bool = True) -> View:
    """Look at card and tree, until page count and ledger agree.

    agreeing False: for tests of where they do not.
    """
    seen = parse(machine.shell(LOOK).stdout)
    if not agreeing or seen.agreeing:
        return seen
    eventually(
        lambda: parse(machine.shell(LOOK).stdout).agreeing,
        "what containers have is what they are charged with",
        machine.scaled(SECONDS_TO_AGREE),
        lambda: parse(machine.shell(LOOK).stdout),
    )
    return parse(machine.shell(LOOK).stdout)


@dataclass
class SlicedNode:
    """Driver and engine of one machine; they are loaded anew only where a test wants others."""

    machine: Machine
    containers: Containers
    loaded: tuple[str, dict[str, object]] | None = field(default=None)

    def use(self, cards: str = "T4", **parameters: object) -> SlicedNode:
        """Have these cards, and the engine with these parameters."""
        if self.loaded != (cards, parameters):
            self.unload()
            load_driver(self.machine, cards=cards)
            load_engine(self.machine, None, **parameters)
            self.loaded = (cards, parameters)
        return self

    def unload(self) -> None:
        if self.loaded is not None:
            unload_engine(self.machine)
            unload_driver(self.machine)
        self.loaded = None

    @contextmanager
    def driver(self, version: str) -> Iterator[None]:
        """Have another version of the driver below the engine, which stays; then the usual one again."""
        unload_driver(self.machine)
        load_driver(self.machine, version=version)
        yield
        unload_driver(self.machine)
        load_driver(self.machine)

    def view(self) -> View:
        return look(self.machine)

    def used(self, name: str, gpu: int = 0) -> int:
        return self.view().used[gpu, name]

    def instances(self, gpu: int = 0) -> list[str]:
        return sorted(name for at, name in self.view().limits if at == gpu)

    def await_empty(self) -> None:
        eventually(lambda: self.view().empty, "nothing is left", self.machine.scaled(SECONDS), self.view)

    def install(self, program: Path, name: str) -> str:
        """Put a program into the root file system of all containers; return its path there."""
        target = f"{self.containers.rootfs}/{name}"
        self.machine.shell('cp "$1" "$2"; chmod 755 "$2"', self.machine.seen(program), target)
        return f"/{name}"

    def write(self, node: str, text: str) -> Finished:
        return write(self.machine, node, text)

    @contextmanager
    def idle(self, name: str, *args: object, **kwargs: object) -> Iterator[str]:
        """Have a container that does nothing, to send commands into. Arguments as of Containers.detach."""
        started = self.containers.detach(name, IDLE, *args, **kwargs)  # type: ignore[arg-type]  # handed on as they came
        assert started.returncode == 0, started.text
        try:
            yield name
        finally:
            self.containers.delete(name)

    @contextmanager
    def holding(self, name: str, *words: str) -> Iterator[Process]:
        """Have the probe take these steps in a container that runs, and hold what it has until the end."""
        command = ["exec", name, "/cgpu-probe", *words, "count", "hold"]
        holder = self.machine.start([*self.containers.base, *command], input=None)
        holder.await_output("count ", self.machine.scaled(SECONDS))
        try:
            yield holder
        finally:
            holder.finish(self.machine.scaled(SECONDS))

    def exec(self, name: str, *commands: Sequence[str]) -> Finished:
        """Run commands in a container one by one, after any answer: the steps of all are printed."""
        if len(commands) == 1:
            return self.containers.exec(name, commands[0])
        script = "\n".join(" ".join(f"'{word}'" for word in command) for command in commands)
        return self.containers.exec(name, ["/bin/sh", "-c", script])


# --- changes of a container's specification ---


def privileged(spec: Spec) -> None:
    """Take every restriction away, as --privileged does, but not the namespaces."""
    names = """chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable
        net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot
        sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease
        audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read"""
    every = [f"CAP_{name.upper()}" for name in names.split()]
    process, linux = spec["process"], spec["linux"]
    process["capabilities"] = dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), every)
    process["noNewPrivileges"] = False
    linux.pop("seccomp", None)
    linux["maskedPaths"] = []
    linux["readonlyPaths"] = []
    linux["resources"] = {"devices": [{"allow": True, "access": "rwm"}]}


def bind(spec: Spec, source: str, destination: str) -> None:
    """Give a container a directory of the host, for writing."""
    options = ["rbind", "rw"]
    spec["mounts"].append({"destination": destination, "type": "bind", "source": source, "options": options})


def host_cgroups(spec: Spec) -> None:
    """Make a container privileged, in the host's cgroup namespace, with the whole hierarchy for writing."""
    privileged(spec)
    linux = spec["linux"]
    linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "cgroup"]
    spec["mounts"] = [one for one in spec["mounts"] if one["destination"] != "/sys/fs/cgroup"]
    bind(spec, "/sys/fs/cgroup", "/sys/fs/cgroup")
