# SPDX-License-Identifier: Apache-2.0
"""Any valid settings: adding our runtime changes no other value; removing it restores every character."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cgpu.runtime_config.engines import containerd, docker, nvidia
from cgpu.runtime_config.engines.engine import Desired
from cgpu.runtime_config.oci_runtime.lowlevel import low_level
from cgpu.runtime_config.text.toml import child, parse, same
from tests.runtime_config.engines.nodes import DAEMON_JSON, DEFAULT, DESIRED, RUNTIME, Machine
from tests.runtime_config.engines.texts import add_to, daemon_json, remove_from, toml

PATH = str(RUNTIME)


def plugin_tables(plugin: str) -> list[tuple[str, list[str]]]:
    """Return tables that a file of containerd may have, in every spelling."""
    cri = f"plugins.{plugin}"
    return [
        ("[plugins]", ['"io.containerd.gc.v1.scheduler" = {pause_threshold = 0.02}']),
        (f"[{cri}]", ["sandbox_image = 'pause:3.6'", "device_ownership_from_security_context = false"]),
        (f"[ {cri} . containerd ]", ["default_runtime_name = '''runc'''", 'snapshotter = "overlayfs"']),
        (
            f"[{cri}.containerd.runtimes.runc]",
            ['runtime_type = "io.containerd.runc.v2"', "pod_annotations = ['a*']"],
        ),
        (f"[{cri}.containerd.runtimes.runc.options]", ["SystemdCgroup = true", 'BinaryName = ""']),
        (f"[{cri}.containerd.runtimes.kata]", ['runtime_type = "io.containerd.kata.v2"']),
    ]


SPELLINGS = {
    1: ["cri", '"cri"', "'cri'"],
    2: ['"io.containerd.grpc.v1.cri"', "'io.containerd.grpc.v1.cri'"],
    3: ['"io.containerd.cri.v1.runtime"'],
    4: ["'io.containerd.cri.v1.runtime'"],
}
NVIDIA = [
    ("[nvidia-container-runtime]", ["runtimes = [\n  'docker-runc',\n  'runc', # last\n]", 'mode = "auto"']),
    ("[nvidia-container-runtime.modes.cdi]", ['annotation-prefixes = ["cdi.k8s.io/"]']),
    ("[ 'nvidia-container-cli' ]", ["load-kmods = true"]),
]


@st.composite
def containerd_toml(draw: st.DrawFn) -> str:
    version = draw(st.sampled_from(sorted(SPELLINGS)))
    text = draw(toml(["oom_score = -999"], plugin_tables(draw(st.sampled_from(SPELLINGS[version])))))
    return text if version == 1 else f"version = {version}\n{text}"


@given(daemon_json(), st.booleans(), st.booleans())
def test_docker(text: str, default: bool, before_that: bool) -> None:
    """daemon.json: values, keys and their order stay, and an edit that is taken back gives the former bytes.

    Also after the runtime was moved, or made the default, in between. Settings that dockerd reloads before a
    removal name runtimes and a default, without ours.
    """
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        place = machine.write(DAEMON_JSON, text)
        engine, desired = machine.engine("docker"), DEFAULT if default else DESIRED
        machine.add(engine, Desired(Path("/old/cgpu-container-runtime"), default=before_that))
        machine.add(engine, desired)
        before, after = json.loads(text), json.loads(place.read_bytes())
        assert after["runtimes"]["cgpu"]["path"] == PATH
        assert not default or after["default-runtime"] == "cgpu"
        kept = {**before, "runtimes": {**before.get("runtimes", {}), "cgpu": after["runtimes"]["cgpu"]}}
        if default or before_that:
            kept["default-runtime"] = "cgpu"
        assert after == kept
        assert [key for key in after if key in before] == list(before)
        assert engine.plan_add(machine.root, desired) == []
        released = docker.release(after)
        assert released["runtimes"] == before.get("runtimes", {})
        assert not default or released["default-runtime"] not in ("cgpu", None, "")
        assert docker.release(released) is released
        machine.remove(engine)
        assert machine.state() == {DAEMON_JSON: text.encode()}
        assert engine.plan_remove(machine.root) == []


@given(containerd_toml(), st.booleans())
def test_containerd(text: str, default: bool) -> None:
    """containerd: only ours is new, twice is like once, and every character comes back."""
    added = add_to(containerd, text, PATH, default=default)
    assert says_the_same(text, added, ours=("cgpu", "runc", "default_runtime_name", "version"))
    assert add_to(containerd, added, PATH, default=default) == added
    assert remove_from(added) == text
    assert remove_from(text) == text


@given(toml([], NVIDIA))
def test_nvidia(text: str) -> None:
    """NVIDIA's list gets ours in front of what was in it."""
    added = nvidia.add(text, PATH)
    list_before = child(parse("", text), *nvidia.LIST)
    old = list_before if isinstance(list_before, list) else nvidia.STOCK
    assert child(parse("", added), *nvidia.LIST) == [low_level(PATH), *old]
    assert says_the_same(text, added, ours=("runtimes",))
    assert nvidia.add(added, PATH) == added
    assert remove_from(added) == text


@given(containerd_toml(), st.sampled_from(["\n", "# more\n", "[mine]\na = 1\n"]))
def test_lines_that_others_append_stay(text: str, more: str) -> None:
    """Lines that another program adds after ours stay, on their own lines, when ours are removed."""
    added = add_to(containerd, text, PATH)
    removed = remove_from(added + more)
    assert removed in (text + more, text + "\n" + more)
    parse("", removed)


def says_the_same(before: str, after: str, ours: tuple[str, ...]) -> bool:
    """Return whether all of a text's values are in another one, but for keys that may be new or changed."""
    return within(parse("", before), parse("", after), ours)


def within(old: object, new: object, ours: tuple[str, ...]) -> bool:
    """Return whether one value has all of another, and besides only some keys and tables around them."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return same(old, new)
    for key, value in new.items():
        if key not in old:
            if key not in ours and not (isinstance(value, dict) and within({}, value, ours)):
                return False
        elif not within(old[key], value, ours) and key not in ours:
            return False
    return old.keys() <= new.keys()
