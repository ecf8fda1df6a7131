# SPDX-License-Identifier: Apache-2.0
"""Nodes whose software brings a containerd of its own: a row for each kind.

Nothing here was tried on a real node of these kinds: the facts are those of the named sources, and the tests'
trees are made after them.
"""

from __future__ import annotations

from cgpu.runtime_config.engines.containerd import Containerd

RANCHER = "/var/lib/rancher"
SNAP = "/var/snap/microk8s"


def _rancher(name: str, programs: str, units: str) -> Containerd:
    """Return the row of k3s or RKE2, which is made of k3s: both write config.toml anew at each start.

    docs.k3s.io/advanced, "Configuring containerd"; docs.rke2.io/advanced, the same. The folders are imported
    since k3s-io/k3s pull 13680, of 2026-02; {{ template "base" . }} is known since 2023-09.
    """
    folder = f"{RANCHER}/{name}/agent/etc/containerd"
    return Containerd(
        name,
        f"{folder}/config.toml",
        is_part=True,
        folders=(f"{folder}/config-v3.toml.d", f"{folder}/config.toml.d"),
        templates={2: f"{folder}/config.toml.tmpl", 3: f"{folder}/config-v3.toml.tmpl"},
        default_setting=f"default-runtime: cgpu in /etc/rancher/{name}/config.yaml",
        state="/run/k3s/containerd",
        socket="/run/k3s/containerd/containerd.sock",
        command=("systemctl", "try-restart", units),
        search=(f"{RANCHER}/{name}/{programs}",),
    )


KINDS = (
    _rancher("k3s", "data/current/bin", "k3s*.service"),
    _rancher("rke2", "bin", "rke2-*.service"),
    # docs.k0sproject.io, "Runtime": since 1.27.1 k0s merges the folder into its own settings, and starts
    # containerd anew when a file there changes (pkg/component/worker/containerd/component.go).
    Containerd(
        "k0s",
        "/etc/k0s/containerd.toml",
        is_part=True,
        folders=("/etc/k0s/containerd.d",),
        merges=True,
        state="/run/k0s/containerd",
        socket="/run/k0s/containerd.sock",
        command=(),
        search=("/var/lib/k0s/bin",),
    ),
    # canonical/microk8s: microk8s-resources/wrappers/run-containerd-with-args fills containerd-template.toml
    # in at each start; default-args/containerd has the other places. The file is TOML, and people edit it.
    Containerd(
        "microk8s",
        f"{SNAP}/current/args/containerd-template.toml",
        is_part=True,
        folders=(),
        state=f"{SNAP}/common/run/containerd",
        socket=f"{SNAP}/common/run/containerd.sock",
        command=("snap", "restart", "microk8s.daemon-containerd"),
        search=("/snap/microk8s/current/bin",),
    ),
)
