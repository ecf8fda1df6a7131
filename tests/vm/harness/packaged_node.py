# SPDX-License-Identifier: Apache-2.0
"""A node with a clean Debian and its systemd, which packages are installed on and which can be rebooted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cgpu import paths
from tests.integration.commands import eventually
from tests.integration.probe import NO_MEMORY, step
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Finished

Begin = Callable[[], Machine]
PYTHON, PROGRAM = "/usr/lib/opencgpu/bin/python3", "/usr/lib/opencgpu/lib/programs/python3"
IMAGE = "probe"
BUILD_S = count(300, 3600)
COMMAND_S = 300
BOOT_S = 240
SHUTDOWN_S = 120.0
# A program in Python takes seconds in an emulated machine, and engines are asked for names each 15 seconds.
EVENTUALLY_S = 180
HELD = 512 << 20
LIMIT = 6043 << 20
# Files that the packages need not restore: databases and caches of package managers, logs, layers of
# containers, and the key that dkms makes to sign with.
STATE = r"""
cd /
skip="./var/lib/dpkg ./var/lib/apt ./var/cache ./var/log ./var/tmp ./tmp ./run ./root"
skip="$skip ./var/lib/docker ./var/lib/containerd ./var/lib/systemd/timers ./var/lib/systemd/random-seed"
set -f
for path in $skip; do prune="${prune:+$prune -o }-path $path"; done
find . -xdev \( $prune -o -name 'mok.*' \) -prune \
	-o -path './etc/*' -type f -printf '%y %m %U:%G %s %p\n' \
	-o ! -type d -printf '%y %m %U:%G %s %T@ %p %l\n' \
	-o -printf '%y %m %U:%G %p\n' | grep -v ' \./usr/lib/modules/[^/]*/modules\.' | sort
find ./etc ./usr/lib/modules/*/modules.* -type f -exec sha256sum {} + | sort
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'
SYSTEMD_BUS_TIMEOUT=240 systemctl list-unit-files --no-legend --no-pager || exit
ls /dev | grep -v -e '^tty' -e '^vcs' | sort
"""
MAKE_IMAGE = r"""
mkdir -p /tmp/image/bin /tmp/image/tmp
cp "$1" /tmp/image/cgpu-probe
cp /bin/busybox /tmp/image/bin/
for name in sh cat sleep; do ln -s busybox /tmp/image/bin/$name; done
tar -C /tmp/image -cf /tmp/image.tar .
docker import /tmp/image.tar "$2"
rm -rf /tmp/image /tmp/image.tar
"""
# Asks for memory and gives it back all the time; the first failure ends it.
LOAD = r"""
trap 'exit 0' TERM
while :; do
	/cgpu-probe info alloc=128M dup free alloc=64M:64k free=all info >/tmp/work || { cat /tmp/work; exit 1; }
	echo round
done
"""
SCRAPE = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:10418/metrics", timeout=60).read().decode())
"""
HOLD = "sleep 100000 | /cgpu-probe alloc=512M count hold"


class PackagedNode:
    """The node. `begin` starts a machine from its disk."""

    def __init__(self, begin: Begin) -> None:
        """Boot it for the first time."""
        self.begin = begin
        self.machine = self._boot()

    def _boot(self) -> Machine:
        machine = self.begin().wait_ready(BOOT_S)
        state = machine.run(["systemctl", "is-system-running", "--wait"], timeout=BOOT_S, check=False)
        failed = machine.run(["systemctl", "--failed", "--no-legend", "--no-pager"]).stdout
        assert (state.stdout, failed) == ("running\n", "")
        return machine

    def reboot(self) -> None:
        assert self.machine.problems() == []
        self.machine.run(["systemctl", "reboot"])
        self.machine.emulator.wait(SHUTDOWN_S)
        self.machine.close()
        self.machine = self._boot()

    def run(self, *words: str | Path, timeout: float = COMMAND_S) -> str:
        return self.machine.run(words, timeout=timeout, env={"DEBIAN_FRONTEND": "noninteractive"}).text

    def attempt(self, *words: str | Path) -> Finished:
        """Run a command whose end is the caller's to judge."""
        return self.machine.run(words, timeout=COMMAND_S, check=False)

    def install(self, *packages: Path) -> str:
        seen = [self.machine.seen(path) for path in packages]
        return self.run("apt-get", "-q", "-y", "install", *seen, timeout=2 * BUILD_S)

    def purge(self, *names: str) -> str:
        return self.run("apt-get", "-q", "-y", "purge", *names, timeout=BUILD_S)

    def state(self) -> list[str]:
        """Return what is on the disk: names, modes, owners, sizes, times, and contents where others write.

        A file of /etc that we have edited has its content back, and the time at which it got it.
        """
        return self.run("/bin/bash", "-c", STATE).splitlines()

    def changes(self, before: list[str]) -> list[str]:
        """Return what is not as it was: lines that are gone, and lines that have come."""
        return sorted(set(before) ^ set(self.state()))

    def make_image(self, probe: Path) -> None:
        """Give docker an image with the probe."""
        self.machine.shell(MAKE_IMAGE, self.machine.seen(probe), IMAGE, timeout=COMMAND_S)

    def docker_run(self, *options: str, command: tuple[str, ...], share: int = 6) -> Finished:
        """Run a container with so many fifteenths of the card by docker."""
        words = (
            f"ALIYUN_COM_GPU_MEM_CONTAINER={share}",
            "ALIYUN_COM_GPU_MEM_DEV=15",
            "NVIDIA_VISIBLE_DEVICES=0",
        )
        env = [word for one in words for word in ("--env", one)]
        return self.attempt("docker", "run", "--runtime", "cgpu", *env, *options, IMAGE, *command)

    def probe(self, *words: str) -> Finished:
        return self.docker_run("--rm", "--network", "none", command=("/cgpu-probe", *words))

    def start_load(self) -> None:
        """Start one that holds memory and one that allocates; both are there after a reboot."""
        for name, script, share in (("holder", HOLD, 1), ("load", LOAD, 6)):
            options = ("--detach", "--name", name, "--restart", "always", "--network", "none")
            self.docker_run(*options, command=("/bin/sh", "-c", script), share=share).check()
        self.await_rounds()

    def rounds(self) -> int:
        return self.run("docker", "logs", "load").count("round")

    def await_rounds(self) -> None:
        """Wait until the load has come around again, having met no failure."""
        before = self.rounds()
        eventually(lambda: self.rounds() > before + 1, "the load goes on", self.machine.scaled(60))
        self.check_load()

    def load(self) -> dict[str, Any]:
        """Return what docker says of the load: its state, and how often it was started anew."""
        document = json.loads(self.run("docker", "inspect", "load"))[0]
        return {"running": document["State"]["Running"], "restarts": document["RestartCount"]}

    def check_load(self) -> None:
        """See that the load has met no failure: one prints the last steps, and ends the container."""
        if self.load() != {"running": True, "restarts": 0}:
            said = self.run("docker", "logs", "--timestamps", "load").splitlines()
            around = [line for line in said if not line.endswith(" round")]
            engine = self.attempt("journalctl", "--no-pager", "--lines", "60", "--unit", "cgpud").text
            raise AssertionError("\n".join([str(self.load()), *around[-40:], engine]))

    def end_load(self) -> None:
        self.check_load()
        self.run("docker", "rm", "--force", "load", "holder")

    def unit(self, name: str) -> str:
        """Return how systemd has a unit: whether it is enabled, and active."""
        words = [self.attempt("systemctl", word, name).stdout.strip() for word in ("is-enabled", "is-active")]
        return " ".join(words)

    def read(self, path: str) -> str:
        return self.machine.read_file(path).decode()


def slices(node: PackagedNode) -> None:
    """See that a container has its slice and not a byte more."""
    done = node.probe("info", "alloc=6000M", "expect=0x51", "alloc=100M")
    assert done.returncode == 0, done.text
    assert step(done, "info").number("total") == LIMIT
    assert step(done, "alloc", 1).number("status") == NO_MEMORY


def starts_without_python(node: PackagedNode) -> None:
    """See that the server prepares containers: where no Python can be started they start, and only by it.

    The hook needs Python too where its log has another form than text.
    """
    socket, service = "cgpu-container-runtime.socket", "cgpu-container-runtime.service"
    assert node.unit(socket) == "enabled active"
    slices(node)
    eventually(lambda: node.unit(service).endswith(" active"), "the socket starts the server", EVENTUALLY_S)
    node.run("mv", PROGRAM, f"{PROGRAM}.away")
    try:
        # A slow machine's server may not be ready in time for one of them.
        eventually(
            lambda: node.probe("info").returncode == 0, "a container starts by the server", EVENTUALLY_S
        )
        node.run("systemctl", "stop", socket)
        assert not node.unit(service).endswith(" active")
        assert node.probe("info").returncode != 0
    finally:
        node.run("mv", f"{PROGRAM}.away", PROGRAM)
    node.probe("info").check()
    node.run("systemctl", "start", socket)


def observed(node: PackagedNode, again: Callable[[], object]) -> None:
    """See that Prometheus and users see slices once they are to; the exporter stays enabled.

    again: gives the engine its configuration anew, as a restart does.
    """
    exports(node, again)
    users_see(node, again)


def exports(node: PackagedNode, again: Callable[[], object]) -> None:
    """See that the exporter, once it is enabled, serves slices by name with the few rights of its unit."""
    assert node.unit("cgpu-exporter") == "disabled inactive"
    node.run("cgpu", "config", "set", "log_format", "journal", "--apply")
    node.run("systemctl", "enable", "--now", "cgpu-exporter")
    scrape = (PYTHON, "-c", SCRAPE)
    eventually(
        lambda: 'name="load"' in node.attempt(*scrape).stdout,
        "a scrape has a container by name",
        EVENTUALLY_S,
    )
    again()
    eventually(lambda: 'name="load"' in node.attempt(*scrape).stdout, "and after that", EVENTUALLY_S)
    assert "\nopencgpu_up 1.0\n" in node.run(*scrape)
    assert node.unit("cgpu-exporter") == "enabled active"
    line = node.run("journalctl", "--no-pager", "--output", "json", "SYSLOG_IDENTIFIER=cgpu-exporter")
    entry = json.loads(line)
    assert (entry["PRIORITY"], entry["_SYSTEMD_UNIT"]) == ("6", "cgpu-exporter.service")
    assert entry["MESSAGE"] == "metrics at http://127.0.0.1:10418/metrics"


def users_see(node: PackagedNode, again: Callable[[], object]) -> None:
    """See that the setting alone decides whether a user sees slices."""
    as_user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cgpu-smi")
    assert node.unit("cgpu-smi-publish.path") == "enabled active"
    assert node.unit("cgpu-smi-publish").endswith("inactive")
    assert "only root sees the slices" in node.attempt(*as_user).stderr
    node.run("cgpu", "config", "set", "show_slices", "all", "--apply")
    eventually(
        lambda: "load" in node.attempt(*as_user).stdout, "a user sees a container by name", EVENTUALLY_S
    )
    again()
    eventually(lambda: "load" in node.attempt(*as_user).stdout, "and after that", EVENTUALLY_S)
    node.run("systemctl", "kill", "--signal=KILL", "cgpu-smi-publish")
    eventually(
        lambda: "load" in node.attempt(*as_user).stdout, "and after what publishes was killed", EVENTUALLY_S
    )
    node.run("cgpu", "config", "set", "show_slices", "root", "--apply")
    eventually(
        lambda: node.unit("cgpu-smi-publish").endswith("inactive"), "nothing runs for that", EVENTUALLY_S
    )
    assert "only root sees the slices" in node.attempt(*as_user).stderr
    assert node.attempt("systemctl", "is-failed", "cgpu-smi-publish").stdout == "inactive\n"
    # Something runs when the node is taken back. The file would stay, as one that was edited.
    node.run("cgpu", "config", "set", "show_slices", "own", "--apply")
    node.run("rm", paths.CONFIG)
