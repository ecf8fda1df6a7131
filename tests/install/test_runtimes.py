# SPDX-License-Identifier: Apache-2.0
"""The choice of container engines by the kubelet that uses them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install import runtimes
from cgpu.install.node.facts.programs import Process
from cgpu.install.steps.step import Context
from cgpu.install.store import Store
from cgpu.runtime_config.engines import registry
from tests.install.support import System, facts

K3S = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
CONTAINERD, CRIO = "etc/containerd/config.toml", "etc/crio/crio.conf"


@pytest.mark.parametrize(
    ("files", "endpoint", "chosen"),
    [
        ((CONTAINERD,), "", "containerd"),
        ((CRIO, "etc/docker/daemon.json"), "", "crio"),
        ((K3S, CONTAINERD, CRIO), "", "k3s"),
        ((CONTAINERD, CRIO), "unix:///var/run/crio/crio.sock", "crio"),
        ((CONTAINERD, CRIO), "", "here are containerd, crio; expected the name of one: containerd, k3s, "),
        ((CONTAINERD, CRIO), "unix:///run/other.sock", "here are containerd, crio;"),
        (("etc/docker/daemon.json",), "", "here are docker; expected the name of one"),
        ((), "", "here are none;"),
    ],
)
def test_the_engine_of_the_kubelet(
    root: Path, monkeypatch: pytest.MonkeyPatch, files: Sequence[str], endpoint: str, chosen: str
) -> None:
    """--runtimes kubelet takes the engine by which the node's kubelet runs pods, or names what is here."""
    engines = {name: replace(one, search=()) for name, one in registry.ENGINES.items()}
    shutil.rmtree(root / "etc/containerd", ignore_errors=True)
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("")
    monkeypatch.setattr("cgpu.install.node.facts.programs.processes", lambda _: (Process(7, "kubelet"),))
    monkeypatch.setattr("cgpu.install.node.facts.programs.option", lambda *_: endpoint or None)
    made = Context(root, facts(root), System(root), Store.load(root), engines)
    if chosen in engines:
        assert runtimes.choose(made, ("kubelet",)) == (chosen,)
    else:
        with pytest.raises(CgpuError, match=f"--runtimes kubelet: .*{re.escape(chosen)}"):
            runtimes.choose(made, ("kubelet",))
