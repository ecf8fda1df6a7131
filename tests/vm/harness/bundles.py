# SPDX-License-Identifier: Apache-2.0
"""Containers in the guest: bundles with the probe, run by real runc behind the wrapper."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.integration.images import PROBE, PROBE32
from tests.integration.runtimes import LAUNCHER, Environment, environment_list
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Finished, Process

SECONDS = 120.0
Spec = dict[str, Any]
Edit = Callable[[Spec], None]

MAKE_ROOTFS = """
mkdir -p "$1/dev" "$1/proc" "$1/sys" "$1/tmp" "$1/etc" "$1/bin"
cp "$2" "$1/cgpu-probe"
[ ! -e "$3" ] || cp "$3" "$1/cgpu-probe32"
cp /bin/busybox "$1/bin/busybox"
for name in sh cat sleep ls mknod mkdir mount dd kill id pidof; do ln -sf busybox "$1/bin/$name"; done
"""
# Bundle, rootfs and state lie in memory; one command makes the bundle and becomes the runtime.
RUN = 'mkdir -p "$1"; cat >"$1/config.json"; shift; exec "$@" </dev/null'


@cache
def plain_spec() -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["runc", "spec", "--bundle", directory], check=True)
        return (Path(directory) / "config.json").read_text()


def give_terminal_less(spec: Spec, command: Sequence[str], environment: Environment, rootfs: str) -> Spec:
    """Turn runc's proposal into a container that runs a command."""
    process = spec["process"]
    process["terminal"] = False
    process["args"] = list(command)
    process["env"] = ["PATH=/bin:/", *environment_list(environment)]
    spec["root"] = {"path": rootfs, "readonly": True}
    return spec


@dataclass
class Containers:
    """The containers of one guest. `runtime` is the wrapper, or any other OCI runtime by its path."""

    machine: Machine
    runtime: str = str(LAUNCHER)
    directory: str = "/run/cgpu-vm/containers"
    variables: dict[str, str] = field(default_factory=dict)  # the runtime's own environment
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        """Make the root file system that all share, for reading only."""
        seen = self.machine.seen
        self.machine.shell(MAKE_ROOTFS, self.rootfs, seen(PROBE), seen(PROBE32))

    @property
    def rootfs(self) -> str:
        return f"{self.directory}/rootfs"

    @property
    def base(self) -> list[str]:
        """Return the runtime's command as far as all uses share it."""
        return [self.runtime, "--root", f"{self.directory}/state"]

    def spec(self, command: Sequence[str], env: Environment, edit: Edit | None = None) -> Spec:
        """Return a configuration; `edit` may change it as it likes."""
        spec = give_terminal_less(json.loads(plain_spec()), command, env, self.rootfs)
        if edit is not None:
            edit(spec)
        return spec

    def new_name(self) -> str:
        return f"container{next(self.numbers)}"

    def start(
        self,
        command: Sequence[str],
        env: Environment = (),
        *,
        name: str | None = None,
        edit: Edit | None = None,
        options: Sequence[str] = (),
    ) -> Process:
        """Start a container that stays attached: its output is the process's."""
        name = name or self.new_name()
        bundle = f"{self.directory}/bundles/{name}"
        argv = [*self.base, "run", *options, "--bundle", bundle, name]
        return self.machine.start(
            ["/bin/busybox", "sh", "-euc", RUN, "sh", bundle, *argv],
            input=json.dumps(self.spec(command, env, edit)),
            env=self.variables,
        )

    def run(
        self,
        command: Sequence[str],
        env: Environment = (),
        *,
        name: str | None = None,
        edit: Edit | None = None,
        timeout: float = SECONDS,
    ) -> Finished:
        """Run a container to its end; a failure is the caller's to judge."""
        return self.start(command, env, name=name, edit=edit).wait(self.machine.scaled(timeout))

    def detach(
        self, name: str, command: Sequence[str], env: Environment = (), edit: Edit | None = None
    ) -> Finished:
        """Start a container and come back once it runs."""
        started = self.start(command, env, name=name, edit=edit, options=["--detach"])
        return started.wait(self.machine.scaled(SECONDS))

    def call(self, *words: str, timeout: float = SECONDS) -> Finished:
        return self.machine.run([*self.base, *words], timeout=timeout, check=False, env=self.variables)

    def exec(self, name: str, command: Sequence[str], timeout: float = SECONDS) -> Finished:
        return self.call("exec", name, *command, timeout=timeout)

    def kill(self, name: str, signal: str = "KILL") -> Finished:
        return self.call("kill", name, signal)

    def delete(self, name: str) -> Finished:
        return self.call("delete", "--force", name)

    def pid(self, name: str) -> int:
        """Return a container's first process, as the guest numbers it."""
        pid: int = json.loads(self.call("state", name).check().stdout)["pid"]
        return pid
