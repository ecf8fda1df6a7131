# SPDX-License-Identifier: Apache-2.0
"""Any starts with the wrapper's server and without: same outcome, message, log and bundle."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.runtime_config.oci_runtime.served import Served, build_launcher
from tests.runtime_config.oci_runtime.starts import Start, starts
from tests.runtime_config.oci_runtime.wrapper import Wrapper, as_read
from tests.runtime_config.support import program

# One of so many starts is done by a launcher and a Python of its own too.
LAUNCHED = 20
# At least this part of the starts has to end in each of these ways.
FLOORS = {"edited without Python": 1 / 4, "unchanged without Python": 1 / 100, "refused": 1 / 20}
# Fewer starts may miss a way by chance.
LEAST = 1000
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# The wrapper in Python, forked for each line of arguments: an interpreter's start costs ten times as much.
WARM = """
from cgpu.runtime_config.oci_runtime import server
from cgpu.runtime_config.oci_runtime.main import main
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open("errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open("/dev/null", os.O_RDWR), 0)
        os.dup2(0, 1)
        os._exit(main(line.rstrip("\\n").split("\\0")))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True)
class Outcome:
    """Results of a start: status, message, log, the runtime's arguments, the bundle, and its folder."""

    status: int
    errors: str
    log: str
    started: list[str]
    bundle: str
    beside: list[str]


@dataclass(frozen=True)
class Both:
    """Two nodes, one of which has a server, and a warm Python for the other."""

    alone: Served
    served: Served
    warm: subprocess.Popen[str]

    def by_server(self, start: Start) -> tuple[Outcome, bool]:
        """Start on the node with a server; return what it came to, and whether Python was started."""
        called = self.served.base / "python-called"
        called.unlink(missing_ok=True)
        return launch(self.served, start), called.exists()

    def by_python(self, start: Start) -> Outcome:
        """Start on the node without one, without a launcher."""
        prepare(self.alone, start)
        assert self.warm.stdin is not None
        assert self.warm.stdout is not None
        words = arguments(self.alone, start)
        self.warm.stdin.write("\0".join((*as_read(words), *words)) + "\n")
        self.warm.stdin.flush()
        status = int(self.warm.stdout.readline())
        return outcome(self.alone, status, (self.alone.base / "errors").read_text())


def arguments(node: Wrapper, start: Start) -> list[str]:
    log = ["--log", str(node.log)]
    log += ["--log-format", start.log_format] if start.log_format else []
    return [*log, start.command, "--bundle", str(node.place), start.container]


def prepare(node: Wrapper, start: Start) -> None:
    for path in (node.base / "calls", node.log):
        path.unlink(missing_ok=True)
    (node.tree / "default_memsize").write_text(f"{start.default_memsize}\n")
    node.bundle(start.raw)


def launch(node: Served, start: Start) -> Outcome:
    prepare(node, start)
    result = node.run(*node.command(*arguments(node, start)))
    return outcome(node, result.status, result.errors)


def outcome(node: Wrapper, status: int, errors: str) -> Outcome:
    base = str(node.base)
    log = node.log.read_text() if node.log.exists() else ""
    return Outcome(
        status,
        errors.replace(base, ""),
        TIME.sub("TIME", log.replace(base, "")),
        [word.replace(base, "") for word in node.started()],
        node.config.read_bytes().decode("utf-8", "replace").replace(base, ""),
        sorted(path.name for path in node.place.iterdir()),
    )


@contextmanager
def warm_python(node: Served) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    command = node.python(WARM)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=node.base) as running:
        try:
            yield running
        finally:
            running.terminate()


@pytest.fixture(scope="module")
def both(any_launcher: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Return both nodes; that with a server notes where Python is started all the same."""
    folder = tmp_path_factory.mktemp("conformance")
    python = program(folder / "bin" / "python3", ': >python-called\nexec /usr/bin/python3 "$@"')
    alone = Served(folder / "alone", program=any_launcher).build()
    # Sanitizers cost ten times the start: the launcher without a server has them, and those of other tests.
    served = Served(folder / "served", program=build_launcher(folder / "noting", str(python), ())).build()
    with served.server(), warm_python(alone) as warm:
        yield Both(alone, served, warm)


def compare(both: Both, start: Start, *, launched: bool) -> str:
    """Have a start done both ways; return what it counts as."""
    by_server, called = both.by_server(start)
    raw = start.raw.decode("utf-8", "replace")
    is_left = bool(by_server.started) and by_server.bundle == raw and not called
    # The launcher alone sees a start that asks for nothing, however broken it is: the runtime says so.
    if not is_left:
        assert by_server == both.by_python(start)
    if is_left or launched:
        assert by_server == launch(both.alone, start)
    assert by_server.beside == ["config.json"]
    if not by_server.started:
        assert (by_server.status, by_server.bundle) == (1, raw)
        assert by_server.errors.startswith("opencgpu: ")
        assert (by_server.errors.count("\n"), by_server.log.count("\n")) == (1, 1)
        return "refused"
    assert (by_server.status, by_server.errors, by_server.log) == (0, "", "")
    done = "unchanged" if by_server.bundle == raw else "edited"
    return f"{done} {'by Python' if called else 'without Python'}"


def test_comes_to_the_same(both: Both) -> None:
    """Valid, nearly valid and hostile specifications: with a server and without all is the same."""
    counts: Counter[str] = Counter()

    @given(start=starts)
    @settings(suppress_health_check=list(HealthCheck))
    def each(start: Start) -> None:
        launched = counts.total() % LAUNCHED == 0
        counts[compare(both, start, launched=launched)] += 1

    each()
    total = counts.total()
    if total >= LEAST:
        assert [name for name, part in FLOORS.items() if counts[name] < part * total] == [], counts
