# SPDX-License-Identifier: Apache-2.0
"""Facts of a real card and its driver that no source tells, as JSON. No engine may run meanwhile.

usage: python -m tests.gpu.facts [--out FILE] [NAME...]
NAME is driver, versions, shared, implicit, channels, paths or opaque; without one, all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cgpu.check_driver.run import run as run_check
from cgpu.errors import CgpuError
from tests.gpu import calls
from tests.gpu.node import (
    BUILD,
    DEV,
    PROBE,
    NodeError,
    driver_free,
    driver_version,
    is_known,
    probe_words,
    program,
    ran,
    talking,
)

Json = dict[str, Any]
SLICES_US = (0, 1, 10, 100, 500, 1000, 2000, 8000, 100000)
SPIN_S = 1.0
ANSWER_S = 60.0


def probe(*words: str) -> str:
    command = [str(PROBE), "--dev", DEV, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def recorder(trace: Path, command: list[str]) -> list[str]:
    """Return the command line that records a command."""
    return [str(BUILD / "cgpu-recorder"), "-o", str(trace), "--dev", DEV, "--", *command]


class Steps:
    """The program that goes step by step, under the recorder."""

    def __init__(self, trace: Path) -> None:
        self._process = talking(recorder(trace, program("steps")))
        self._trace = trace
        self.pid = int(self.answer()["pid"])

    def answer(self) -> Json:
        """Return the next answer. Raises NodeError."""
        assert self._process.stdout is not None
        # A channel that stays off its runlist would keep it for good.
        timer = threading.Timer(ANSWER_S, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line.startswith("{"):
            raise NodeError(line.strip() or "the program ended")
        found: Json = json.loads(line)
        return found

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def go(self, word: str) -> Json:
        """Give it a step and wait for the answer."""
        self.tell(word)
        return self.answer()

    def events(self) -> list[calls.Event]:
        """Return what it has called so far."""
        return calls.read(self._trace)

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate("stop\n", timeout=60)


@contextlib.contextmanager
def stepping(count: int) -> Iterator[list[Steps]]:
    """Have so many of these programs, each with a context and its first kernel behind it."""
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name, contextlib.ExitStack() as stack:
        found = []
        for index in range(count):
            one = Steps(Path(name) / f"{index}.jsonl")
            stack.callback(one.close)
            found.append(one)
        yield found


def versions() -> Json:
    """Driver, kernel, card, frameworks."""
    version = driver_version(DEV)
    done = ran(program("frameworks", "versions"))
    about = json.loads(done.stdout) if done.returncode == 0 else {}
    card = probe("info")
    return {
        "driver": version,
        "in_table": is_known(version),
        "kernel": os.uname().release,
        "card": card,
        **about,
    }


def borrowed(pid: int, client: calls.Client) -> Json:
    """Ask, allocate and free on a client of another process, as cgpud does, and see whose memory that is."""
    words = (client.dup_fd(pid), "info", "alloc=64M", "hold", "free", "info")
    holder = talking([str(PROBE), "--dev", DEV, *words])
    lines = until_hold(holder)
    owners = probe("pids").splitlines()
    rest, _ = holder.communicate("", timeout=60)
    return {"owner": pid, "caller": holder.pid, "lines": lines + rest.splitlines(), "pids": owners}


def until_hold(process: subprocess.Popen[str]) -> list[str]:
    """Return what the probe prints before it waits."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        if line == "hold\n":
            break
        lines.append(line.strip())
    return lines


def shared() -> Json:
    """Whether a client takes calls from another process, and to which of both memory counts."""
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name:
        trace = Path(name) / "trace.jsonl"
        command = recorder(trace, [str(PROBE), "--dev", DEV, "pids", "hold"])
        owner = talking(command)
        lines = until_hold(owner)
        try:
            pid = int(probe_words("\n".join(lines), "pids")["self"])
            (client,) = calls.clients(calls.read(trace))
            return borrowed(pid, client)
        finally:
            owner.communicate("", timeout=60)


def implicit() -> Json:
    """What a context costs the card beyond the memory that the program's own objects have."""
    found: Json = {"free": driver_free(DEV)}
    with stepping(1) as (one,):
        for word in ("init", "context", "kernel"):
            if word != "init":
                found[f"{word}_answer"] = one.go(word)
            taken, own = found["free"] - driver_free(DEV), calls.video_bytes(one.events())
            found[word] = {"taken": taken, "objects": own, "implicit": taken - own}
        channel = calls.channel(one.events())
        if channel is not None:
            words = channel.client.dup_fd(one.pid), f"context-bytes={channel.handle}"
            found["context_buffers"] = probe(*words)
    found["left_after_end"] = found["free"] - driver_free(DEV)
    return found


def contention(pair: list[Steps], channels: list[calls.Channel], lengths: tuple[int, int]) -> Json:
    """Give two programs time slices; return how many kernels each gets done at the same time."""
    answers = [
        probe(channel.client.dup_fd(one.pid), f"timeslice={channel.group}:{length}")
        for one, channel, length in zip(pair, channels, lengths, strict=True)
    ]
    for one in pair:
        one.tell(f"spin {SPIN_S}")
    return {"set": answers, "launches": [one.answer()["launches"] for one in pair]}


def switched_off(one: Steps, channel: calls.Channel) -> Json:
    """Take the program's channel off its runlist by a client that does not own it, and put it back."""
    place = f"{channel.client.handle}:{channel.handle}"
    one.tell(f"spin {SPIN_S}")
    time.sleep(SPIN_S / 4)
    off = probe(f"channel-off={place}")
    time.sleep(SPIN_S / 2)
    on = probe(f"channel-on={place}")
    stopped = one.answer()["launches"]
    return {
        "off": off,
        "on": on,
        "launches": stopped,
        "launches_undisturbed": one.go(f"spin {SPIN_S}")["launches"],
    }


def channels() -> Json:
    """Time slices, channels of others, and calls on a copied descriptor, tried on two programs of our own."""
    with stepping(2) as pair:
        for one in pair:
            one.go("context")
            one.go("kernel")
        found = [channel for one in pair if (channel := calls.channel(one.events())) is not None]
        if len(found) != len(pair):
            raise NodeError("the traces name no compute channel")
        first, word = pair[0], f"timeslice={found[0].group}"
        dup_fd = found[0].client.dup_fd(first.pid)
        facts: Json = {
            "borrowed": borrowed(first.pid, found[0].client),
            "default": probe_words(probe(dup_fd, word), "timeslice"),
            "timeslices": {
                length: probe_words(probe(dup_fd, f"{word}:{length}"), "timeslice") for length in SLICES_US
            },
            "alone": first.go(f"spin {SPIN_S}")["launches"],
        }
        for lengths in ((2000, 2000), (500, 8000), (8000, 500), (1, 2000)):
            facts[f"contention {lengths[0]}:{lengths[1]}"] = contention(pair, found, lengths)
        facts["switched_off"] = switched_off(first, found[0])
        return facts


def recorded(command: list[str], directory: str, given: str = "\n\n") -> list[calls.Event]:
    """Return the calls of a command."""
    trace = Path(directory) / "trace.jsonl"
    done = ran(recorder(trace, command), given)
    if not trace.exists():
        raise NodeError(done.stderr.strip())
    return calls.read(trace)


def paths() -> Json:
    """Which calls each of CUDA's ways to memory makes, beyond those of a context."""
    found: Json = {}
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name:
        base = calls.summary(recorded(program("memory", "info"), name))
        found["context"] = base
        for kind in ("malloc", "async", "vmm", "managed", "graph"):
            events = recorded(program("memory", "fill", kind, "16", "64"), name)
            found[kind] = calls.difference(calls.summary(events), base)
        for kind in ("ipc", "export"):
            events = recorded(program("sharing", kind, "16"), name)
            found[kind] = calls.difference(calls.summary(events), base)
    return found


def opaque() -> Json:
    """Which controls nvidia-smi uses whose parameters no source tells."""
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name:
        asked = {"memory": ["-q", "-d", "MEMORY"], "processes": ["-q", "-d", "PIDS"], "all": ["-q"]}
        return {what: calls.summary(recorded(["nvidia-smi", *words], name)) for what, words in asked.items()}


def driver() -> Json:
    """Return what `cgpu check-driver` finds, on each card."""
    outcome = run_check(DEV)
    checks = {f"{one.card}: {one.name}": f"{one.verdict} {one.reason}".strip() for one in outcome.checks}
    return {"driver": outcome.driver, "layouts": outcome.table, "known": outcome.known, "checks": checks}


FACTS: dict[str, Callable[[], Json]] = {
    fact.__name__: fact for fact in (driver, versions, shared, implicit, channels, paths, opaque)
}


def gather(names: Sequence[str]) -> Json:
    """Return the facts by name; one that fails says why, and the others go on."""
    found: Json = {}
    for name in names:
        try:
            found[name] = FACTS[name]()
        except (CgpuError, NodeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the facts, or write them to a file. Exit status 1 when one could not be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(FACTS))
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in FACTS]
    if unknown:
        parser.error(f"{unknown[0]}: expected {', '.join(FACTS)}")
    found = gather(options.names or list(FACTS))
    text = json.dumps(found, indent=1) + "\n"
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text)
    failed = [name for name, fact in found.items() if "failed" in fact]
    for name in failed:
        print(f"facts: {name}: {found[name]['failed']}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
