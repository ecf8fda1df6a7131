# SPDX-License-Identifier: Apache-2.0
"""Nodes that bring their own containerd: where the runtime goes, and what stays behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cgpu.errors import CgpuError
from cgpu.install.node.facts import software
from cgpu.runtime_config.engines import layers
from cgpu.runtime_config.text.toml import child
from tests.runtime_config.engines.kinds import CRI3, K3S, KINDS, Kind, made, restart, runtimes
from tests.runtime_config.engines.nodes import DEFAULT, DESIRED, RUNTIME, Machine

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


@each_kind
def test_a_restart_has_the_runtime(machine: Machine, kind: Kind) -> None:
    """Whatever the node's software writes anew, containerd reads our runtime, with the kubelet's cgroups."""
    engine = made(machine, kind)
    assert engine.is_present(machine.root)
    before = machine.state()
    (edit,) = engine.plan_add(machine.root, DESIRED)
    assert edit.path == machine.root / kind.edited
    machine.add(engine)
    ours = runtimes(restart(machine, kind))["cgpu"]
    assert child(ours, "options") == {"SystemdCgroup": True, "BinaryName": str(RUNTIME)}
    assert engine.plan_add(machine.root, DESIRED) == []
    machine.remove(engine)
    assert "cgpu" not in runtimes(restart(machine, kind))
    assert machine.state() == before


Change = Callable[[str], str]
CHANGES: dict[str, Change] = {
    "lost comments": lambda text: "".join(
        line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#")
    ),
    "lines behind": lambda text: text + "# mine\n[mine]\nlevel = 'info'\n",
    "lines before": lambda text: "# mine\ntemp = '/var/tmp'\n" + text,
}


@each_kind
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_what_others_change_between(machine: Machine, kind: Kind, change: Change) -> None:
    """A tool or a person changes the file with our runtime: the change stays, to the byte, and ours goes."""
    engine = made(machine, kind)
    before = dict(machine.state())
    machine.add(engine)
    machine.write(kind.edited, change(machine.read(kind.edited)))
    machine.remove(engine)
    after = dict(machine.state())
    was = kind.tree.get(kind.edited, "")
    mine = change(was)
    if mine and kind.edited.endswith(".tmpl"):
        base = f"{layers.BASE}\n"
        mine = change(base)
    if mine:
        before[kind.edited] = mine.encode()
    assert after == before
    restart(machine, kind)


def test_a_template_of_somebody(machine: Machine) -> None:
    """A template that begins with k3s' own gets a block; it needs to be TOML but for its lines of actions."""
    kind = KINDS["k3s 1.34"]
    engine = made(machine, kind)
    lines = [
        layers.BASE,
        "# mine",
        "[proxy_plugins.stargz]",
        'type = "snapshot"',
        "{{ if .x }}",
        " {{ end }}",
    ]
    custom = "".join(f"{line}\n" for line in lines)
    machine.write(kind.edited, custom)
    machine.add(engine)
    assert machine.read(kind.edited).startswith(custom)
    machine.remove(engine)
    assert machine.read(kind.edited) == custom
    whole = 'version = 3\n[plugins]\n  path = "{{ .Opt }}"\n  enable = {{ .NodeConfig.SELinux }}\n'
    machine.write(kind.edited, whole)
    with pytest.raises(CgpuError, match=r"config-v3\.toml\.tmpl: .*expected TOML"):
        engine.plan_add(machine.root, DESIRED)
    assert list(engine.plan_remove(machine.root)) == []


def test_the_default_runtime_of_k3s(machine: Machine) -> None:
    """A template cannot set it, and k3s' own setting can; while that names ours, the runtime stays."""
    kind = KINDS["k3s 1.34"]
    engine = made(machine, kind)
    with pytest.raises(CgpuError, match=r"set default-runtime: cgpu in /etc/rancher/k3s/config\.yaml"):
        engine.plan_add(machine.root, DEFAULT)
    machine.add(engine)
    main = f"{K3S}/config.toml"
    machine.write(
        main, machine.read(main) + f'[plugins."{CRI3}".containerd]\ndefault_runtime_name = "cgpu"\n'
    )
    with pytest.raises(
        CgpuError, match=r"config.toml: default_runtime_name: cgpu: first take out default-run"
    ):
        engine.plan_remove(machine.root)
    for name in ("k3s 1.36", "k0s 1.28"):
        machine = Machine(machine.base / name)
        engine = made(machine, KINDS[name])
        was = machine.state()
        machine.add(engine, DEFAULT)
        restart(machine, KINDS[name])
        machine.remove(engine)
        assert machine.state() == was


def test_files_that_are_not_as_expected(machine: Machine) -> None:
    """k3s that was never started, settings of k0s that are a person's, a generated config.toml."""
    with pytest.raises(CgpuError, match=r"config.toml: is not there yet: start rke2 first"):
        machine.engine("rke2", "2.1.4").plan_add(machine.root, DESIRED)
    machine.write("etc/k0s/containerd.toml", "version = 2\n")
    with pytest.raises(
        CgpuError, match=r"not managed by k0s.*cgpu-runtime-config containerd --config /etc/k0s"
    ):
        machine.engine("k0s", "1.7.13").plan_add(machine.root, DESIRED)
    machine.write("etc/containerd/config.toml", "# Made by ansible. DO NOT EDIT\nversion = 3\n")
    with pytest.raises(CgpuError, match=r"config.toml: another program makes it \(DO NOT EDIT\)"):
        machine.engine("containerd", "2.0.4").plan_add(machine.root, DESIRED)


@pytest.mark.parametrize(
    ("identity", "said"), [("bottlerocket", "build a variant"), ("talos", "talosctl patch")]
)
def test_settings_that_are_no_files(machine: Machine, identity: str, said: str) -> None:
    """Bottlerocket and Talos make the settings anew: a person's work is named, and nothing changes."""
    machine.write("etc/os-release", f'NAME="x"\nID={identity}\n')
    machine.write("etc/containerd/config.toml", "version = 3\n")
    was = machine.state()
    engine = machine.engine("containerd", "2.1.4")
    with pytest.raises(CgpuError, match=said):
        engine.plan_add(machine.root, DESIRED)
    assert list(engine.plan_remove(machine.root)) == []
    assert machine.state() == was
    assert said in software.gather(machine.root, ()).by_hand
