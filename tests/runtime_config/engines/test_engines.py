# SPDX-License-Identifier: Apache-2.0
"""The settings of docker, containerd and NVIDIA as texts: their meaning, and refused ones."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.runtime_config import programs
from cgpu.runtime_config.engines import containerd, docker, nvidia
from cgpu.runtime_config.engines.engine import Desired
from cgpu.runtime_config.oci_runtime.lowlevel import low_level
from cgpu.runtime_config.text import toml
from tests.runtime_config.engines.texts import add_to, remove_from
from tests.runtime_config.support import program

RUNTIME = "/usr/lib/cgpu/cgpu-container-runtime"
OLD = "/opt/old/cgpu-container-runtime"


def test_a_default_that_somebody_set_is_not_pulled_away() -> None:
    """The runtime is not removed while it is the default and nothing tells which one was before."""
    added = docker.add({"default-runtime": "cgpu"}, RUNTIME)
    with pytest.raises(CgpuError, match="default-runtime: cgpu: which one it was before is not known"):
        docker.remove(added)


@pytest.mark.parametrize("kept", [["a", "b"], [1], "nvidia", None])
def test_a_note_that_somebody_changed_is_not_believed(kept: object) -> None:
    """The former default in our entry is restored only where it is the name of a runtime, or none."""
    entry = {"path": RUNTIME, "default-runtime-before": kept}
    with pytest.raises(CgpuError, match="which one it was before is not known"):
        docker.remove({"default-runtime": "cgpu", "runtimes": {"cgpu": entry}})


def test_docker_of_a_snap(tmp_path: Path) -> None:
    """A dockerd that starts no program of the host is named, and gets no settings that it does not read."""
    (tmp_path / "var/snap/docker").mkdir(parents=True)
    one = docker.Docker(search=())
    with pytest.raises(CgpuError, match=r"docker: is a snap here, .*: snap remove docker; apt-get install "):
        one.plan_add(tmp_path, Desired(Path(RUNTIME)))
    assert not one.is_present(tmp_path)


def test_a_byte_order_mark() -> None:
    """dockerd 23.0 reads a byte order mark in front of the file."""
    assert docker.parse('\ufeff{"debug": true}') == {"debug": True}


@pytest.mark.parametrize(
    ("text", "indent"), [('{"a": 1}', "    "), ('{\n  "a": 1}', "  "), ('{\n\t"a": 1}', "\t")]
)
def test_the_indentation_stays(text: str, indent: str) -> None:
    """daemon.json is written as it was indented."""
    assert docker.write({"a": 1, "b": []}, text) == f'{{\n{indent}"a": 1,\n{indent}"b": []\n}}\n'


def test_a_default_that_somebody_changed_stays() -> None:
    """Another default, set after ours, stays when the runtime is removed."""
    added = docker.add({"default-runtime": "nvidia"}, RUNTIME, default=True)
    assert docker.remove({**added, "default-runtime": "crun"}) == {"default-runtime": "crun"}


def test_a_moved_runtime_is_updated() -> None:
    """Adding with another path changes the path, once."""
    assert docker.add(docker.add({}, OLD), RUNTIME) == docker.add({}, RUNTIME)
    again = add_to(containerd, add_to(containerd, "", OLD), RUNTIME)
    assert again == add_to(containerd, "", RUNTIME)


def test_dotted_keys_of_the_root() -> None:
    """A table that dotted keys at the top of the file make gets its key beside them."""
    text = 'nvidia-container-runtime.mode = "auto"\n[network]\n'
    added = nvidia.add(text, RUNTIME)
    assert tomllib.loads(added)["nvidia-container-runtime"]["mode"] == "auto"
    assert toml.child(tomllib.loads(added), *nvidia.LIST) == [low_level(RUNTIME), *nvidia.STOCK]
    assert remove_from(added) == text


PADDING = st.text(st.sampled_from("ab #=.[]\"'\n\r\t{}1")).filter(
    lambda text: "\r" not in text.replace("\r\n", "")
)


@given(PADDING)
def test_any_text_is_kept_or_refused(text: str) -> None:
    """Any text is refused as no TOML, or comes back the same after adding and removing."""
    try:
        added = add_to(containerd, text, RUNTIME)
    except CgpuError:
        return
    before, after = tomllib.loads(text), tomllib.loads(added)
    ours = {"version": 0, "plugins": 0}
    assert {**after, **before, **ours} == {**after, **ours}
    assert remove_from(added) == text


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("", ["opencgpu.io/*"]),
        ("pod_annotations = ['a*']\n", ["a*", "opencgpu.io/*"]),
        ("pod_annotations = ['opencgpu.io/*', 'b']\n", ["opencgpu.io/*", "b"]),
    ],
)
def test_containerd_hands_on_our_annotations(there: str, wanted: list[str]) -> None:
    """Pods' annotations of ours reach the runtime, once, beside those that reach it already."""
    table = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc'
    text = f"version = 2\n[{table}]\nruntime_type = 'io.containerd.runc.v2'\n{there}"
    settings = tomllib.loads(add_to(containerd, text, RUNTIME))
    runtimes = settings["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    assert runtimes["cgpu"]["pod_annotations"] == wanted


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3", (1, 6)),
        ("containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da", (1, 7)),
        ("containerd github.com/containerd/containerd/v2 v2.1.3 c787fb98911740dd3ff2d0e4", (2, 1)),
        ("podman version 4.3.1", (4, 3)),
        ("podman version 5.0.0-rc1", (5, 0)),
        ("no idea", None),
    ],
)
def test_versions(tmp_path: Path, said: str, version: tuple[int, int] | None) -> None:
    """Versions that engines print are understood."""
    program(tmp_path / "engine", f"echo '{said}'")
    assert programs.version("engine", (str(tmp_path),)) == version
    assert programs.version("gone", (str(tmp_path),)) is None


@pytest.mark.parametrize(
    ("engine", "text", "message"),
    [
        (docker, "{", "daemon.json: "),
        (docker, "[]", "expected one JSON object"),
        (docker, '{"runtimes": []}', "runtimes: a list: expected an object"),
        (docker, '{"a": 1, "a": 2}', "appears twice"),
        (docker, '{"runtimes": {"cgpu": 1}}', "runtimes.cgpu: 1: was not added by this command"),
        (containerd, "version = 9", "version: 9: expected one of 1, 2, 3, 4"),
        (containerd, "version = ", "expected TOML"),
        (
            containerd,
            '[plugins.cri.containerd.runtimes.cgpu]\nruntime_type = "x"',
            "was not added by this command",
        ),
        (containerd, "plugins = {cri = {}}", "plugins.cri.containerd.runtimes.cgpu cannot be added"),
        (containerd, "version = 1.0", "version: 1.0: expected one of 1, 2, 3, 4"),
        (
            nvidia,
            "[nvidia-container-runtime]\nruntimes = 'runc'",
            "runtimes: runc: expected a list of programs",
        ),
        (nvidia, "nvidia-container-runtime = {mode = 'auto'}", "cannot be added"),
        (nvidia, "# >>> cgpu-runtime-config: added, do not edit\n", "is missing after"),
    ],
)
def test_what_cannot_be_edited_is_refused(engine: ModuleType, text: str, message: str) -> None:
    """A file that is broken, or says something else under our name, is refused and named."""
    with pytest.raises(CgpuError, match=re.escape(message)):
        add_to(engine, text, RUNTIME)
