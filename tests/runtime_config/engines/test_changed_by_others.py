# SPDX-License-Identifier: Apache-2.0
"""What others write into what is ours: it is named, and neither removed nor overwritten."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from cgpu.errors import CgpuError
from cgpu.runtime_config.oci_runtime.lowlevel import NAME as LAUNCHER
from cgpu.runtime_config.text.toml import BEGIN, END
from tests.runtime_config.engines.nodes import (
    CONFIG_TOML,
    CRIO,
    DAEMON_JSON,
    DEFAULT,
    DESIRED,
    DROP_IN,
    NVIDIA,
    PODMAN_DROP_IN,
    Machine,
)

OLD = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nsandbox_image = "pause"\n'
IMPORTS = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
LIST = '[nvidia-container-runtime]\nruntimes = ["runc"]\n'
RUNC = '.containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
#: engine, its version, its own file, the file with our runtime, a line of ours there, and what it became
EDITS = {
    "options of the stock runtime": (
        ("containerd", "1.7.20", {CONFIG_TOML: OLD}, CONFIG_TOML),
        (RUNC, RUNC + "options = {SystemdCgroup = true}\n"),
    ),
    "options of ours": (
        ("containerd", "2.1.0", {CONFIG_TOML: IMPORTS}, DROP_IN),
        ('runtimes.cgpu.options]\n', 'runtimes.cgpu.options]\nSystemdCgroup = true\n'),
    ),
    "default of containerd": (
        ("containerd", "1.7.20", {CONFIG_TOML: OLD}, CONFIG_TOML),
        ('default_runtime_name = "cgpu"', 'default_runtime_name = "runc"'),
    ),
    "default of CRI-O": (
        ("crio", "1.30.0", {}, CRIO),
        ('default_runtime = "cgpu"', 'default_runtime = "crun"'),
    ),
    "default of podman": (
        ("podman", "4.3.1", {}, PODMAN_DROP_IN),
        ('runtime = "cgpu"', 'runtime = "crun"'),
    ),
    "names in NVIDIA's list": (
        ("nvidia", "1.17", {NVIDIA: LIST}, NVIDIA),
        ('"runc"]', '"runc", "crun"]'),
    ),
    "a comment": (("crio", "1.30.0", {}, CRIO), ("[crio.runtime]\n", "[crio.runtime]\n# ticket 7\n")),
}  # fmt: skip


@pytest.mark.parametrize(("node", "change"), EDITS.values(), ids=list(EDITS))
def test_a_line_between_our_marks(
    machine: Machine, node: tuple[str, str, dict[str, str], str], change: tuple[str, str]
) -> None:
    """Whatever the engine and the key: removal and addition name the file, and change nothing.

    With the line as it was, all is as before.
    """
    name, version, tree, edited = node
    for path, text in tree.items():
        machine.write(path, text)
    engine, before = machine.engine(name, version), dict(machine.state())
    machine.add(engine, DEFAULT)
    added = machine.read(edited)
    changed = added.replace(*change, 1)
    machine.write(edited, changed)
    foreign = next(line for line in changed.splitlines() if line not in added.splitlines())
    said = rf"{edited}: {re.escape(foreign[:12])}.*lies between its marks: move that line out"
    for plan in (engine.plan_remove, lambda root: engine.plan_add(root, DESIRED)):
        with pytest.raises(CgpuError, match=said):
            plan(machine.root)
    machine.write(edited, added)
    machine.remove(engine)
    assert machine.state() == before


def test_blanks_between_our_marks(machine: Machine) -> None:
    """A tool that indents our lines, or puts empty ones between them, has written nothing of its own."""
    engine = machine.engine("crio", "1.30.0")
    machine.add(engine)
    begin, *lines, end = machine.read(CRIO).splitlines()
    machine.write(CRIO, "\n".join([begin, *(f"\n  {line}" for line in lines), end, ""]))
    machine.remove(engine)
    assert machine.state() == {}


@pytest.mark.parametrize("default", [False, True])
def test_keys_in_our_entry_of_docker(machine: Machine, default: bool) -> None:
    """A key that others have put into our runtime is named at removal, and stays when it is added again."""
    engine = machine.engine("docker")
    machine.add(engine, DEFAULT if default else DESIRED)
    settings = json.loads(machine.read(DAEMON_JSON))
    settings["runtimes"]["cgpu"]["runtimeArgs"] = ["--debug"]
    machine.write(DAEMON_JSON, json.dumps(settings))
    for plan in (engine.plan_remove, engine.plan_release):
        with pytest.raises(CgpuError, match=r"daemon.json: runtimes.cgpu.runtimeArgs: was added by others"):
            plan(machine.root)
    assert engine.plan_add(machine.root, DESIRED) == []


@pytest.mark.parametrize(("key", "value"), [("when", {"always": True}), ("stages", ["poststart"])])
def test_a_hook_that_others_changed(machine: Machine, key: str, value: object) -> None:
    """A file of hooks.d that says other things than ours is named, and stays."""
    machine.write("proc/cgpu_km/version", "1\n")
    engine = machine.engine("hooks", "4.3.1")
    machine.add(engine)
    path = "usr/share/containers/oci/hooks.d/99-cgpu-prestart.json"
    machine.write(path, json.dumps({**json.loads(machine.read(path)), key: value}))
    for plan in (engine.plan_remove, lambda root: engine.plan_add(root, DESIRED)):
        with pytest.raises(CgpuError, match=r"99-cgpu-prestart\.json: is there and was not added"):
            plan(machine.root)
    machine.write(path, machine.read(path).replace(json.dumps(value), "0").replace('"', " "))
    with pytest.raises(CgpuError, match="is there and was not added"):
        engine.plan_remove(machine.root)


@pytest.mark.parametrize(
    "kind", ["options of the stock runtime", "default of CRI-O", "names in NVIDIA's list"]
)
def test_without_the_marks_the_runtime_alone_goes(machine: Machine, kind: str) -> None:
    """The second cure in that message: with the marks out, what others have written stays."""
    (name, version, tree, edited), change = EDITS[kind]
    for path, text in tree.items():
        machine.write(path, text)
    engine = machine.engine(name, version)
    machine.add(engine, DEFAULT if name == "crio" else DESIRED)
    lines = machine.read(edited).replace(*change, 1).splitlines(keepends=True)
    machine.write(edited, "".join(line for line in lines if not line.startswith((BEGIN, END))))
    machine.remove(engine)
    left = machine.read(edited)
    assert LAUNCHER not in left
    assert all(word in left for word in change[1].split()[-1:])
    tomllib.loads(left)
