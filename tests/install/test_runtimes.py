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
UNKNOWN = "here are containerd, crio; expected the name of one: containerd, k3s, "
SOCKET = "containerRuntimeEndpoint:"
CONTAINERD, CRIO = "etc/containerd/config.toml", "etc/crio/crio.conf"


@pytest.mark.parametrize(
    ("files", "endpoint", "chosen"),
    [
        ((CONTAINERD,), "", "containerd"),
        ((CRIO, "etc/docker/daemon.json"), "", "crio"),
        ((K3S, CONTAINERD, CRIO), "", "k3s"),
        ((CONTAINERD, CRIO), "unix:///var/run/crio/crio.sock", "crio"),
        ((CONTAINERD, CRIO), "", UNKNOWN),
        ((CONTAINERD, CRIO), "unix:///run/other.sock", "here are containerd, crio;"),
        (("etc/docker/daemon.json",), "", "here are docker; expected the name of one"),
        ((), "", "here are none;"),
    ],
)
def test_the_engine_of_the_kubelet(
    root: Path, monkeypatch: pytest.MonkeyPatch, files: Sequence[str], endpoint: str, chosen: str
) -> None:
    """--runtimes kubelet takes the engine by which the node's kubelet runs pods, or names what is here."""
    monkeypatch.setattr("cgpu.install.node.facts.programs.processes", lambda _: (Process(7, "kubelet"),))
    monkeypatch.setattr("cgpu.install.node.facts.programs.option", lambda *_: endpoint or None)
    expect(made(root, files), chosen)


def made(root: Path, files: Sequence[str]) -> Context:
    """Return a node with settings of engines alone."""
    engines = {name: replace(one, search=()) for name, one in registry.ENGINES.items()}
    shutil.rmtree(root / "etc/containerd", ignore_errors=True)
    for file in files:
        write(root / file, "")
    return Context(root, facts(root), System(root), Store.load(root), engines)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def expect(node: Context, chosen: str) -> None:
    """Expect the kubelet's engine, or words of a refusal."""
    if chosen in node.engines:
        assert runtimes.choose(node, ("kubelet",)) == (chosen,)
    else:
        with pytest.raises(CgpuError, match=f"--runtimes kubelet: .*{re.escape(chosen)}"):
            runtimes.choose(node, ("kubelet",))


@pytest.mark.parametrize(
    ("texts", "option", "chosen"),
    [
        ((f"{SOCKET} unix:///run/crio/crio.sock", "", ""), "", "crio"),
        (('{"containerRuntimeEndpoint": "unix:///var/run/crio/crio.sock"}', "a: b", ""), "", "crio"),
        ((f"{SOCKET} /run/other.sock", f"{SOCKET} unix:///run/crio/crio.sock", "a: b"), "", "crio"),
        (("", f"{SOCKET} /run/containerd/containerd.sock", f"{SOCKET} /run/crio/crio.sock"), "", "crio"),
        ((f"{SOCKET} /run/crio/crio.sock", "", ""), "unix:///run/containerd/containerd.sock", "containerd"),
        (("", "", ""), "", UNKNOWN),
        ((f"{SOCKET} [", "- a", "!!int b"), "", UNKNOWN),
        ((f"{SOCKET} [1]", f"{SOCKET} 0x1", "&a [*a]"), "", UNKNOWN),
        ((f"{SOCKET} /run/crio/crio.sock\n{'#' * (1 << 20)}", "", ""), "", UNKNOWN),
    ],
)
def test_the_kubelets_files(
    root: Path, monkeypatch: pytest.MonkeyPatch, texts: Sequence[str], option: str, chosen: str
) -> None:
    """Where no option of the kubelet names the socket, the last file of its configuration that has it counts.

    A file that is none, or too large, names nothing.
    """
    node = made(root, (CONTAINERD, CRIO))
    names = ("kubelet.yaml", "d/10.conf", "d/20.conf", "d/90")
    for name, text in zip(names, (*texts, f"{SOCKET} /run/other.sock"), strict=True):
        write(root / "etc/kubernetes" / name, text)
    options = {runtimes.ENDPOINT: option, runtimes.CONFIG: "/etc/kubernetes/kubelet.yaml"}
    options[runtimes.DROP_INS] = "/etc/kubernetes/d"
    monkeypatch.setattr("cgpu.install.node.facts.programs.processes", lambda _: (Process(7, "kubelet"),))
    monkeypatch.setattr("cgpu.install.node.facts.programs.option", lambda *words: options[words[2]] or None)
    expect(node, chosen)
