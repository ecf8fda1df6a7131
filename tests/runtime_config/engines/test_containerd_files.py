# SPDX-License-Identifier: Apache-2.0
"""containerd's files: which of them is edited, and what containerd says of them."""

from __future__ import annotations

import tomllib

import pytest

from cgpu.errors import CgpuError
from cgpu.runtime_config.engines.containerd import Containerd
from tests.runtime_config.engines.nodes import CONFIG_TOML, DEFAULT, DESIRED, DROP_IN, RUNTIME, Machine

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
        ("2.1.0", V3.replace("conf.d", "other.d"), CONFIG_TOML),
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
    """What an older containerd had in its main file moves to the drop-in; one removal removes both."""
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
    """Where an imported file replaces the CRI section of the main file, the runtime is added to that file."""
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
    """Files that import each other, or what is not there, are read once."""
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
    """What containerd says of its settings is said on, and so is a default runtime that it would miss."""
    machine.write(CONFIG_TOML, "")
    machine.program("containerd", script)
    with pytest.raises(CgpuError, match=message):
        machine.engine("containerd").check(machine.root)


def test_another_file_leaves_the_drop_in_alone(machine: Machine) -> None:
    """Where a file elsewhere is edited, the drop-in of the settings in /etc is not taken away."""
    machine.write(CONFIG_TOML, V3)
    machine.add(machine.engine("containerd", "2.1.0"))
    there = machine.read(DROP_IN)
    machine.write("opt/config.toml", "version = 3\n")
    other = Containerd(path="/opt/config.toml", drop_in=None, search=(str(machine.base / "bin"),))
    machine.add(other)
    assert str(RUNTIME) in machine.read("opt/config.toml")
    machine.remove(other)
    assert (machine.read("opt/config.toml"), machine.read(DROP_IN)) == ("version = 3\n", there)
