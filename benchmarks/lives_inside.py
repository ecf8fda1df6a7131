# SPDX-License-Identifier: Apache-2.0
"""Measures lives, by the standard library alone: module_life.py starts it in a virtual machine.

Takes a JSON file: rounds, where bundles and state go, the folder of the package, and by its name each life's
runtime, specification, environment, and whether the wrapper has a server. Prints milliseconds in JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
SOCKET = "/run/cgpu-container-runtime.sock"
FIRST_ROUNDS = 2  # which warm caches, and do not count
T = TypeVar("T")
SERVER = """
import sys
sys.path.append(sys.argv[1])
from cgpu.runtime_config.oci_runtime import server
server.run([])
"""


def whole_life(base: Sequence[str], bundle: Path, name: str, environment: Mapping[str, str]) -> None:
    """Create, start, await and delete a container, as container engines do.

    NVIDIA's runtime does nothing for `run`. Raises CalledProcessError.
    """
    env = os.environ | dict(environment)

    def call(*words: str) -> None:
        # Without pipes: the container keeps what create was given.
        nothing = subprocess.DEVNULL
        subprocess.run([*base, *words], env=env, stdin=nothing, stdout=nothing, check=True, timeout=300)

    # As containerd's shim: the container's process is this one's child when create has ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid_file = bundle / "pid"
    call("create", "--bundle", str(bundle), "--pid-file", str(pid_file), name)
    call("start", name)
    # One that is not reaped keeps its cgroup busy, and runc waits before it tries again to remove that.
    os.waitpid(int(pid_file.read_text()), 0)
    call("delete", name)


@contextmanager
def wrapper_server(*, there: bool) -> Iterator[None]:
    """Have the wrapper's server where the wrapper looks for it, or not."""
    if there:
        yield
        return
    away = SOCKET + ".away"
    os.rename(SOCKET, away)
    try:
        yield
    finally:
        os.rename(away, SOCKET)


@contextmanager
def running_server(package: str) -> Iterator[None]:
    """Run the wrapper's server of a package, which lies in that folder."""
    command = ["/usr/bin/python3", "-IS", "-c", SERVER, package]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        while not os.path.exists(SOCKET):
            if server.poll() is not None:
                raise SystemExit("the wrapper's server has ended")
            time.sleep(0.02)
        yield
    finally:
        server.terminate()
        server.wait()


def in_rounds(things: Sequence[T], rounds: int) -> Iterator[tuple[T, bool]]:
    """Yield each thing once in each round, in an order that is drawn anew, and whether the round counts."""
    order = random.Random(22)  # noqa: S311, no secret
    for turn in range(rounds + FIRST_ROUNDS):
        for thing in order.sample(things, len(things)):
            yield thing, turn >= FIRST_ROUNDS


def measure(life: dict[str, Any], folder: Path, name: str) -> float:
    bundle = folder / name
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps(life["spec"]))
    base = [life["runtime"], "--root", str(folder / "state")]
    with wrapper_server(there=life["server"]):
        start = time.perf_counter()
        whole_life(base, bundle, name, life["environment"])
        return (time.perf_counter() - start) * 1000


def main() -> None:
    """Measure each life in rounds, and print."""
    job = json.loads(Path(sys.argv[1]).read_text())
    times: dict[str, list[float]] = {name: [] for name in job["lives"]}
    with running_server(job["package"]):
        for number, (name, counts) in enumerate(in_rounds(list(times), job["rounds"])):
            took = measure(job["lives"][name], Path(job["folder"]), f"life-{number}")
            if counts:
                times[name].append(took)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
