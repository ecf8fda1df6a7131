# SPDX-License-Identifier: Apache-2.0
"""The check whether a node's containerd gives pods the devices of their claims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgpu.config.effective import Effective
from cgpu.install.checks import settings
from cgpu.install.node.facts.settings import Entry
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER
from tests.install.checks.test_checks import only_verdict
from tests.install.machine import node_report, tool


@pytest.mark.parametrize(
    ("version", "cdi", "variables", "verdict"),
    [
        ("1.6.20", None, False, "problem"),
        ("1.6.20", True, False, "problem"),
        ("1.6.20", None, True, "warning"),
        ("1.7.24", None, False, "problem"),
        ("1.7.24", True, False, "ok"),
        ("2.1.4", None, False, "ok"),
        ("2.1.4", False, False, "problem"),
        (None, None, False, "skipped"),
    ],
)
def test_devices_of_pods(
    tmp_path: Path, version: str | None, cdi: bool | None, variables: bool, verdict: str
) -> None:
    """A node of Kubernetes whose containerd drops CDI devices is refused: its pods would have no GPU."""
    now = replace(
        node_report(tmp_path, in_force=Effective(pod_variables=variables)),
        settings=(
            Entry("containerd", "/etc/containerd/config.toml", cdi=cdi),
            Entry("containerd", "/etc/containerd/conf.d/cgpu.toml", LAUNCHER),
        ),
    )
    software = replace(now.node.software, kubelet=True, engines=(tool("containerd", version),))
    now = replace(now, node=replace(now.node, software=software))
    found = settings.pod_devices(now)
    assert only_verdict(found) == verdict
    if verdict in ("problem", "warning"):
        (one,) = found
        assert one.text.endswith("containers of pods with a claim start without a GPU")
        assert ("enable_cdi = true" in one.fix) == (version != "1.6.20")
    assert only_verdict(settings.pod_devices(replace(now, settings=now.settings[:1]))) == "skipped"


@pytest.mark.parametrize(
    ("name", "place", "restart"),
    [
        (
            "k3s",
            "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d",
            "systemctl try-restart k3s*.service",
        ),
        (
            "rke2",
            "/var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d",
            "systemctl try-restart rke2-*.service",
        ),
        ("k0s", "/etc/k0s/containerd.d", ""),
        ("microk8s", "/etc/own.toml", "snap restart microk8s.daemon-containerd"),
    ],
)
def test_devices_of_pods_on_other_nodes(tmp_path: Path, name: str, place: str, restart: str) -> None:
    """A containerd that a node's software brings is looked at, and not one beside it that has no runtime."""
    entries = (
        Entry(name, "/etc/own.toml", LAUNCHER, cdi=False),
        Entry("containerd", "/etc/containerd/config.toml"),
    )
    now = node_report(tmp_path, settings=entries)
    engines = (tool("containerd", "1.6.20"), tool(name, "1.7.24"))
    software = replace(now.node.software, kubelet=True, engines=engines)
    now = replace(now, node=replace(now.node, software=software))
    (found,) = settings.pod_devices(now)
    text = f"{name}: containerd 1.7.24 has CDI off: containers of pods with a claim start without a GPU"
    fix = f"in {place}, in the table of CRI: enable_cdi = true" + (f"; {restart}" if restart else "")
    assert (found.verdict, found.text, found.fix) == ("problem", text, fix)
    on = replace(now, settings=(replace(entries[0], cdi=True), replace(entries[1], runtime=LAUNCHER)))
    assert [(one.verdict, one.text.split(" 1.")[0]) for one in settings.pod_devices(on)] == [
        ("problem", "containerd"), ("ok", f"{name}: containerd"),
    ]  # fmt: skip
