# SPDX-License-Identifier: Apache-2.0
"""Thousands of calls to the hook in C and to the one in Python: same outcome, message, lines and log."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import syslog
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from cgpu import paths
from cgpu.client.tree import CONTAINER_NODES, GPU_NODES, ROOT_NODES
from cgpu.config.effective import DEFAULTS
from cgpu.hook.main import main
from tests.client.support import CONTAINER, MIB, T4
from tests.hook.launcher.calls import Call, Node, calls
from tests.hook.support import FakeTree, compile_hook, write_recorder
from tests.request.shares import SHARE

SHIM = Path(__file__).with_name("shim.h")
# One of so many calls is done with sanitizers, which cost ten times the start.
SANITIZED = 10
# At least this part of the calls has to be of each of these kinds; alone: without Python.
FLOORS = {
    "alone": 1 / 3,
    "create": 1 / 10,
    "destroy": 1 / 10,
    "refused": 1 / 20,
    "refused by the engine": 1 / 80,
}
# Fewer calls may miss a kind by chance.
LEAST = 1000
STATE = json.dumps({"ociVersion": "1.0.2", "id": CONTAINER, "pid": 4711, "status": "creating"}).encode()
START = ("prestart", "--grant", f"0:{6043 * MIB}:1:0")


@dataclass
class Outcome:
    """Result of a call: its status and message, the lines for the engine, and those of the log."""

    status: int = -1
    errors: str = ""
    lines: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """A folder with the hook in C, and trees in each state that an engine leaves them in."""

    base: Path
    program: Path
    sanitized: Path

    def build(self) -> Place:
        for name in ("ready", "stopped", "closed", "folder"):
            (self.base / name).mkdir()
            tree = FakeTree(self.base / name).build(T4, T4)
            for index in range(2):
                (tree.path / str(index) / "memfree").write_text(f"{9000 * MIB}\n")
        (self.base / "stopped/tree/version").unlink()
        (self.base / "closed/tree/inst_ctl").unlink()
        (self.base / "folder/tree/inst_ctl").unlink()
        (self.base / "folder/tree/inst_ctl").mkdir()
        return self

    def become(self, node: Node) -> None:
        """Be that node, of which nothing was asked."""
        tree = self.base / node.tree / "tree"
        config = node.config or json.dumps({**node.settings, "tree": "TREE"})
        (self.base / "config.json").write_text(config.replace("TREE", str(tree)))
        (self.base / "refuses").write_text("{} {}".format(*node.refuses) if node.refuses else "")
        if node.drained:
            (self.base / "draining").touch()
        else:
            (self.base / "draining").unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        for name in ("lines", "log"):
            (self.base / name).unlink(missing_ok=True)

    def noted(self, name: str) -> list[str]:
        path = self.base / name
        return path.read_text().splitlines() if path.exists() else []

    def in_c(self, call: Call, program: Path) -> tuple[bytes | None, Outcome]:
        """Run the hook in C; return what Python got too, None where it was not called."""
        command = [str(program), *call.arguments]
        done = subprocess.run(
            command, input=call.raw, capture_output=True, check=False, cwd=self.base, timeout=240
        )
        left = done.stdout.removeprefix(b"python\n") if done.stdout else None
        outcome = Outcome(done.returncode, done.stderr.decode(), self.noted("lines"), self.noted("log"))
        return left, outcome

    def in_python(self, call: Call, capfd: pytest.CaptureFixture[str]) -> Outcome:
        """Run the hook in Python, in this process."""
        outcome = Outcome()
        state = self.base / "state"
        state.write_bytes(call.raw)
        fd = os.open(state, os.O_RDONLY)
        try:
            with pytest.MonkeyPatch.context() as patch:
                _shim(patch, outcome, call.node)
                patch.setattr(paths, "DRAINING", str(self.base / "draining"))
                outcome.status = main(call.arguments, str(self.base / "config.json"), fd)
        finally:
            os.close(fd)
        outcome.errors = capfd.readouterr().err
        return outcome


def _shim(patch: pytest.MonkeyPatch, outcome: Outcome, node: Node) -> None:
    """Do for Python what shim.h does for C."""
    real = os.write

    def write(fd: int, raw: bytes) -> int:
        if not raw.startswith((b"create ", b"destroy ")):
            return real(fd, raw)
        outcome.lines.append(raw.decode())
        if node.refuses is None or not raw.startswith(node.refuses[0].encode()):
            return real(fd, raw)
        if node.refuses[1] == errno.EMSGSIZE:
            return len(raw) - 1
        raise OSError(node.refuses[1], os.strerror(node.refuses[1]))

    begun: list[str] = []
    patch.setattr(os, "write", write)
    patch.setattr(syslog, "openlog", lambda *words: begun.append("{} {} {}".format(*words)))
    patch.setattr(syslog, "syslog", lambda level, text: outcome.log.append(f"{begun[-1]} {level} {text}"))
    # A daemon of the machine that the tests run on is not this node's.
    patch.setattr(paths, "LOCK", "/nowhere")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a folder whose hooks have a recorder in the place of Python."""
    base = tmp_path_factory.mktemp("conformance")
    recorder = write_recorder(base)
    (base / "sanitized").mkdir()
    options = ("-include", str(SHIM))
    sanitized = (*options, "-fsanitize=address,undefined")
    return Place(
        base,
        compile_hook(base, *options, python=recorder),
        compile_hook(base / "sanitized", *sanitized, python=recorder),
    ).build()


def compare(place: Place, call: Call, capfd: pytest.CaptureFixture[str], *, sanitized: bool) -> list[str]:
    """Have a call done by both; return what it counts as."""
    place.become(call.node)
    left, by_c = place.in_c(call, place.sanitized if sanitized else place.program)
    by_python = place.in_python(call, capfd)
    if left is None:
        assert by_c == by_python
        return ["alone", by_c.lines[0].partition(" ")[0]]
    # Python gets the call as it came, up to what it would read; what C had begun Python begins too, and the
    # engine had refused it.
    handed = b"".join(os.fsencode(word) + b"\0" for word in call.arguments) + call.raw[: (1 << 20) + 1]
    assert (left, by_c.status, by_c.errors, by_c.log) == (handed, 0, "", [])
    refuses = call.node.refuses
    assert by_c.lines in ([], by_python.lines)
    assert not by_c.lines or (refuses is not None and by_c.lines[0].startswith(refuses[0]))
    if by_python.status == 0:
        return ["done by Python"]
    assert by_python.errors.startswith("opencgpu: ")
    assert by_python.errors.count("\n") == 1
    return ["refused", *(["refused by the engine"] if by_c.lines else [])]


def test_comes_to_the_same(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    """Valid and nearly valid calls: Python does alike what C does alone, and gets all else."""
    counts: Counter[str] = Counter()

    # After these two answers the container may be registered, so both hooks take the registration back.
    @example(call=Call(STATE, START, Node(refuses=("create", errno.EIO))))
    @example(call=Call(STATE, START, Node(refuses=("create", errno.EMSGSIZE))))
    @given(call=calls)
    @settings(suppress_health_check=list(HealthCheck))
    def each(call: Call) -> None:
        sanitized = counts["calls"] % SANITIZED == 0
        counts.update(["calls", *compare(place, call, capfd, sanitized=sanitized)])

    each()
    if counts["calls"] >= LEAST:
        missed = [name for name, part in FLOORS.items() if counts[name] < part * counts["calls"]]
        assert missed == [], counts


MORE = {"annotations": {"a": 'b\\"\n'}, "x": [[], {}, [1, -2, {"y": None}], True], "bundlePath": "/b"}
KNOWN = json.dumps({**json.loads(STATE), **MORE}).encode()
GRANT = START[1:]


@pytest.mark.parametrize(
    ("arguments", "node", "line"),
    [
        (START, Node(), f"create id={CONTAINER} pid=4711 gpu=0:{6043 * MIB}:1:0"),
        (
            ("createRuntime", *GRANT, "--grant", "1:1048576:0:1", "--native", "3"),
            Node(settings={**DEFAULTS}),
            f"create id={CONTAINER} pid=4711 gpu=0:{6043 * MIB}:1:0 gpu=1:1048576:0:1 native=3",
        ),
        (("prestart", "--share", SHARE), Node(), f"create id={CONTAINER} pid=4711 share={SHARE}"),
        (("poststop",), Node(), f"destroy id={CONTAINER}"),
    ],
)
def test_does_alone(
    place: Place, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], node: Node, line: str
) -> None:
    """The hook needs no Python for the wrapper's grants; unknown members change nothing."""
    assert compare(place, Call(KNOWN, arguments, node), capfd, sanitized=True)[0] == "alone"
    assert place.noted("lines") == [line]


BAD_GRANTS = ["", "0:1:1", "0:1:1:0:0", "0:0:1:0", "0:1:1:2", "0:1:1000:0", f"0:{(1 << 50) + 1}:1:0"]
BAD_GRANTS += ["00:1:1:0", " 0:1:1:0", "0:1:1:0 ", "0:-1:1:0", "0:1:1:0\n"]
ARGUMENTS = [
    *((), ("prestart",), ("createRuntime",), ("poststart", *GRANT)),
    *((*START, *more) for more in (("--grant",), ("--share", SHARE), ("--gant", "0:1:1:0"))),
    *((*START, "--native", text) for text in ("x", "00")),
    ("prestart", "--native", "0", *GRANT),
    *(("prestart", "--share", text) for text in (SHARE.upper(), SHARE + "0")),
    ("prestart", "--grant"),
    *(("prestart", "--grant", text) for text in BAD_GRANTS),
    ("prestart", *GRANT * 200),
    # A line that the engine takes, and too long a one for the log.
    ("prestart", *GRANT * 100),
]
PIDS = [b"0", b"1.0", b"1e0", b"01", b"-1", b'"1"', b"true", b"4194305", b'1,"pid":1', b"1}"]
IDS = [
    b'"c\\u0031"',
    b'"c 1"',
    b'"c1\\n"',
    b'"-c1"',
    b'".."',
    b'""',
    b"7",
    b'"c1","id":"c2"',
    b'"%s"' % (b"1" * 128),
]
# The names of the tree's nodes, which Python refuses.
IDS += [b'"%s"' % name.encode() for name in sorted({*GPU_NODES, *ROOT_NODES, *CONTAINER_NODES})]
OTHERS = [b'"\xc3\xa9"', b'"\x01"', b'"\\x"', b'"\\u00g0"', b"nul", b"[1,]", b'{"a":1 "b":2}', b"[" * 100000]
OTHERS += [b"[" * 40 + b"]" * 40, b'"' + b"y" * (1 << 20) + b'"']
STATES = [
    *(b"", b"{}", b"[]", b"null", b'{"id":"c1"}', b'{"i\\u0064":"c1","pid":1}'),
    *(b'{"id":"c1","pid":1' + end for end in (b"", b",}", b"}\0", b',"bundle":7}')),
    *(b'{"id":"c1","pid":' + pid + b"}" for pid in PIDS),
    *(b'{"id":' + id_ + b',"pid":1}' for id_ in IDS),
    *(b'{"id":"c1","pid":1,"x":' + value + b"}" for value in OTHERS),
]
NODES = [
    Node(drained=True),
    *(Node(settings={"log_format": form}) for form in ("json", "journal", None)),
    *(Node(config=f'{{"tree": "{path}"}}') for path in ("", "relative", "/nowhere")),
    *(Node(settings={name: value}) for name, value in (("unknown", 1), ("policy", "1"), ("max_inst", [1]))),
    *(Node(settings={name: value}) for name, value in (("shared_node", None), ("low_level_runtime", 1))),
    Node(settings={"hook_timeout": True}),
    # Python takes the last of two values.
    *(Node(config=f'{{"tree": "TREE", "tree": {second}}}') for second in ("null", '"/nowhere"')),
]


@pytest.mark.parametrize(
    "call",
    [
        *(Call(STATE, arguments) for arguments in ARGUMENTS),
        *(Call(state, START) for state in STATES),
        *(Call(STATE, START, node) for node in NODES),
    ],
)
def test_leaves(place: Place, capfd: pytest.CaptureFixture[str], call: Call) -> None:
    """A call that needs a rule, or is wrong or not plain, goes to Python, which does it or refuses it."""
    assert "alone" not in compare(place, call, capfd, sanitized=True)
