# SPDX-License-Identifier: Apache-2.0
"""The files of each engine: the edited one, and the engine's check of them."""

from __future__ import annotations

import json
import os
import tomllib

import pytest

from cgpu.errors import CgpuError
from cgpu.runtime_config.engines.containerd import Containerd
from cgpu.runtime_config.engines.engine import Desired
from tests.runtime_config.engines.nodes import (
    CONFIG_TOML,
    CONTAINERS_CONF,
    CRIO,
    DAEMON_JSON,
    DEFAULT,
    DESIRED,
    DROP_IN,
    OLD,
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


@pytest.mark.parametrize("desired", [DESIRED, DEFAULT])
@pytest.mark.parametrize(("name", "path"), [("crio", CRIO), ("podman", PODMAN_DROP_IN)])
def test_drop_ins_whose_comments_are_lost(machine: Machine, name: str, path: str, desired: Desired) -> None:
    """A drop-in of ours goes by what is in it, and so does a copy of its table in another file."""
    engine = machine.engine(name, OLD[name])
    machine.add(engine, desired)
    lines = [line for line in machine.read(path).splitlines() if not line.startswith("#")]
    machine.write(path, "\n".join(lines) + "\n")
    copied = lines[lines.index(next(one for one in lines if "runtimes" in one)) :]
    other = path.replace("99-cgpu", "50-other")
    machine.write(other, "\n".join(["[mine]", "a = 1", *copied, "[last]", ""]))
    machine.remove(engine)
    assert list(machine.state()) == [other]
    assert tomllib.loads(machine.read(other)) | {"engine": 0} == {"mine": {"a": 1}, "last": {}, "engine": 0}


FOREIGN = {
    "docker": (DAEMON_JSON, '{"runtimes": {"cgpu": {"path": "/opt/other/gpu-runtime"}}}'),
    "containerd": (
        CONFIG_TOML,
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.cgpu]\n",
    ),
    "crio": (
        "etc/crio/crio.conf.d/10-other.conf",
        '[crio.runtime.runtimes.cgpu]\nruntime_path = "/opt/other"\n',
    ),
    "podman": (CONTAINERS_CONF, '[engine.runtimes]\ncgpu = ["/opt/other"]\n'),
}


@pytest.mark.parametrize("name", list(FOREIGN))
def test_somebody_elses_runtime_of_our_name(machine: Machine, name: str) -> None:
    """A runtime called cgpu that is another program is named, not replaced, and not removed."""
    path, text = FOREIGN[name]
    machine.write(path, text)
    engine = machine.engine(name, OLD[name])
    with pytest.raises(CgpuError, match=r"cgpu.*was not added by this command: remove it first"):
        engine.plan_add(machine.root, DESIRED)
    assert list(engine.plan_remove(machine.root)) == []


def test_no_other_runtime_than_nvidias(machine: Machine) -> None:
    """Our runtime takes over what the kubelet needs of NVIDIA's runtime alone: SystemdCgroup, conmon."""
    machine.write(
        CONFIG_TOML,
        f'version = 3\n{CRI3}]\ndefault_runtime_name = "nvidia"\n{CRI3}.runtimes.nvidia]\n'
        'options = {BinaryName = "/usr/bin/nvidia-container-runtime", SystemdCgroup = true}\n',
    )
    machine.add(machine.engine("containerd", "2.1.0"))
    plugins = tomllib.loads(machine.read(CONFIG_TOML))["plugins"]
    options = plugins["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["cgpu"]["options"]
    assert options == {"BinaryName": str(RUNTIME), "SystemdCgroup": True}
    machine.write(
        "etc/crio/crio.conf", CRUN.replace("crun", "nvidia").replace("runtimes.runc", "runtimes.kata")
    )
    machine.add(machine.engine("crio", "1.30.0"))
    ours = tomllib.loads(machine.read(CRIO))["crio"]["runtime"]["runtimes"]["cgpu"]
    assert ours["monitor_path"] == "/usr/libexec/crio/conmon"


def test_podman_without_drop_ins(machine: Machine) -> None:
    """podman before 4.0 would not read our file."""
    with pytest.raises(CgpuError, match=r"podman 3\.4: reads no /etc/containers/containers.conf.d"):
        machine.engine("podman", "3.4.4").plan_add(machine.root, DESIRED)


def test_hooks(machine: Machine) -> None:
    """With the module there is a hook for each stage, for our annotations only; a foreign file stays."""
    engine = machine.engine("hooks", "4.3.1")
    assert not engine.is_present(machine.root)
    # They would register what nothing limits.
    with pytest.raises(CgpuError, match=r"/proc/cgpu_km: is not there.*modprobe cgpu_km"):
        engine.plan_add(machine.root, DESIRED)
    machine.write("proc/cgpu_km/version", "1\n")
    was = machine.state()
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


V3 = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n[plugins."io.containerd.cri.v1.runtime"]\n'
V2 = 'version = 2\nimports = ["conf.d/*.toml"]\n[plugins."io.containerd.grpc.v1.cri"]\n'
CRI2 = '[plugins."io.containerd.grpc.v1.cri".containerd'
CRI3 = '[plugins."io.containerd.cri.v1.runtime".containerd'


@pytest.mark.parametrize(
    ("version", "main", "target"),
    [
        ("1.6.20", V2, CONFIG_TOML),
        ("1.7.20", V2, CONFIG_TOML),
        ("2.0.4", V3, CONFIG_TOML),
        ("2.1.0", V3, DROP_IN),
        ("2.1.0", V2, DROP_IN),
        ("2.3.1", V3.replace("version = 3", "version = 4"), DROP_IN),
        ("2.3.1", V3.replace("*.toml", "99-cgpu.toml"), DROP_IN),
        ("2.1.0", V3.replace("conf.d", "other.d"), "etc/containerd/other.d/99-cgpu.toml"),
        ("2.3.1", 'imports = ["/etc/containerd/conf.d/*.toml"]\n[plugins.cri]\n', CONFIG_TOML),
    ],
)
def test_containerd_target(machine: Machine, version: str, main: str, target: str) -> None:
    """A drop-in is made where containerd merges it and the main file reads that folder."""
    machine.write(CONFIG_TOML, main)
    engine = machine.engine("containerd", version)
    (edit,) = engine.plan_add(machine.root, DEFAULT)
    assert edit.path == machine.root / target
    machine.add(engine, DEFAULT)
    if target == DROP_IN:
        assert tomllib.loads(machine.read(DROP_IN))["version"] == tomllib.loads(main)["version"]
    machine.remove(engine)
    assert machine.state() == {CONFIG_TOML: main.encode()}


def test_an_upgraded_containerd_gets_a_drop_in(machine: Machine) -> None:
    """Entries in an older containerd's main file move to the drop-in; one removal removes both."""
    machine.write(CONFIG_TOML, V2)
    machine.add(machine.engine("containerd", "1.7.20"))
    assert str(RUNTIME) in machine.read(CONFIG_TOML)
    engine = machine.engine("containerd", "2.1.0")
    machine.add(engine)
    assert machine.read(CONFIG_TOML) == V2
    assert str(RUNTIME) in machine.read(DROP_IN)
    machine.remove(engine)
    assert machine.state() == {CONFIG_TOML: V2.encode()}


def test_before_2_1_the_last_file_with_the_plugin_is_edited(machine: Machine) -> None:
    """An imported file that replaces the CRI section of the main file gets the runtime."""
    machine.write(CONFIG_TOML, V2 + CRI2 + ".runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n")
    vendor = f"version = 2\n{CRI2}.runtimes.nvidia]\nruntime_type = 'io.containerd.runc.v2'\n{CRI2}]\n"
    vendor += "default_runtime_name = 'nvidia'\n"
    machine.write("etc/containerd/conf.d/99-nvidia.toml", vendor)
    machine.write("etc/containerd/conf.d/zz-debug.toml", "[debug]\nlevel = 'info'\n")
    was = machine.state()
    engine = machine.engine("containerd", "1.7.20")
    machine.add(engine, DEFAULT)
    section = tomllib.loads(machine.read("etc/containerd/conf.d/99-nvidia.toml"))["plugins"]
    containerd = section["io.containerd.grpc.v1.cri"]["containerd"]
    assert list(containerd["runtimes"]) == ["nvidia", "cgpu"]
    assert containerd["default_runtime_name"] == "cgpu"
    assert machine.read(CONFIG_TOML).encode() == was[CONFIG_TOML]
    machine.remove(engine)
    assert machine.state() == was


def test_a_later_file_that_says_otherwise_is_named(machine: Machine) -> None:
    """A drop-in that is read after ours and sets another default is named, and nothing is changed."""
    machine.write(CONFIG_TOML, V3)
    machine.write(
        "etc/containerd/conf.d/99-nvidia.toml", f"version = 3\n{CRI3}]\ndefault_runtime_name = 'nvidia'\n"
    )
    engine = machine.engine("containerd", "2.1.0")
    with pytest.raises(CgpuError, match=r"conf.d/99-nvidia.toml: .*default_runtime_name: has another value"):
        engine.plan_add(machine.root, DEFAULT)
    machine.add(engine)
    assert "default_runtime_name" not in machine.read(DROP_IN)


def test_options_of_the_drop_in_are_those_in_force(machine: Machine) -> None:
    """SystemdCgroup is copied from wherever the settings in force have it; Kata's options are not."""
    machine.write(CONFIG_TOML, V3 + f"{CRI3}]\ndefault_runtime_name = 'kata'\n")
    runc = "runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\noptions = {SystemdCgroup = true}\n"
    kata = "runtimes.kata]\nruntime_type = 'io.containerd.kata.v2'\noptions = {ConfigPath = '/k'}\n"
    machine.write("etc/containerd/conf.d/10.toml", f"version = 3\n{CRI3}.{runc}{CRI3}.{kata}")
    machine.add(machine.engine("containerd", "2.1.0"))
    plugins = tomllib.loads(machine.read(DROP_IN))["plugins"]
    runtimes = plugins["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    options = {"SystemdCgroup": True, "BinaryName": str(RUNTIME)}
    ours = {"runtime_type": "io.containerd.runc.v2", "pod_annotations": ["opencgpu.io/*"]}
    assert runtimes == {"cgpu": {**ours, "options": options}}


@pytest.mark.parametrize("version", ["2.0.4", "2.2.0"])
def test_a_file_that_containerd_overlooks(machine: Machine, version: str) -> None:
    """A file of version 1 is refused where containerd would read none of it; 1.7 and 2.3 do read it."""
    machine.write(CONFIG_TOML, "[plugins.cri]\n")
    with pytest.raises(CgpuError, match=r"config.toml: version: 1: containerd 2\.[02] overlooks"):
        machine.engine("containerd", version).plan_add(machine.root, DESIRED)
    for good in ("1.7.20", "2.3.1"):
        assert len(machine.engine("containerd", good).plan_add(machine.root, DESIRED)) == 1


def test_imports_that_go_round(machine: Machine) -> None:
    """Files that import each other, or a missing one, are read once."""
    machine.write(CONFIG_TOML, 'version = 2\nimports = ["config.toml", "gone.toml", "b.toml"]\n')
    machine.write("etc/containerd/b.toml", 'imports = ["/etc/containerd/config.toml"]\n')
    engine = machine.engine("containerd", "1.6.20")
    (edit,) = engine.plan_add(machine.root, DESIRED)
    assert edit.path == machine.root / CONFIG_TOML


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'containerd: failed to load TOML' >&2; exit 1", "containerd: failed to load TOML"),
        (
            f"""printf 'version = 2\\n{CRI2}]\\ndefault_runtime_name = "runc"\\n'""",
            "default_runtime_name: runc: there is no runtime of that name",
        ),
    ],
)
def test_containerd_check(machine: Machine, script: str, message: str) -> None:
    """containerd's words on its settings are passed on, and a default runtime that it would miss."""
    machine.write(CONFIG_TOML, "")
    machine.program("containerd", script)
    with pytest.raises(CgpuError, match=message):
        machine.engine("containerd").check(machine.root)


def test_another_file_leaves_the_drop_in_alone(machine: Machine) -> None:
    """An edit of a file elsewhere does not take away the drop-in of the settings in /etc."""
    machine.write(CONFIG_TOML, V3)
    machine.add(machine.engine("containerd", "2.1.0"))
    there = machine.read(DROP_IN)
    machine.write("opt/config.toml", "version = 3\n")
    other = Containerd(path="/opt/config.toml", folders=(), search=(str(machine.base / "bin"),))
    machine.add(other)
    assert str(RUNTIME) in machine.read("opt/config.toml")
    machine.remove(other)
    assert (machine.read("opt/config.toml"), machine.read(DROP_IN)) == ("version = 3\n", there)
