# SPDX-License-Identifier: Apache-2.0
"""Real container engines, started by the tests themselves and driven through one interface."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.integration.commands import PATIENCE, Outcome, Server, call, must
from tests.integration.images import IMAGE, ROOT, image_tar, make_rootfs, oci_archive

CONFIGURE = Path(sys.executable).parent / "cgpu-runtime-config"
LAUNCHER = ROOT / "runtime_config" / "launcher" / "cgpu-container-runtime"

# podman asks for more than a container in a container may have.
PODMAN_LIMITS = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
Environment = Mapping[str, str] | Sequence[str]


def environment_list(env: Environment) -> list[str]:
    return [f"{key}={value}" for key, value in env.items()] if isinstance(env, Mapping) else list(env)


def variables(env: Environment) -> list[str]:
    return [word for item in environment_list(env) for word in ("--env", item)]


def crun_here(directory: Path) -> Path:
    """Make a crun that sees version 1 of this machine's cgroups only: it refuses both together."""
    path = directory / "crun"
    hidden = "umount /sys/fs/cgroup/unified 2>/dev/null"
    path.write_text(f'#!/bin/sh\nexec unshare -m sh -c \'{hidden}; exec /usr/bin/crun "$@"\' crun "$@"\n')
    path.chmod(0o755)
    return path


@dataclass
class Runc:
    """runc through the wrapper, with bundles made here."""

    directory: Path
    low_level: str = "runc"
    launcher: Path = LAUNCHER
    name: str = "runc"
    count: int = 0
    rootfs: Path = field(init=False)

    def __post_init__(self) -> None:
        self.rootfs = make_rootfs(self.directory / "rootfs")

    @property
    def base(self) -> list[str]:
        return [str(self.launcher), "--root", str(self.directory / "state")]

    def spec(self, command: Sequence[str], env: Environment) -> dict[str, object]:
        bundle = self.directory / "spec"
        if not (bundle / "config.json").exists():
            bundle.mkdir(exist_ok=True)
            must(["runc", "spec", "--bundle", bundle])
        spec: dict[str, object] = json.loads((bundle / "config.json").read_text())
        process = spec["process"]
        assert isinstance(process, dict)
        process["terminal"] = False
        process["args"] = list(command)
        process["env"] = ["PATH=/", *environment_list(env)]
        spec["root"] = {"path": str(self.rootfs), "readonly": True}
        return spec

    def bundle(self, spec: object, name: str | None = None) -> Path:
        self.count += 1
        bundle = self.directory / (name or f"bundle{self.count}")
        bundle.mkdir()
        (bundle / "config.json").write_text(spec if isinstance(spec, str) else json.dumps(spec))
        return bundle

    def run_bundle(self, bundle: Path, name: str) -> Outcome:
        try:
            return call([*self.base, "run", "--bundle", bundle, name])
        except subprocess.TimeoutExpired:
            # The container goes on without runc, with what it has of the card.
            self.end(name)
            raise

    def run(self, command: Sequence[str], env: Environment, *extra: str) -> Outcome:
        bundle = self.bundle(self.spec(command, env))
        return self.run_bundle(bundle, f"run{os.getpid()}-{self.count}")

    def spawn(self, bundle: Path, name: str, output: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start the container of a bundle, and do not wait for it; output: subprocess.PIPE to read it."""
        command = [*self.base, "run", "--bundle", str(bundle), name]
        nothing = subprocess.DEVNULL
        both = subprocess.STDOUT
        return subprocess.Popen(command, stdin=nothing, stdout=output, stderr=both, text=True)

    def start(self, name: str, command: Sequence[str], env: Environment, *extra: str) -> Outcome:
        bundle = self.bundle(self.spec(command, env))
        log = bundle / "output"
        with log.open("w") as output:
            done = subprocess.run(
                [*self.base, "run", "--detach", "--bundle", str(bundle), name],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=PATIENCE, check=False,
            )  # fmt: skip
        return Outcome(done.returncode, "", log.read_text())

    def exec(self, name: str, command: Sequence[str]) -> Outcome:
        return call([*self.base, "exec", name, *command])

    def kill(self, name: str) -> Outcome:
        return call([*self.base, "kill", name, "KILL"])

    def end(self, name: str) -> None:
        self.kill(name)
        self.remove(name)

    def remove(self, name: str) -> Outcome:
        return call([*self.base, "delete", "--force", name])

    def close(self) -> None:
        for state in (self.directory / "state").glob("*"):
            self.remove(state.name)


class CommandLine(ABC):
    """Common commands of docker and podman."""

    @property
    @abstractmethod
    def base(self) -> list[str]: ...

    @abstractmethod
    def words(self, env: Environment, extra: Sequence[str], image: str) -> list[str]: ...

    def call(self, *words: str, timeout: float = PATIENCE) -> Outcome:
        return call([*self.base, *words], timeout=timeout)

    def run(self, command: Sequence[str], env: Environment, *extra: str, image: str = IMAGE) -> Outcome:
        return self.call("run", "--rm", *self.words(env, extra, image), *command)

    def start(self, name: str, command: Sequence[str], env: Environment, *extra: str) -> Outcome:
        return self.call("run", "-d", "--name", name, *self.words(env, extra, IMAGE), *command)

    def exec(self, name: str, command: Sequence[str]) -> Outcome:
        return self.call("exec", name, *command)

    def kill(self, name: str) -> Outcome:
        return self.call("kill", "-s", "KILL", name)


@dataclass
class Docker(CommandLine):
    """dockerd of its own, with the wrapper as runtime `cgpu`."""

    directory: Path
    name: str = "docker"

    def __post_init__(self) -> None:
        self.socket = f"unix://{self.directory}/docker.sock"
        config = self.directory / "daemon.json"
        must([CONFIGURE, "docker", "--config", config, "--runtime", LAUNCHER])
        self.server = Server(
            "dockerd",
            ["dockerd", "--config-file", config, "--data-root", self.directory / "root",
             "--exec-root", self.directory / "exec", "--pidfile", self.directory / "pid", "-H", self.socket,
             "--iptables=false", "--bridge=none", "--storage-driver=vfs"],
            self.directory / "log",
            lambda: self.call("version").returncode == 0,
        ).start()  # fmt: skip
        try:
            must([*self.base, "import", image_tar(self.directory), IMAGE], timeout=120)
        except BaseException:
            self.server.stop()
            raise

    @property
    def base(self) -> list[str]:
        return ["docker", "-H", self.socket]

    def words(self, env: Environment, extra: Sequence[str], image: str) -> list[str]:
        return ["--runtime", "cgpu", "--network", "none", *variables(env), *extra, image]

    def run_image(self, folder: Path, command: Sequence[str], env: Environment, **members: object) -> Outcome:
        """Run a container of an image of the probe whose configuration has these members."""
        archive = oci_archive(image_tar(folder), folder, command, **members)
        image = must([*self.base, "load", "-i", archive], timeout=120).stdout.rpartition(": ")[2].strip()
        try:
            return self.run(command, env, image=image)
        finally:
            # The image has the name of the other tests' image.
            self.call("import", str(folder / "image.tar"), image)

    def remove(self, name: str) -> Outcome:
        return self.call("rm", "-f", name)

    def clear(self) -> None:
        for identity in self.call("ps", "-aq").stdout.split():
            self.remove(identity)

    def close(self) -> None:
        try:
            self.clear()
        finally:
            self.server.stop()


def attend(ctr: Sequence[str], words: Sequence[str]) -> Outcome:
    """Run a program in a container by `ctr run` or `ctr task exec` to its end and keep what it printed.

    containerd writes the output to a file: what a short program prints is lost now and then on the way to
    ctr's own output (https://github.com/containerd/containerd/issues/770), with the exit status 0.
    """
    with tempfile.NamedTemporaryFile(mode="r", errors="replace") as output:
        done = call([*ctr, "--log-uri", f"file://{output.name}", *words])
        return replace(done, stdout=output.read() + done.stdout)


@dataclass
class Containerd:
    """containerd of its own; `ctr run` with the wrapper as the runc binary."""

    directory: Path
    name: str = "ctr"
    runc_binary: Path = LAUNCHER

    def __post_init__(self) -> None:
        self.socket = self.directory / "containerd.sock"
        config = self.directory / "config.toml"
        config.write_text(
            f'version = 2\nroot = "{self.directory}/root"\nstate = "{self.directory}/state"\n'
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\naddress = "{self.socket}"\n'
        )
        command: list[str | Path] = ["containerd", "-c", config]
        log = self.directory / "log"
        self.server = Server("containerd", command, log, lambda: self.ctr("version").returncode == 0).start()
        tar = oci_archive(image_tar(self.directory), self.directory)
        must([*self.base, "image", "import", "--snapshotter", "native", tar], timeout=120)

    @property
    def base(self) -> list[str]:
        return ["ctr", "-a", str(self.socket)]

    def ctr(self, *words: str, timeout: float = PATIENCE) -> Outcome:
        return call([*self.base, *words], timeout=timeout)

    def words(self, env: Environment, extra: Sequence[str], image: str = IMAGE) -> list[str]:
        return ["--snapshotter", "native", "--runc-binary", str(self.runc_binary), *variables(env), *extra,
                f"docker.io/library/{image}"]  # fmt: skip

    def run(self, command: Sequence[str], env: Environment, *extra: str, image: str = IMAGE) -> Outcome:
        name = f"ctr{os.getpid()}-{time.monotonic_ns()}"
        return attend([*self.base, "run"], ["--rm", *self.words(env, extra, image), name, *command])

    def start(self, name: str, command: Sequence[str], env: Environment, *extra: str) -> Outcome:
        return self.ctr("run", "--detach", *self.words(env, extra), name, *command)

    def exec(self, name: str, command: Sequence[str]) -> Outcome:
        identity = f"exec{time.monotonic_ns()}"
        return attend([*self.base, "task", "exec"], ["--exec-id", identity, name, *command])

    def kill(self, name: str) -> Outcome:
        return self.ctr("task", "kill", "-s", "SIGKILL", name)

    def remove(self, name: str) -> Outcome:
        self.ctr("task", "rm", "--force", name)
        return self.ctr("container", "rm", name)

    def close(self) -> None:
        for name in self.ctr("container", "ls", "-q").stdout.split():
            self.remove(name)
        self.server.stop()


@dataclass
class Podman(CommandLine):
    """podman with storage of its own; the wrapper as its OCI runtime."""

    directory: Path
    name: str = "podman"
    # podman refuses a name of more than 50 characters.
    runroot: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="podman-"))

    def __post_init__(self) -> None:
        must([*self.base, "import", image_tar(self.directory), f"localhost/{IMAGE}"], timeout=120)

    @property
    def base(self) -> list[str]:
        return ["podman", "--root", f"{self.directory}/root", "--runroot", self.runroot,
                "--storage-driver", "vfs", "--runtime", str(LAUNCHER),
                "--cgroup-manager", "cgroupfs"]  # fmt: skip

    def words(self, env: Environment, extra: Sequence[str], image: str) -> list[str]:
        return [*PODMAN_LIMITS, *variables(env), *extra, image]

    def remove(self, name: str) -> Outcome:
        return self.call("rm", "-f", "-t", "0", name)

    def close(self) -> None:
        self.call("rm", "-f", "-a", "-t", "0")
        shutil.rmtree(self.runroot, ignore_errors=True)


Runtime = Runc | Docker | Containerd | Podman
