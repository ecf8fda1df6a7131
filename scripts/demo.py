# SPDX-License-Identifier: Apache-2.0
"""Two containers share a simulated Tesla T4: each inside its slice, one refused beyond it, nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.integration.commands import Outcome, eventually
from tests.integration.engine import CGPUD, SMI, TREE, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker

MIB = 1 << 20
SIX = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15"}
RUN = "docker run --runtime=cgpu -e ALIYUN_COM_GPU_MEM_CONTAINER=6 -e ALIYUN_COM_GPU_MEM_DEV=15 probe"


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
        assert total == 6043 * MIB
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


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


def indent(text: str) -> str:
    """Return text set in by two columns."""
    return "\n".join(f"  {line}" for line in text.splitlines())


def last_line(outcome: Outcome) -> str:
    """Return the line that says why."""
    lines = [line for line in outcome.stderr.splitlines() if "cgpu-" in line]
    return lines[-1] if lines else outcome.text


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
            say("Two containers share the card, 6 of 15 parts each")
            story.start("first", ["alloc=2G"], 2 << 30)
            story.start("second", ["alloc=5G"], 5 << 30)
            story.inside()
            say("What the node sees")
            print("$ cgpu-smi")
            env = {**os.environ, "DOCKER_HOST": docker.socket}
            table = subprocess.run([SMI], env=env, capture_output=True, text=True, check=True)
            print(indent(table.stdout))
            story.third()
            story.end()
        finally:
            docker.close()
    finally:
        engine.stop()
    print("\nDone. Compute is not divided yet: the shares in the table are only recorded.")


def main() -> None:
    """Run the demo in a directory of its own."""
    if not CGPUD.exists():
        sys.exit("demo: cgpud is not installed here: run make demo")
    with tempfile.TemporaryDirectory(prefix="cgpu-demo-") as name:
        tell(Path(name))


if __name__ == "__main__":
    main()
