# SPDX-License-Identifier: Apache-2.0
"""Carries out cases where an engine runs. A machine needs nothing for it but Python 3.11.

Reads {"place": {...}, "cases": [{"name": ..., "steps": [...]}, ...]} as JSON from standard input, and prints
one line of JSON for each case: each step's expectation and result, and the containers that the case left
behind.

A step is an object with "op" and its arguments. {pid:NAME} and {cgroup:NAME} in any of its texts stand for a
started process's. "as" carries a step out with other rights. "until" repeats it until it gives the expected
result.

The place has "tree", "cgroups" (whether each process gets a cgroup of its own), "before" (words in front of a
program, {id} standing for the container), "programs" (words that a program's name stands for) and "reclaims"
(whether the engine is to find by itself that a case's containers have ended; else they are removed).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import signal
import stat
import sys
import time
from typing import Any

from tests.conformance.judge import fits
from tests.conformance.processes import (
    CHUNK,
    PATIENCE_S,
    PAUSE_S,
    Process,
    become,
    collected,
    forked,
    opened,
    remove_cgroup,
    write_file,
    write_whole,
)

Json = Any

ALARM_S = 120
SETTINGS = ("max_inst", "policy", "prio_ratio")
CGROUPS = "/sys/fs/cgroup"
PLACEHOLDER = re.compile(r"\{(pid|cgroup):(\w+)\}")


class Executor:
    """The steps of one case after another, against one tree."""

    def __init__(self, place: dict[str, Json]) -> None:
        self._place = place
        self._tree = str(place["tree"])
        self._files: dict[str, int] = {}
        self._processes: dict[str, Process] = {}
        self._cgroups: dict[str, str] = {}

    def run(self, case: dict[str, Json]) -> dict[str, Json]:
        """Carry out a case and clean up after it."""
        kept = self._settings()
        results = []
        for gpu in self._gpus():
            write_file(f"{self._tree}/{gpu}/policy", "1")  # where cases begin, whatever the default is
        try:
            for step in case["steps"]:
                signal.alarm(ALARM_S)
                filled = self._filled(step)
                results.append({"step": filled, "got": self._insist(filled)})
        finally:
            signal.alarm(0)
            self._clean()
        if not self._place["reclaims"]:
            self._remove(self._containers())
        left = self._left()
        for node, text in kept.items():
            write_file(f"{self._tree}/{node}", text)
        return {"name": case["name"], "results": results, "left": left}

    # --- steps ---

    def _filled(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._filled(inner) for inner in value]
        return PLACEHOLDER.sub(self._meant, value) if isinstance(value, str) else value

    def _meant(self, found: re.Match[str]) -> str:
        kind, name = found.groups()
        if kind == "pid":
            return str(self._processes[name].pid) if name in self._processes else str(os.getpid())
        return self._cgroups.get(name, "").removeprefix(CGROUPS)

    def _insist(self, step: dict[str, Json]) -> Json:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            got = self._attempt(step)
            if not step.get("until") or fits(step.get("expect"), got) or time.monotonic() > deadline:
                return got
            time.sleep(PAUSE_S)

    def _attempt(self, step: dict[str, Json]) -> Json:
        return collected(*forked(lambda: self._as_other(step))) if "as" in step else self._perform(step)

    def _as_other(self, step: dict[str, Json]) -> Json:
        become(step["as"])
        return self._perform(step)

    def _perform(self, step: dict[str, Json]) -> Json:
        try:
            return getattr(self, "op_" + step["op"])(step)
        except OSError as error:
            return {"errno": errno.errorcode.get(error.errno or 0, str(error))}

    def _path(self, step: dict[str, Json], key: str = "node") -> str:
        return f"{self._tree}/{step[key]}".rstrip("/")

    def op_read(self, step: dict[str, Json]) -> str:
        """Read a node, or a part of an open one."""
        if "file" in step:
            return os.pread(self._files[step["file"]], step["size"], step["offset"]).decode()
        with opened(self._path(step), os.O_RDONLY) as fd:
            size = step.get("size", CHUNK)
            return b"".join(iter(lambda: os.read(fd, size), b"")).decode()

    def op_write(self, step: dict[str, Json]) -> None:
        """Make one write, to a node or to an open one."""
        if "file" in step:
            write_whole(self._files[step["file"]], step["text"])
        else:
            write_file(self._path(step), step["text"], getattr(os, step.get("flag", "O_WRONLY")))

    def op_open(self, step: dict[str, Json]) -> None:
        self._files[step["file"]] = os.open(self._path(step), getattr(os, step.get("flag", "O_RDONLY")))

    def op_list(self, step: dict[str, Json]) -> list[str]:
        """List a directory; "directories": only what is one."""
        with os.scandir(self._path(step)) as found:
            return sorted(e.name for e in found if not step.get("directories") or e.is_dir())

    def op_stat(self, step: dict[str, Json]) -> dict[str, Json]:
        s = os.stat(self._path(step))
        kind = "directory" if stat.S_ISDIR(s.st_mode) else "file"
        mode = format(stat.S_IMODE(s.st_mode), "04o")
        return {"kind": kind, "mode": mode, "uid": s.st_uid, "gid": s.st_gid, "size": s.st_size}

    def op_alter(self, step: dict[str, Json]) -> None:
        """Try to change what a directory has."""
        path = self._path(step)
        changes = {
            "make": lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)),
            "mkdir": lambda: os.mkdir(path),
            "remove": lambda: os.unlink(path),
            "rename": lambda: os.rename(path, path + "x"),
            "link": lambda: os.symlink("/dev/null", path),
        }
        changes[step["how"]]()

    def op_start(self, step: dict[str, Json]) -> None:
        """Make a process that waits; "beside": in the container of another one."""
        name, owner = step["name"], step.get("beside", step["name"])
        words = step.get("program", [])
        command = [word.replace("{id}", step["id"]) for word in self._place["before"]] if words else []
        command += [*self._place["programs"][words[0]], *words[1:]] if words else []
        if self._place["cgroups"]:
            self._cgroups[name] = f"{CGROUPS}/cgpu-conformance-{owner}"
        self._processes[name] = Process(command, self._cgroups.get(name, ""))

    def op_go(self, step: dict[str, Json]) -> None:
        self._processes[step["name"]].go()

    def op_release(self, step: dict[str, Json]) -> None:
        self._processes[step["name"]].close_input()

    def op_line(self, step: dict[str, Json]) -> str:
        return self._processes[step["name"]].line(step["start"])

    def op_finish(self, step: dict[str, Json]) -> Json:
        """Wait for the end of a process; its output is the result, or its "status"."""
        return self._processes[step["name"]].finish()[step.get("what", "output")]

    def op_kill(self, step: dict[str, Json]) -> None:
        self._processes[step["name"]].kill()

    def op_race(self, step: dict[str, Json]) -> list[str]:
        """Repeat lists of steps, all lists at once; return the names of the errors that came, and "ok"."""
        children = [
            forked(functools.partial(self._repeat, steps, step["times"])) for steps in step["workers"]
        ]
        return sorted({outcome for child in children for outcome in collected(*child)})

    def _repeat(self, steps: list[dict[str, Json]], times: int) -> list[str]:
        outcomes = set()
        for _ in range(times):
            for step in steps:
                got = self._perform(step)
                outcomes.add(got["errno"] if isinstance(got, dict) and "errno" in got else "ok")
        return sorted(outcomes)

    # --- around a case ---

    def _gpus(self) -> list[str]:
        return [name for name in os.listdir(self._tree) if name.isdigit()]

    def _settings(self) -> dict[str, str]:
        nodes = ["default_memsize", *(f"{gpu}/{name}" for gpu in self._gpus() for name in SETTINGS)]
        return {node: self.op_read({"node": node}) for node in nodes}

    def _clean(self) -> None:
        for fd in self._files.values():
            os.close(fd)
        for process in self._processes.values():
            process.kill()
            process.close()
        for cgroup in set(self._cgroups.values()):
            remove_cgroup(cgroup)
        for table in (self._files, self._processes, self._cgroups):
            table.clear()

    def _left(self) -> list[str]:
        """Return the containers and shares that stay although nothing of theirs is left; remove them."""
        step = {"op": "list", "directories": True, "until": True, "expect": []}
        left = [f"{gpu}/{name}" for gpu in self._gpus() for name in self._insist({**step, "node": gpu})]
        self._remove(left)
        return left + [share for gpu in self._gpus() for share in self._release(gpu)]

    def _release(self, gpu: str) -> list[str]:
        shares = [line.split()[0] for line in self.op_read({"node": f"{gpu}/reserved"}).splitlines()]
        for share in shares:
            write_file(f"{self._tree}/inst_ctl", f"release id={share}")
        return shares

    def _containers(self) -> list[str]:
        step = {"directories": True}
        return [f"{gpu}/{name}" for gpu in self._gpus() for name in self.op_list({**step, "node": gpu})]

    def _remove(self, nodes: list[str]) -> None:
        for node in nodes:
            # The entry may be another GPU's of an instance that is removed by now, or be reclaimed meanwhile.
            with contextlib.suppress(FileNotFoundError):
                owner = self.op_read({"node": f"{node}/owner"}).split()[0]
                write_file(f"{self._tree}/inst_ctl", f"destroy id={owner}")


def main() -> None:
    plan = json.load(sys.stdin)
    executor = Executor(plan["place"])
    for case in plan["cases"]:
        print(json.dumps(executor.run(case)), flush=True)


if __name__ == "__main__":
    main()
