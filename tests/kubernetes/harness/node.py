# SPDX-License-Identifier: Apache-2.0
"""The node: containerd with the runtime handler `cgpu`, its network, its images, and the kubelet."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.integration.commands import Server, call, must
from tests.integration.images import IMAGE, image_tar, oci_archive
from tests.kubernetes.harness.control_plane import NODE_ADDRESS, is_ready
from tests.kubernetes.harness.credentials import NODE, Credentials
from tests.kubernetes.harness.settings import Settings

RUNTIME_CONFIG = Path(sys.executable).parent / "cgpu-runtime-config"
CONTAINERD = Path("/etc/containerd/config.toml")
NETWORK = Path("/etc/cni/net.d/10-pods.conflist")
KUBELET = Path("/var/lib/kubelet")
SOCKET = Path("/run/containerd/containerd.sock")
#: has cgpu-probe and busybox; not of a registry, so never pulled
PROBE_IMAGE = "opencgpu.test/probe:1"
PAUSE_IMAGE = "opencgpu.test/pause:1"
SNAPSHOTTER = "overlayfs"
PAUSE = ("/busybox", "sleep", "100000000")
# A machine that is a container itself may not lower its processes' oom_score_adj.
CONTAINERD_SETTINGS = f"""version = 3

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{SNAPSHOTTER}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "{NETWORK.parent}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
# A pair of devices for each pod; the node routes between them.
NETWORK_SETTINGS = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.244.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}


@dataclass(frozen=True)
class Place:
    """Where the node's programs run, and what they find there."""

    root: Path
    programs: Path
    #: before a command, what has it run there
    enter: tuple[str, ...] = ()

    def command(self, program: str, *words: str) -> list[str]:
        return [*self.enter, str(self.programs / program), *words]

    def path(self, path: Path) -> Path:
        """Return where a path there is seen from here."""
        return self.root / path.relative_to("/")

    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.programs)} if self.enter else {}


def here(settings: Settings) -> Place:
    """Return the place beside the tests, where this checkout's runtime is containerd's."""
    return Place(Path("/"), settings.programs)


def ctr(*words: str | Path) -> None:
    must(["ctr", "--namespace", "k8s.io", *words], timeout=120)


def load(archive: Path) -> None:
    """Load an image from an archive, under the name that it has there."""
    ctr("image", "import", "--local", "--snapshotter", SNAPSHOTTER, archive)


def tag(name: str, source: str = PROBE_IMAGE) -> None:
    """Give an image a second name, for a manifest that names an image of a registry."""
    ctr("image", "tag", "--force", source, name)


def load_images(folder: Path) -> None:
    """Make the image of the probe, and load it under the names of tests and of the sandboxes."""
    load_image(folder, PROBE_IMAGE)
    tag(PAUSE_IMAGE)


def load_image(folder: Path, name: str, programs: Mapping[str, str] | None = None) -> None:
    """Load an image with the probe and busybox, and with scripts by their paths in it."""
    rootfs = folder / "rootfs"
    rootfs.mkdir(parents=True)
    shutil.copy2("/bin/busybox", rootfs)
    for place, script in (programs or {}).items():
        (rootfs / place).parent.mkdir(parents=True, exist_ok=True)
        (rootfs / place).write_text(script)
        (rootfs / place).chmod(0o755)
    load(oci_archive(image_tar(folder), folder, PAUSE))
    tag(name, f"docker.io/library/{IMAGE}")


def write_network(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(NETWORK_SETTINGS))


def containerd(settings: Settings, place: Place) -> Server:
    """Return containerd, beside the tests set up as on a node where cgpu-runtime-config has run."""
    config = place.path(CONTAINERD)
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONTAINERD_SETTINGS)
    if not place.enter:
        write_network(NETWORK)
        must([RUNTIME_CONFIG, "containerd", "--config", CONTAINERD])
    command = place.command("containerd", f"--config={CONTAINERD}")
    log = settings.logs / "containerd.log"
    serves = ["ctr", "version"]
    return Server("containerd", command, log, lambda: call(serves).returncode == 0, place.environment())


def kubelet_settings(settings: Settings) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": settings.cgroup,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "maxPods": 500,
        "nodeStatusUpdateFrequency": "2s",
        # Also the longest time until the kubelet tries a pod again that did not start; a minute unless said.
        "syncFrequency": "5s",
        # A node may have a read-only /usr.
        "volumePluginDir": str(KUBELET / "volume-plugins"),
        # A machine whose disk is nearly full is not the matter here.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "featureGates": dict.fromkeys(settings.features, True),
    }


def kubelet(settings: Settings, credentials: Credentials, place: Place) -> Server:
    # Any place has this folder.
    config, kubeconfig, authority = (KUBELET / name for name in ("config.yaml", "kubeconfig", "ca.crt"))
    config.write_text(yaml.safe_dump(kubelet_settings(settings)))
    shutil.copyfile(credentials.authority, authority)
    given = credentials.path("kubelet").read_text()
    kubeconfig.write_text(given.replace(str(credentials.authority), str(authority)))
    flags = [
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_ADDRESS}",
        "--node-labels=opencgpu.io/node=install",
    ]
    serves = is_ready("http://127.0.0.1:10248/healthz")
    command = place.command("cluster", "kubelet", *flags)
    return Server("kubelet", command, settings.logs / "kubelet.log", serves, place.environment())
