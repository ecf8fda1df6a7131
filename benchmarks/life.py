# SPDX-License-Identifier: Apache-2.0
"""What a container's whole life costs above its low-level runtime, part by part.

Needs root and a running engine: `cgpud --simulate T4`. Each variant runs once per round, so that a change
of the machine's speed meets them all alike. Prints medians in milliseconds and the added time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.commands import must
from tests.integration.images import ROOT
from tests.integration.runtimes import LAUNCHER, Containerd, Runc

SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "3", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}
PROGRAM = "int main(void) { return 0; }\n"
HOOK = ROOT / "hook" / "cgpu-hook"


def timed(action: Callable[[], object]) -> float:
    """Return the milliseconds that an action takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def nothing_program(rootfs: Path) -> None:
    source = rootfs.parent / "nothing.c"
    source.write_text(PROGRAM)
    must(["gcc", "-static", "-O2", source, "-o", rootfs / "nothing"])


def ctr_lives(directory: Path, nvidia: str | None) -> dict[str, Callable[[], object]]:
    """One whole life through ctr, by the runtime that it is told to use."""
    engine = Containerd(directory)
    runtimes = {"runc": Path(shutil.which("runc") or "/usr/sbin/runc"), "cgpu, not sliced": LAUNCHER}
    if nvidia:
        runtimes["nvidia-container-runtime"] = Path(nvidia)

    def life(binary: Path, env: dict[str, str]) -> Callable[[], object]:
        def run() -> None:
            engine.runc_binary = binary
            outcome = engine.run(["/cgpu-probe", "--help"], env)
            if outcome.returncode != 0:
                raise SystemExit(f"ctr with {binary}: {outcome.text}")

        return run

    lives = {f"ctr run: {name}": life(binary, {}) for name, binary in runtimes.items()}
    lives["ctr run: cgpu, sliced"] = life(LAUNCHER, SLICE)
    lives["close"] = engine.close
    return lives


def runc_lives(directory: Path, nvidia: str | None) -> dict[str, Callable[[], object]]:
    """The same with runc's own command line, and the parts of a sliced life alone."""
    runc = Runc(directory)
    nothing_program(runc.rootfs)

    def life(binary: str, env: dict[str, str]) -> Callable[[], object]:
        def run() -> None:
            runc.launcher = Path(binary)
            outcome = runc.run(["/nothing"], env)
            if outcome.returncode != 0:
                raise SystemExit(f"{binary}: {outcome.text}")

        return run

    lives = {
        "runc run: runc": life(shutil.which("runc") or "runc", {}),
        "runc run: cgpu, not sliced": life(str(LAUNCHER), {}),
        "runc run: cgpu, sliced": life(str(LAUNCHER), SLICE),
    }
    if nvidia:
        lives["runc run: nvidia-container-runtime"] = life(nvidia, {})
    return lives


def parts() -> dict[str, Callable[[], object]]:
    """Single processes: an empty interpreter, the hook's two stages, the launcher passing a call on."""
    state = {"ociVersion": "1.0.2", "id": "benchmark-life", "pid": os.getpid(), "bundle": "/"}
    text = json.dumps(state)

    def process(*command: str) -> Callable[[], object]:
        return lambda: must_say(command, text)

    return {
        "part: empty interpreter": process("/usr/bin/python3", "-IS", "-c", "pass"),
        "part: hook, prestart": process(str(HOOK), "prestart", "--grant", f"0:{1 << 20}:1:0"),
        "part: hook, poststop": process(str(HOOK), "poststop"),
        "part: runc --version": process("runc", "--version"),
        "part: launcher, runc --version": process(str(LAUNCHER), "--version"),
    }


def must_say(command: tuple[str, ...], text: str) -> None:
    """Run a process with a text on standard input; it has to succeed."""
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False, timeout=30)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr}")


def report(times: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        base = medians.get(name.split(":")[0] + ": runc")
        added = (
            ""
            if base is None or name.endswith(": runc")
            else f"  +{median - base:.1f} ms ({median / base:.2f}x)"
        )
        print(f"{name:42} {median:8.1f} ms{added}")
    whole = medians["runc run: cgpu, sliced"] - medians["runc run: runc"]
    hooks = medians["part: hook, prestart"] + medians["part: hook, poststop"]
    print(f"{'of the added time: both hooks':42} {hooks:8.1f} ms")
    print(f"{'of the added time: wrapper and listener':42} {whole - hooks:8.1f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--nvidia-runtime", default=shutil.which("nvidia-container-runtime"))
    options = parser.parse_args()
    if options.nvidia_runtime is None:
        print("nvidia-container-runtime: not measured, no such binary on PATH (--nvidia-runtime names one)")
    with tempfile.TemporaryDirectory(prefix="cgpu-life-") as name:
        (Path(name) / "ctr").mkdir()
        (Path(name) / "runc").mkdir()
        lives = ctr_lives(Path(name) / "ctr", options.nvidia_runtime)
        close = lives.pop("close")
        try:
            lives |= runc_lives(Path(name) / "runc", options.nvidia_runtime) | parts()
            times: dict[str, list[float]] = {what: [] for what in lives}
            for turn in range(options.rounds + 2):
                for what, action in lives.items():
                    took = timed(action)
                    if turn >= 2:
                        times[what].append(took)
            report(times)
        finally:
            close()


if __name__ == "__main__":
    main()
