# SPDX-License-Identifier: Apache-2.0
"""The files of docker, CRI-O, podman and hooks.d: which are edited, and what the engines say of them."""

from __future__ import annotations

import json
import os
import tomllib

import pytest

from cgpu.errors import CgpuError
from cgpu.runtime_config.engines.engine import Desired
from tests.runtime_config.engines.nodes import (
    CONTAINERS_CONF,
    CRIO,
    DAEMON_JSON,
    DEFAULT,
    DESIRED,
    PODMAN_DROP_IN,
    RUNTIME,
    Machine,
)


def test_docker_checks_where_it_can(machine: Machine) -> None:
    """dockerd is asked only where it knows --validate, which it does since 23.0."""
    config = machine.write(DAEMON_JSON, "{}")
    refuse = (
        f'[ "$*" = "--validate --config-file {config}" ] && {{ echo "unable to configure" >&2; exit 1; }}'
    )
    machine.program("dockerd", "echo no such option")
    machine.engine("docker").check(machine.root)
    machine.program("dockerd", f"echo '  --validate  check'; {refuse}; true")
    with pytest.raises(
        CgpuError, match=r"daemon\.json: dockerd: unable to configure; see: dockerd --validate"
    ):
        machine.engine("docker").check(machine.root)


@pytest.mark.parametrize(
    ("path", "line", "desired", "refused"),
    [
        ("etc/default/docker", 'DOCKER_OPTS="--add-runtime nvidia=/x"', DESIRED, True),
        ("etc/default/docker", "#DOCKER_OPTS=--add-runtime", DESIRED, False),
        ("etc/systemd/system/docker.service.d/o.conf", "ExecStart=/d --default-runtime=x", DEFAULT, True),
        ("etc/systemd/system/docker.service.d/o.conf", "ExecStart=/d --default-runtime=x", DESIRED, False),
    ],
)
def test_options_that_dockerd_takes_only_once(
    machine: Machine, path: str, line: str, desired: Desired, refused: bool
) -> None:
    """dockerd does not start with an option and the same key: the option is named before anything changes."""
    machine.write(path, line + "\n")
    engine = machine.engine("docker")
    if refused:
        with pytest.raises(CgpuError, match="dockerd does not start with this and the same in"):
            engine.plan_add(machine.root, desired)
    else:
        assert len(engine.plan_add(machine.root, desired)) == 1


def test_docker_lets_go_first(machine: Machine) -> None:
    """While ours is the default there is something to release; not when it is out."""
    machine.write(DAEMON_JSON, '{\n  "debug": true\n}\n')
    engine = machine.engine("docker")
    assert list(engine.plan_release(machine.root)) == []
    machine.add(engine, DEFAULT)
    (edit,) = engine.plan_release(machine.root)
    assert json.loads(edit.after or b"") == {"debug": True, "default-runtime": "runc", "runtimes": {}}
    machine.remove(engine)
    assert list(engine.plan_release(machine.root)) == []


CRUN = """[crio.runtime]
default_runtime = "crun"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
runtime_root = "/run/crun"
monitor_path = "/usr/libexec/crio/conmon"
inherit_default_runtime = false
platform_runtime_paths = {"linux/arm64" = "/arm/crun"}
allowed_annotations = ["io.containers.trace-syscall"]
[crio.runtime.runtimes.runc]
runtime_path = "/usr/libexec/crio/runc"
"""


def test_crio_takes_over_what_pods_have(machine: Machine) -> None:
    """The drop-in has conmon's path and what else is not the other runtime's own; the other files stay."""
    machine.write("etc/crio/crio.conf.d/10-crio.conf", CRUN)
    engine = machine.engine("crio", "1.30.0")
    machine.add(engine, DEFAULT)
    runtime = tomllib.loads(machine.read(CRIO))["crio"]["runtime"]
    assert runtime["default_runtime"] == "cgpu"
    assert runtime["runtimes"]["cgpu"] == {
        "runtime_path": str(RUNTIME),
        "runtime_type": "oci",
        "runtime_root": "/run/crun",
        "monitor_path": "/usr/libexec/crio/conmon",
        "allowed_annotations": ["io.containers.trace-syscall"],
    }
    machine.add(engine)
    assert "default_runtime" not in machine.read(CRIO)
    assert sorted(machine.state()) == ["etc/crio/crio.conf.d/10-crio.conf", CRIO]
    assert not list((machine.root / "etc/crio/crio.conf.d").glob("*.before-cgpu"))
    machine.remove(engine)
    assert machine.state() == {"etc/crio/crio.conf.d/10-crio.conf": CRUN.encode()}


def test_crio_reads_every_name(machine: Machine) -> None:
    """A file with any name that comes after ours, and sets the default, is named."""
    machine.write("etc/crio/crio.conf.d/99-nvidia.toml", '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    with pytest.raises(CgpuError, match=r"99-nvidia.toml: crio.runtime.default_runtime: has another value"):
        machine.engine("crio").plan_add(machine.root, DEFAULT)
    assert len(machine.engine("crio").plan_add(machine.root, DESIRED)) == 1


@pytest.mark.parametrize("main", ["/dev/null", "etc/crio/crio.conf"])
def test_crio_check(machine: Machine, main: str) -> None:
    """CRI-O itself checks main file and folder; where there is no main file, it is given an empty one."""
    machine.write(CRIO, "")
    place = main if main.startswith("/") else str(machine.write(main, ""))
    folder = machine.root / "etc/crio/crio.conf.d"
    wanted = f"--config {place} --config-dir {folder} config"
    machine.program("crio", f'[ "$*" = "{wanted}" ] && {{ echo "level=fatal msg=bad" >&2; exit 1; }}; exit 0')
    with pytest.raises(CgpuError, match=r"crio\.conf\.d: crio: level=fatal msg=bad; see: "):
        machine.engine("crio").check(machine.root)


@pytest.mark.parametrize(("version", "target"), [("4.3.1", PODMAN_DROP_IN), ("3.4.4", CONTAINERS_CONF)])
def test_podman_target(machine: Machine, version: str, target: str) -> None:
    """podman gets a drop-in since 4.0, and a line in its main file before."""
    machine.write(CONTAINERS_CONF, '[engine]\nruntime = "crun"\n')
    engine = machine.engine("podman", version)
    machine.add(engine, DEFAULT)
    assert tomllib.loads(machine.read(target))["engine"] == {
        "runtime": "cgpu",
        "runtimes": {"cgpu": [str(RUNTIME)]},
    }
    machine.remove(engine)
    assert machine.state() == {CONTAINERS_CONF: b'[engine]\nruntime = "crun"\n'}


def test_an_upgraded_podman_gets_a_drop_in(machine: Machine) -> None:
    """What an older podman had in its main file moves to the drop-in."""
    machine.write(CONTAINERS_CONF, "[engine]\n")
    machine.add(machine.engine("podman", "3.4.4"))
    machine.add(machine.engine("podman", "5.0.0"))
    assert machine.read(CONTAINERS_CONF) == "[engine]\n"
    assert str(RUNTIME) in machine.read(PODMAN_DROP_IN)


def test_somebody_elses_file_under_our_name(machine: Machine) -> None:
    """A file that has our name and not our mark is left alone, and named."""
    machine.write(PODMAN_DROP_IN, "[engine]\n")
    machine.write(CRIO, "[crio]\n")
    for name, version in (("podman", "4.3.1"), ("crio", "1.30.0")):
        with pytest.raises(
            CgpuError, match="is there and was not added by this command: remove it first: rm /"
        ):
            machine.engine(name, version).plan_add(machine.root, DESIRED)
        assert list(machine.engine(name).plan_remove(machine.root)) == []


def test_hooks_need_the_kernel_module(machine: Machine) -> None:
    """Hooks are refused without the module, as they would register what nothing limits."""
    engine = machine.engine("hooks", "4.3.1")
    assert not engine.is_present(machine.root)
    with pytest.raises(CgpuError, match=r"/proc/cgpu_km: is not there.*modprobe cgpu_km"):
        engine.plan_add(machine.root, DESIRED)


def test_hooks(machine: Machine) -> None:
    """One hook for each stage, for containers with our annotations only; a foreign file is left alone."""
    machine.write("proc/cgpu_km/version", "1\n")
    was = machine.state()
    engine = machine.engine("hooks", "4.3.1")
    assert engine.is_present(machine.root)
    machine.add(engine)
    folder = "usr/share/containers/oci/hooks.d"
    hook = json.loads(machine.read(f"{folder}/99-cgpu-prestart.json"))
    assert hook["when"] == {"annotations": {r"^opencgpu\.io/": ".*"}}
    assert (hook["version"], hook["stages"]) == ("1.0.0", ["prestart"])
    assert hook["hook"]["args"] == ["cgpu-hook", "prestart"]
    assert os.access(hook["hook"]["path"], os.X_OK)
    machine.remove(engine)
    assert machine.state() == was
    machine.write(f"{folder}/99-cgpu-poststop.json", "{}")
    with pytest.raises(CgpuError, match=r"99-cgpu-poststop\.json: is there and was not added"):
        engine.plan_remove(machine.root)
