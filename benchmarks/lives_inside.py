# SPDX-License-Identifier: Apache-2.0
"""Measures lives in a virtual machine; module_life.py starts it there.

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
SOCKET = "/run/cgpu-container-runtime.sock"
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
        subprocess.run([*base, *words], env=env, stdin=subprocess.DEVNULL, check=True, timeout=300)

    # As containerd's shim: the container's process is this one's child when create has ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid_file = bundle / "pid"
    call("create", "--bundle", str(bundle), "--pid-file", str(pid_file), name)
    call("start", name)
    # One that is not reaped keeps its cgroup busy, and runc waits before it tries again to remove that.
    os.waitpid(int(pid_file.read_text()), 0)
    call("delete", name)


def measure(life: dict[str, Any], folder: Path, name: str) -> float:
    bundle = folder / name
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps(life["spec"]))
    away = SOCKET + ".away"
    if not life["server"]:
        os.rename(SOCKET, away)
    start = time.perf_counter()
    whole_life([life["runtime"], "--root", str(folder / "state")], bundle, name, life["environment"])
    took = (time.perf_counter() - start) * 1000
    if not life["server"]:
        os.rename(away, SOCKET)
    return took


def main() -> None:
    """Measure each life once in each round, in an order that is drawn anew; the first two do not count."""
    job = json.loads(Path(sys.argv[1]).read_text())
    server = subprocess.Popen(["/usr/bin/python3", "-IS", "-c", SERVER, job["package"]])
    while not os.path.exists(SOCKET):
        time.sleep(0.1)
    times: dict[str, list[float]] = {name: [] for name in job["lives"]}
    order = random.Random(22)  # noqa: S311, no secret
    for turn in range(job["rounds"] + 2):
        for number, name in enumerate(order.sample(list(times), len(times))):
            took = measure(job["lives"][name], Path(job["folder"]), f"life-{turn}-{number}")
            if turn >= 2:
                times[name].append(took)
    server.terminate()
    server.wait()
    print(json.dumps(times))


if __name__ == "__main__":
    main()
