# SPDX-License-Identifier: Apache-2.0
"""What cgpu-runtime-config writes, as the real engines read it. dockerd of these tests runs on it as well."""

from __future__ import annotations

from pathlib import Path

from tests.integration.commands import call, must
from tests.integration.runtimes import CONFIGURE, LAUNCHER


def configured(tmp_path: Path, engine: str, name: str) -> Path:
    """Return the engine's configuration with the runtime in it."""
    config = tmp_path / name
    must([CONFIGURE, engine, "--config", config, "--runtime", LAUNCHER])
    return config


def test_containerd(tmp_path: Path) -> None:
    """containerd has the runtime handler `cgpu` in its CRI section, which a RuntimeClass names."""
    dump = must(
        ["containerd", "-c", configured(tmp_path, "containerd", "config.toml"), "config", "dump"]
    ).stdout
    section = dump.split("containerd.runtimes.cgpu]", 1)[1].split("containerd.runtimes.cgpu.options]", 1)
    assert 'runtime_type = "io.containerd.runc.v2"' in section[0]
    assert f'BinaryName = "{LAUNCHER}"' in section[1].split("\n\n")[0]


def test_podman(tmp_path: Path) -> None:
    """podman finds the runtime by its name."""
    config = configured(tmp_path, "podman", "containers.conf")
    places = ["--root", str(tmp_path / "root"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs"]
    command = ["podman", *places, "--runtime", "cgpu", "--cgroup-manager", "cgroupfs", "info", "--format"]
    outcome = call([*command, "{{.Host.OCIRuntime.Path}}"], {"CONTAINERS_CONF": str(config)})
    assert outcome.stdout.strip() == str(LAUNCHER), outcome.text
