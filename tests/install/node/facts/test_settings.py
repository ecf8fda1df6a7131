# SPDX-License-Identifier: Apache-2.0
"""Settings of container engines, read down to our keys."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.install.node.facts import settings
from cgpu.install.node.facts.settings import Entry
from cgpu.runtime_config.engines.registry import ENGINES
from tests.install.machine import write

RUNTIME = "/opt/cgpu/cgpu-container-runtime"
CRIO = f'[crio.runtime]\ndefault_runtime = "cgpu"\n[crio.runtime.runtimes.cgpu]\nruntime_path = "{RUNTIME}"\n'
CONTAINERD = f"""
[plugins."PLUGIN".containerd]
default_runtime_name = "runc"
[plugins."PLUGIN".containerd.runtimes.cgpu.options]
BinaryName = "{RUNTIME}"
"""


def read(engine: str, text: str) -> Entry:
    return settings.parse(ENGINES[engine], "f", text)


@pytest.mark.parametrize("plugin", ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"])
def test_containerd(plugin: str) -> None:
    """Our runtime is found in the plugin of every version of containerd's settings."""
    text = CONTAINERD.replace("PLUGIN", plugin)
    assert read("containerd", text) == Entry("containerd", "f", RUNTIME, "runc")
    assert read("containerd", text.replace("runtimes.cgpu", "runtimes.x")).runtime is None
    # Whether pods get CDI devices; nothing is not no.
    assert read("containerd", text).cdi is None
    for word, cdi in (("true", True), ("false", False), ('"yes"', None)):
        assert read("containerd", f'[plugins."{plugin}"]\nenable_cdi = {word}\n').cdi is cdi


def test_files_of_a_machine(tmp_path: Path) -> None:
    """Drop-ins and imports are read, and a file that is broken is named."""
    write(
        tmp_path,
        {
            "etc/docker/daemon.json": "{",
            "etc/containerd/config.toml": 'version = 2\nimports = ["/etc/extra/*.toml"]\n',
            "etc/extra/cgpu.toml": CONTAINERD.replace("PLUGIN", "io.containerd.grpc.v1.cri"),
            "etc/crio/crio.conf.d/90-cgpu.conf": CRIO,
            "etc/nvidia-container-runtime/config.toml": "[",
        },
    )
    found = settings.gather(tmp_path)
    assert [(one.engine, one.runtime, one.problem) for one in found] == [
        ("docker", None, "is not JSON"),
        ("containerd", None, None),
        ("containerd", RUNTIME, None),
        ("crio", RUNTIME, None),
        ("nvidia", None, "is not TOML"),
    ]


def process(root: Path, pid: str, words: str, *, same_files: bool = True, runs: str = "") -> None:
    """Write a process, which sees the same files as the reader or others. runs: the path of its program."""
    write(root, {f"proc/{pid}/cmdline": words.replace(" ", "\0") + "\0", f"proc/{pid}/ns/other": ""})
    (root / f"proc/{pid}/exe").symlink_to(runs or words.partition(" ")[0])
    mine = root / "proc/self/ns/mnt"
    if not mine.exists():
        write(root, {"proc/self/ns/mnt": ""})
    (root / f"proc/{pid}/ns/mnt").hardlink_to(mine if same_files else root / f"proc/{pid}/ns/other")


@pytest.mark.root
@pytest.mark.parametrize(
    ("words", "is_read"),
    [
        ("/usr/bin/containerd --config /opt/own/config.toml", True),
        ("containerd -c /opt/own/config.toml --log-level info", True),
        ("/usr/bin/containerd --config=/opt/own/config.toml", True),
        ("/usr/bin/containerd --config opt/own/config.toml", False),
        ("/usr/bin/containerd --config", False),
        ("/usr/bin/containerd", False),
        ("/usr/bin/other --config /opt/own/config.toml", False),
    ],
)
def test_settings_of_a_running_engine(tmp_path: Path, words: str, is_read: bool) -> None:
    """The file that a running containerd was started with is read beside the usual ones."""
    text = CONTAINERD.replace("PLUGIN", "io.containerd.grpc.v1.cri")
    write(tmp_path, {"opt/own/config.toml": text})
    process(tmp_path, "7", words)
    found = [one.file for one in settings.gather(tmp_path) if one.runtime is not None]
    assert found == (["/opt/own/config.toml"] if is_read else [])


@pytest.mark.root
def test_a_process_of_a_container_names_no_file(tmp_path: Path) -> None:
    """A process that sees other files, is not root's, or only calls itself containerd, has nothing read."""
    write(tmp_path, {"opt/own/config.toml": "[", "opt/other/config.toml": "["})
    process(tmp_path, "9", "containerd -c /opt/own/config.toml", runs="/usr/bin/sudo")
    process(tmp_path, "7", "containerd -c /opt/own/config.toml", same_files=False)
    process(tmp_path, "8", "containerd -c /opt/other/config.toml")
    os.chown(tmp_path / "proc/8", 41001, 41001)
    assert settings.gather(tmp_path) == ()


@pytest.mark.parametrize("pattern", ["/", "//", "/etc/extra/**.toml", "/etc/[", "/etc/a\\u0000b", "**", ""])
def test_any_import(tmp_path: Path, pattern: str) -> None:
    """Any pattern of imports leaves the rest readable: containerd's patterns are not Python's."""
    text = CONTAINERD.replace("PLUGIN", "io.containerd.grpc.v1.cri")
    first = f'version = 2\nimports = ["{pattern}"]\n'
    write(tmp_path, {"etc/containerd/config.toml": first, "etc/extra/cgpu.toml": text})
    found = [one.file for one in settings.gather(tmp_path) if one.runtime is not None]
    assert found == (["/etc/extra/cgpu.toml"] if "extra" in pattern else [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["runtimes", "cgpu", "path", "default-runtime", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document(document: object) -> None:
    """Whatever a file holds, only words at our keys come out of it."""
    found = read("docker", json.dumps(document))
    assert found.runtime is None or isinstance(found.runtime, str)
    assert found.default is None or isinstance(found.default, str)
    for name in ENGINES.keys() - {"docker"}:
        assert read(name, "x = 1\n") == Entry(name, "f")
