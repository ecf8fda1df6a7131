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
TIMESLICES_US = (0, 1, 10, 100, 500, 1000, 2000, 8000, 100000)
SPIN_S = 1.0
ANSWER_TIMEOUT_S = 60.0


def probe(*words: str) -> str:
    command = [str(PROBE), "--dev", DEV, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def recorder(trace: Path, command: list[str]) -> list[str]:
    """Return the command line that runs a command under cgpu-recorder."""
    return [str(BUILD / "cgpu-recorder"), "-o", str(trace), "--dev", DEV, "--", *command]


class StepProgram:
    """The program tests/gpu/programs/steps.py under cgpu-recorder. Each line of its input is a step."""

    def __init__(self, trace: Path) -> None:
        self._process = talking(recorder(trace, program("steps")))
        self._trace = trace
        self.pid = int(self.answer()["pid"])

    def answer(self) -> Json:
        """Return the program's next line of JSON. Raises NodeError."""
        assert self._process.stdout is not None
        # A program whose channel stays off its runlist never answers.
        timer = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line.startswith("{"):
            raise NodeError(line.strip() or "the program ended")
        found: Json = json.loads(line)
        return found

    def send(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def step(self, word: str) -> Json:
        """Have the program take a step, and return its answer."""
        self.send(word)
        return self.answer()

    def events(self) -> list[calls.Event]:
        """Return the driver calls that the program has made so far."""
        return calls.read(self._trace)

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate("stop\n", timeout=60)


@contextlib.contextmanager
def step_programs(count: int) -> Iterator[list[StepProgram]]:
    """Yield so many running step programs; end them afterwards."""
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name, contextlib.ExitStack() as stack:
        found = []
        for index in range(count):
            one = StepProgram(Path(name) / f"{index}.jsonl")
            stack.callback(one.close)
            found.append(one)
        yield found


def versions() -> Json:
    """Return the versions of driver, kernel and frameworks, and what the driver tells of the card."""
    version = driver_version(DEV)
    frameworks = ran(program("frameworks", "versions"))
    found = json.loads(frameworks.stdout) if frameworks.returncode == 0 else {}
    card = probe("info")
    return {
        "driver": version,
        "in_table": is_known(version),
        "kernel": os.uname().release,
        "card": card,
        **found,
    }


def calls_on_client_of(pid: int, client: calls.Client) -> Json:
    """Query, allocate and free on another process's client through a duplicated descriptor, as cgpud does.

    Return what the probe printed, and the processes to which the driver counts memory meanwhile.
    """
    words = (client.dup_fd(pid), "info", "alloc=64M", "hold", "free", "info")
    caller = talking([str(PROBE), "--dev", DEV, *words])
    lines = until_hold(caller)
    charged = probe("pids").splitlines()
    remaining, _ = caller.communicate("", timeout=60)
    return {"owner": pid, "caller": caller.pid, "lines": lines + remaining.splitlines(), "pids": charged}


def until_hold(process: subprocess.Popen[str]) -> list[str]:
    """Return the lines that the probe prints before its step `hold`, at which it waits."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        if line == "hold\n":
            break
        lines.append(line.strip())
    return lines


def shared() -> Json:
    """Return whether a client takes calls from another process, and to which process the memory counts."""
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name:
        trace = Path(name) / "trace.jsonl"
        command = recorder(trace, [str(PROBE), "--dev", DEV, "pids", "hold"])
        owner = talking(command)
        lines = until_hold(owner)
        try:
            pid = int(probe_words("\n".join(lines), "pids")["self"])
            (client,) = calls.clients(calls.read(trace))
            return calls_on_client_of(pid, client)
        finally:
            owner.communicate("", timeout=60)


def implicit() -> Json:
    """Return how much memory of the card a context takes beyond the program's own memory objects."""
    found: Json = {"free": driver_free(DEV)}
    with step_programs(1) as (one,):
        for word in ("init", "context", "kernel"):
            if word != "init":
                found[f"{word}_answer"] = one.step(word)
            taken, objects = found["free"] - driver_free(DEV), calls.video_bytes(one.events())
            found[word] = {"taken": taken, "objects": objects, "implicit": taken - objects}
        channel = calls.channel(one.events())
        if channel is not None:
            words = channel.client.dup_fd(one.pid), f"context-bytes={channel.handle}"
            found["context_buffers"] = probe(*words)
    found["left_after_end"] = found["free"] - driver_free(DEV)
    return found


def kernels_by_timeslice(
    pair: list[StepProgram], channels: list[calls.Channel], timeslices_us: tuple[int, int]
) -> Json:
    """Set the timeslices of two programs; return how many kernels each runs while both run."""
    probe_output = [
        probe(channel.client.dup_fd(one.pid), f"timeslice={channel.group}:{timeslice_us}")
        for one, channel, timeslice_us in zip(pair, channels, timeslices_us, strict=True)
    ]
    for one in pair:
        one.send(f"spin {SPIN_S}")
    return {"set": probe_output, "launches": [one.answer()["launches"] for one in pair]}


def disable_channel(one: StepProgram, channel: calls.Channel) -> Json:
    """Have a client that does not own a program's channel disable the channel, and enable it again.

    Return the kernels that the program ran meanwhile, and those of an undisturbed run.
    """
    channel_word = f"{channel.client.handle}:{channel.handle}"
    one.send(f"spin {SPIN_S}")
    time.sleep(SPIN_S / 4)
    off = probe(f"channel-off={channel_word}")
    time.sleep(SPIN_S / 2)
    on = probe(f"channel-on={channel_word}")
    launches = one.answer()["launches"]
    return {
        "off": off,
        "on": on,
        "launches": launches,
        "launches_undisturbed": one.step(f"spin {SPIN_S}")["launches"],
    }


def channels() -> Json:
    """Return how timeslices, channel disable and calls on a duplicated descriptor work on two programs."""
    with step_programs(2) as pair:
        for one in pair:
            one.step("context")
            one.step("kernel")
        found = [channel for one in pair if (channel := calls.channel(one.events())) is not None]
        if len(found) != len(pair):
            raise NodeError("the traces name no compute channel")
        first, word = pair[0], f"timeslice={found[0].group}"
        dup_fd = found[0].client.dup_fd(first.pid)
        facts: Json = {
            "borrowed": calls_on_client_of(first.pid, found[0].client),
            "default": probe_words(probe(dup_fd, word), "timeslice"),
            "timeslices": {
                timeslice_us: probe_words(probe(dup_fd, f"{word}:{timeslice_us}"), "timeslice")
                for timeslice_us in TIMESLICES_US
            },
            "alone": first.step(f"spin {SPIN_S}")["launches"],
        }
        for timeslices_us in ((2000, 2000), (500, 8000), (8000, 500), (1, 2000)):
            facts[f"contention {timeslices_us[0]}:{timeslices_us[1]}"] = kernels_by_timeslice(
                pair, found, timeslices_us
            )
        facts["switched_off"] = disable_channel(first, found[0])
        return facts


def recorded_calls(command: list[str], directory: str, stdin: str = "\n\n") -> list[calls.Event]:
    """Run a command with the given input and return its driver calls. Raises NodeError."""
    trace = Path(directory) / "trace.jsonl"
    done = ran(recorder(trace, command), stdin)
    if not trace.exists():
        raise NodeError(done.stderr.strip())
    return calls.read(trace)


def paths() -> Json:
    """Return the driver calls of each way to allocate or share memory in CUDA, less those of a context."""
    found: Json = {}
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name:
        base = calls.summary(recorded_calls(program("memory", "info"), name))
        found["context"] = base
        for kind in ("malloc", "async", "vmm", "managed", "graph"):
            events = recorded_calls(program("memory", "fill", kind, "16", "64"), name)
            found[kind] = calls.difference(calls.summary(events), base)
        for kind in ("ipc", "export"):
            events = recorded_calls(program("sharing", kind, "16"), name)
            found[kind] = calls.difference(calls.summary(events), base)
    return found


def opaque() -> Json:
    """Return the calls of nvidia-smi, with the controls whose parameters are in no public source."""
    with tempfile.TemporaryDirectory(prefix="cgpu-facts-") as name:
        queries = {"memory": ["-q", "-d", "MEMORY"], "processes": ["-q", "-d", "PIDS"], "all": ["-q"]}
        return {
            what: calls.summary(recorded_calls(["nvidia-smi", *words], name))
            for what, words in queries.items()
        }


def driver() -> Json:
    """Return the results of `cgpu check-driver` for each card."""
    outcome = run_check(DEV)
    checks = {f"{one.card}: {one.name}": f"{one.verdict} {one.reason}".strip() for one in outcome.checks}
    return {"driver": outcome.driver, "layouts": outcome.table, "known": outcome.known, "checks": checks}


FACTS: dict[str, Callable[[], Json]] = {
    fact.__name__: fact for fact in (driver, versions, shared, implicit, channels, paths, opaque)
}


def gather(names: Sequence[str]) -> Json:
    """Return the facts by name. For a fact that fails, return the error and go on with the others."""
    found: Json = {}
    for name in names:
        try:
            found[name] = FACTS[name]()
        except (CgpuError, NodeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the facts, or write them to a file. Return exit status 1 when a fact failed."""
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
