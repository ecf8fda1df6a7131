# SPDX-License-Identifier: Apache-2.0
"""Containers share a simulated Tesla T4: memory inside slices, compute by weight, and nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

from tests.integration.commands import Outcome, eventually
from tests.integration.engine import CGPUD, SMI, TREE, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker

MIB = 1 << 20
SIX = {"OPENCGPU_MEM": "6G"}
SMALL = {"OPENCGPU_MEM": "1G"}
WEIGHT = "OPENCGPU_WEIGHT"
WORK_S = 60  # and then removed; a busy machine takes seconds to start both
MEASURED_S = 3
TIMES = 5  # to measure: other programs of the machine may take its processors for a while
NEAR = 0.1  # of shares
RUN = "docker run --runtime=cgpu -e OPENCGPU_MEM=6G probe"


class Story:
    """The demo's steps. Raises AssertionError when the machine does not do what the text says."""

    def __init__(self, docker: Docker, engine: Engine) -> None:
        """Keep both."""
        self.docker = docker
        self.engine = engine

    def start(self, name: str, words: list[str], holds: int) -> None:
        """Start one container and wait until it holds its memory."""
        print(f"$ {RUN.replace('run', 'run -d --name ' + name, 1)} {' '.join(words)}")
        done = self.docker.start(name, ["/cgpu-probe", *words, "hold=300"], SIX)
        assert done.returncode == 0, done.text
        identity = done.stdout.strip()[:12]
        eventually(lambda: self.engine.used("0", identity) == holds, f"{name} holds {holds} bytes")

    def inside(self) -> None:
        """Show what a program in the first container sees and gets."""
        say("What a program in the first container sees, and what happens beyond the slice")
        words = ["info", "expect=0x51", "alloc=6G", "alloc=1G", "info"]
        print(f"$ docker exec first cgpu-probe {' '.join(words)}")
        outcome = self.docker.exec("first", ["/cgpu-probe", *words])
        total = step(outcome, "info").number("total")
        assert total == 6144 * MIB
        assert step(outcome, "alloc").number("status") == NO_MEMORY
        assert step(outcome, "alloc", 1).number("status") == 0
        print(f"  size of the card:  {total // MIB} MiB (the card has 15109)")
        print(f"  free before:       {step(outcome, 'info').number('free') // MIB} MiB")
        print("  6 GiB asked for:   refused, the driver says out of memory (0x51)")
        print("  1 GiB asked for:   granted")
        print(f"  free after:        {step(outcome, 'info', 1).number('free') // MIB} MiB")

    def third(self) -> None:
        """Show the refusal of a promise that cannot be kept."""
        say("A third container of the same size does not fit: it is refused at its start")
        print(f"$ {RUN}")
        outcome = self.docker.run(["/cgpu-probe", "info"], SIX)
        assert outcome.returncode != 0
        print(indent(last_line(outcome)))

    def work(self) -> None:
        """Let two containers with weights 1 and 2 compute in the same seconds."""
        say("Two containers compute in the same seconds, with weights 1 and 2")
        words = ["/cgpu-probe", "group", f"busy={WORK_S}s:1ms"]
        weights = {"light": 1, "heavy": 2}
        for name, weight in weights.items():
            env = {**SMALL, WEIGHT: str(weight)}
            print(f"$ docker run -d --name {name} --runtime=cgpu -e {WEIGHT}={weight} … probe busy")
            done = self.docker.start(name, words, env)
            assert done.returncode == 0, done.text
        policy = (TREE / "0/policy").read_text().strip()
        eventually(lambda: len(usages()) == len(weights) and all(usages().values()), "both compute")
        for _ in range(TIMES):
            parts = self.measure(weights)
            if all(
                abs(parts[name] - weight / sum(weights.values())) < NEAR for name, weight in weights.items()
            ):
                break
        else:
            raise AssertionError(f"the GPU time is not divided by weight: {parts}")
        for name, weight in weights.items():
            print(f"  {name}: weight {weight}, {100 * parts[name]:.0f} % of the GPU time")
        print(f"  the tree says how: policy {policy}, {(TREE / '0/sched').read_text().split()[0]}")
        for name in weights:
            self.docker.remove(name)
        self.engine.await_empty()

    def measure(self, names: Iterable[str]) -> dict[str, float]:
        """Return the parts of the GPU time that containers have for some seconds."""
        time.sleep(1)
        before = usages()
        time.sleep(MEASURED_S)
        used = {identity: usage - before[identity] for identity, usage in usages().items()}
        found = {
            name: self.docker.call("inspect", "-f", "{{.Id}}", name).stdout.strip()[:12] for name in names
        }
        return {name: used[identity] / sum(used.values()) for name, identity in found.items()}

    def end(self) -> None:
        """Stop the containers; the tree is empty."""
        say("Stopped, one of them by SIGKILL: everything is given back")
        print("$ docker kill -s KILL first; docker rm -f first second")
        self.docker.kill("first")
        self.docker.remove("first")
        self.docker.remove("second")
        self.engine.await_empty()
        print(f"$ ls {TREE}/0")
        print(indent(" ".join(sorted(path.name for path in (TREE / "0").iterdir()))))
        free = int((TREE / "0/memfree").read_text())
        print(f"  no container directory is left; {free // MIB} MiB of the card are free")


def usages() -> dict[str, int]:
    """Return the GPU time of each container in nanoseconds."""
    return {path.parent.name: int(path.read_text()) for path in (TREE / "0").glob("*/usage")}


def taken() -> int:
    """Return how many bytes of the card's memory are taken."""
    total, free = (int((TREE / f"0/{name}").read_text()) for name in ("memtotal", "memfree"))
    return total - free


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


def indent(text: str) -> str:
    """Return text set in by two columns."""
    return "\n".join(f"  {line}" for line in text.splitlines())


def last_line(outcome: Outcome) -> str:
    """Return the line that says why."""
    lines = [line for line in outcome.stderr.splitlines() if "opencgpu:" in line]
    return lines[-1] if lines else outcome.text


def cause(error: Exception) -> str:
    """Return why the demo failed: the error's own words, or the line that expected another figure."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return str(error) or f"{place.filename}:{place.lineno}: not so on this machine: {place.line}"


def tell(directory: Path) -> None:
    """Run the story from the engine's start to its end."""
    engine = Engine("T4", {}, directory)
    say("The engine, with one simulated Tesla T4 of 15109 MiB")
    print("$ cgpud --simulate T4")
    engine.start()
    try:
        print(indent(f"tree at {TREE}: {engine.read('engine').strip()}"))
        say("A docker daemon of the demo's own, with the runtime `cgpu`")
        docker = Docker(directory)
        try:
            story = Story(docker, engine)
            say("Two containers share the card, 6 GiB each")
            story.start("first", ["alloc=2G"], 2 << 30)
            story.start("second", ["alloc=5G"], 5 << 30)
            story.inside()
            # The engine asks the card once a second how much of its memory is taken.
            eventually(lambda: taken() >= 7 << 30, "the tree tells of both")
            say("What the node sees")
            print("$ cgpu-smi")
            env = {**os.environ, "DOCKER_HOST": docker.socket}
            table = subprocess.run([SMI], env=env, capture_output=True, text=True, check=True)
            print(indent(table.stdout))
            story.third()
            story.end()
            story.work()
        finally:
            docker.close()
    finally:
        engine.stop()
    print("\nDone.")


def main() -> None:
    """Run the demo in a directory of its own."""
    if not CGPUD.exists():
        sys.exit("demo: cgpud is not installed here: run make demo")
    # A folder that cannot be removed must not hide why the demo failed.
    with tempfile.TemporaryDirectory(prefix="cgpu-demo-", ignore_cleanup_errors=True) as name:
        try:
            tell(Path(name))
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            sys.exit(f"demo: {cause(error)}")


if __name__ == "__main__":
    main()
