# SPDX-License-Identifier: Apache-2.0
"""Settings by cgpu-runtime-config, as the real engines read them. dockerd of these tests runs on them."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from cgpu.runtime_config.engines import hooks
from tests.integration.commands import call, must
from tests.integration.images import IMAGE
from tests.integration.runtimes import CONFIGURE, LAUNCHER, PODMAN_LIMITS, Podman

CRI = "io.containerd.grpc.v1.cri"
# As Debian has it: no runtime is named.
DEBIAN = f"""version = 2

[plugins]
  [plugins."{CRI}"]
    [plugins."{CRI}".cni]
      bin_dir = "/usr/lib/cni"
"""
V1 = '[plugins.cri.containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
KUBEADM = f"""version = 2
[plugins."{CRI}".containerd]
  default_runtime_name = "runc"
  [plugins."{CRI}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{CRI}".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""


@pytest.mark.parametrize(
    ("text", "default"),
    [(None, "runc"), ("", "cgpu"), (DEBIAN, "cgpu"), (DEBIAN, "runc"), (V1, "runc"), (KUBEADM, "cgpu")],
)
def test_containerd(tmp_path: Path, text: str | None, default: str) -> None:
    """containerd has the handler `cgpu`, for RuntimeClass, beside runc, and a default as asked."""
    config = tmp_path / "config.toml"
    if text is not None:
        config.write_text(text)
    options = ["--default-runtime"] if default == "cgpu" else []
    must([CONFIGURE, "containerd", "--config", config, "--runtime", LAUNCHER, *options])
    dump = tomllib.loads(must(["containerd", "-c", config, "config", "dump"]).stdout)
    section = dump["plugins"][CRI]["containerd"]
    assert section["default_runtime_name"] == default
    assert sorted(section["runtimes"]) == ["cgpu", "runc"]
    cgpu = section["runtimes"]["cgpu"]
    assert cgpu["runtime_type"] == "io.containerd.runc.v2"
    assert cgpu["options"]["BinaryName"] == str(LAUNCHER)
    assert cgpu["options"].get("SystemdCgroup", False) is (text == KUBEADM)


@pytest.mark.root
def test_podman_drop_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    """podman reads the drop-in, with the runtime as its default, and nothing is left when it is removed."""
    tmp_path = tmp_path_factory.mktemp("p")  # podman wants a short path
    etc = tmp_path / "etc"
    etc.mkdir()
    add = [str(CONFIGURE), "podman", "--runtime", str(LAUNCHER), "--default-runtime"]
    steps: list[Sequence[str | Path]] = [
        add,
        podman_info(tmp_path),
        ["ls", "/etc/containers/containers.conf.d"],
        [CONFIGURE, "podman", "--remove"],
    ]
    script = " && ".join(shlex.join(str(word) for word in step) for step in steps)
    hidden = f"mount --make-rprivate / && mount --bind {etc} /etc/containers && {script}"
    lines = must(["unshare", "-m", "bash", "-c", hidden]).stdout.splitlines()
    assert lines[1:3] == [str(LAUNCHER), "99-cgpu.conf"]
    assert [path for path in etc.rglob("*") if path.is_file()] == []


@pytest.mark.root
def test_podman_hooks(podman: Podman, tmp_path: Path) -> None:
    """podman calls the hook for a container with an annotation of ours, under runc too, and for no other."""
    for stage in hooks.STAGES:
        (tmp_path / f"99-cgpu-{stage}.json").write_text(hooks.document(stage))
    base = [word.replace(str(LAUNCHER), "runc") for word in podman.base]
    run = [*base, "--hooks-dir", str(tmp_path), "run", "--rm", *PODMAN_LIMITS]
    run += ["-v", "/bin/busybox:/busybox:ro"]
    command = [f"localhost/{IMAGE}", "/busybox", "echo", "started"]
    assert must([*run, *command]).stdout == "started\n"
    outcome = call([*run, "--annotation", "opencgpu.io/mem-container=x", *command])
    assert outcome.returncode != 0
    assert "opencgpu: " in outcome.text


def podman_info(tmp_path: Path, *options: str) -> list[str]:
    places = ["--root", str(tmp_path / "root"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs"]
    info = ["--cgroup-manager", "cgroupfs", "info", "--format", "{{.Host.OCIRuntime.Path}}"]
    return ["podman", *places, *options, *info]
