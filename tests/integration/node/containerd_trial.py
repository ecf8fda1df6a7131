# SPDX-License-Identifier: Apache-2.0
"""A program: pods through containerd's CRI before, during and after an installation.

Run by test_install.py as install_trial.py is. No systemd runs where tests do: a script does of systemctl what
containerd needs, and a shell starts it again as its unit would.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cgpu import paths, shares
from cgpu.kubernetes.node import cdi
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER
from tests.integration.commands import Outcome, Server, call, eventually, must
from tests.integration.cri import Cri, Pod, RefusedError
from tests.integration.engine import CGPU, CGPUD, MIB, Engine
from tests.integration.images import IMAGE, image_tar, oci_archive
from tests.integration.node.install_trial import check_same, state
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import attend, variables
from tests.integration.test_slice import LIMIT, SIX
from tests.request.shares import SHARE, asking, put

SOCKET = Path("/run/containerd/containerd.sock")
SETTINGS = Path("/etc/containerd/config.toml")
REFERENCE = f"docker.io/library/{IMAGE}"
# Settings of Debian's package, and those of a node that has no registry and is a container itself.
BEFORE = f"""version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "{REFERENCE}" # kept as it is
    restrict_oom_score_adj = true
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
    [plugins."io.containerd.grpc.v1.cri".containerd]
      snapshotter = "native"
"""
PID = "/run/containerd-trial.pid"
UNIT = f"while :; do containerd & echo $! >{PID}; wait; done"
SYSTEMCTL = f"""#!/bin/sh
case "$1 $2" in
"try-restart containerd")
	old=$(cat {PID})
	kill "$old"
	while [ "$(cat {PID})" = "$old" ] || ! ctr version >/dev/null 2>&1; do sleep 0.05; done ;;
is-*) exit 3 ;;
esac
"""
# Starts the first of its list, as NVIDIA's own does; it says what it was called for.
VENDOR = "/usr/local/sbin/nvidia-container-runtime"
PASSES = Path("/run/passes")
VENDOR_SETTINGS = Path("/etc/nvidia-container-runtime/config.toml")
VENDOR_BEFORE = '[nvidia-container-runtime]\nruntimes = ["runc", "crun"]\n'
VENDOR_SCRIPT = f"""#!/bin/sh
echo "$@" >>{PASSES}
exec "$(sed -n 's/^runtimes *= *\\["\\([^"]*\\).*/\\1/p' {VENDOR_SETTINGS})" "$@"
"""
UNKNOWN = 'no runtime for "cgpu" is configured'
CLOSED = "variables and annotations of a pod ask for no GPU on this node"
PAUSE = ("/busybox", "sleep", "600")


def ctr(*words: str) -> Outcome:
    return call(["ctr", *words])


@contextmanager
def containerd(folder: Path) -> Iterator[None]:
    """containerd as a service, with the probe as the image of containers and of sandboxes."""
    Path("/run/systemd/system").mkdir(parents=True)
    for place, script in (("/usr/local/sbin/systemctl", SYSTEMCTL), (VENDOR, VENDOR_SCRIPT)):
        Path(place).write_text(script)
        Path(place).chmod(0o755)
    SETTINGS.write_text(BEFORE)
    VENDOR_SETTINGS.parent.mkdir(exist_ok=True)
    VENDOR_SETTINGS.write_text(VENDOR_BEFORE)
    unit, log = ["sh", "-c", UNIT], folder / "log"
    server = Server("containerd", unit, log, lambda: ctr("version").returncode == 0).start()
    try:
        (folder / "rootfs").mkdir()
        shutil.copy2("/bin/busybox", folder / "rootfs")
        archive = oci_archive(image_tar(folder), folder, PAUSE)
        must(["ctr", "-n", "k8s.io", "image", "import", "--snapshotter", "native", archive], timeout=120)
        must(["ctr", "image", "import", "--snapshotter", "native", archive], timeout=120)
        yield
    finally:
        for task in ctr("-n", "k8s.io", "task", "ls", "-q").stdout.split():
            ctr("-n", "k8s.io", "task", "rm", "--force", task)
        server.stop()
        call(["sh", "-c", f"kill $(cat {PID})"])


def run(cri: Cri, name: str, handler: str = "", devices: Sequence[str] = (), **env: str) -> Pod:
    sandbox = cri.sandbox(name, handler)
    try:
        return cri.start(sandbox, name, REFERENCE, PAUSE, env, devices)
    except RefusedError:
        cri.remove(sandbox)
        raise


def check_plain(cri: Cri, pod: Pod) -> None:
    """A container that has no slice is alive."""
    assert cri.exec(pod, "/busybox", "true").returncode == 0


def check_unknown(cri: Cri) -> None:
    """No pod of our handler starts."""
    with pytest.raises(RefusedError, match=UNKNOWN):
        cri.sandbox("unknown", "cgpu")


def instances() -> list[str]:
    return sorted(path.name for path in Path("/run/cgpu_km/0").iterdir() if path.is_dir())


def check_slices(cri: Cri) -> None:
    """A container of a pod with our handler is sliced; its sandbox is not, nor is a pod without a request."""
    sandbox = cri.sandbox("sliced", "cgpu")
    assert instances() == []
    pod = cri.start(sandbox, "sliced", REFERENCE, PAUSE, SIX)
    assert instances() == [pod.container[:12]]
    assert step(cri.exec(pod, "/cgpu-probe", "info"), "info").number("total") == LIMIT
    over = cri.exec(pod, "/cgpu-probe", "alloc=7G")
    assert step(over, "alloc").number("status") == NO_MEMORY
    plain = run(cri, "no-request", "cgpu")
    assert instances() == [pod.container[:12]]
    check_plain(cri, plain)
    cri.remove(plain)
    cri.remove(pod)
    assert instances() == []
    with pytest.raises(RefusedError, match="MEM_CONTAINER=16: 16 is more than the whole card"):
        run(cri, "too-much", "cgpu", **{**SIX, "ALIYUN_COM_GPU_MEM_CONTAINER": "16"})
    assert instances() == []


def check_closed(cri: Cri) -> None:
    """A pod's variables ask for nothing; one that has a share gets that, and no other pod does."""
    with pytest.raises(RefusedError, match=f"=6: {CLOSED}"):
        run(cri, "asking", "cgpu", **SIX)
    uuid = Path("/run/cgpu_km/0/uuid").read_text().strip()
    Path("/run/cgpu_km/inst_ctl").write_text(f"reserve id={SHARE} gpu=0:{LIMIT}:1:0")
    put(Path(paths.SHARES), gpu=uuid, memsize=LIMIT, pods={"shared": ["shared"], "other": ["main"]})
    for _ in range(2):  # the reservation outlives a container
        pod = run(cri, "shared", "cgpu", **asking(SHARE))
        assert instances() == [pod.container[:12]]
        assert step(cri.exec(pod, "/cgpu-probe", "info"), "info").number("total") == LIMIT
        over = cri.exec(pod, "/cgpu-probe", "alloc=7G")
        assert step(over, "alloc").number("status") == NO_MEMORY
        cri.remove(pod)
        assert instances() == []
    with pytest.raises(RefusedError, match=r"it is not of a claim of this pod \(forger\)"):
        run(cri, "forger", "cgpu", **asking(SHARE))
    with pytest.raises(RefusedError, match=r"the container other does not name its claim"):
        run(cri, "other", "cgpu", **asking(SHARE))
    check_devices(cri)
    shares.remove(SHARE)
    Path("/run/cgpu_km/inst_ctl").write_text(f"release id={SHARE}")


def check_devices(cri: Cri) -> None:
    """Debian 12's containerd drops the CDI device of a share: its pod has no GPU, and doctor says why."""
    folder = Path(paths.CDI_DEVICES).parent
    cdi.publish(folder, "claim", [SHARE])
    pod = run(cri, "shared", "cgpu", [cdi.device_id(SHARE)])
    assert instances() == []
    assert "OPENCGPU" not in cri.exec(pod, "/busybox", "env").stdout
    assert cri.exec(pod, "/cgpu-probe", "info").returncode != 0
    cri.remove(pod)
    cdi.withdraw(folder, "claim")
    pods = Path("/var/lib/kubelet/pods")
    pods.mkdir(parents=True)
    findings = json.loads(call([CGPU, "doctor", "--json"]).stdout)["findings"]
    (said,) = [one for one in findings if one["name"] == "pod-devices"]
    assert said["verdict"] == "problem"
    assert said["text"].startswith("containerd 1.6.20")
    shutil.rmtree(pods.parent)


def let_pods_ask(config: Path) -> None:
    config.write_text("pod_variables: true\n")
    must(["sh", "-c", f"kill -HUP $(cat {paths.PID})"])
    eventually(lambda: json.loads(Path(paths.EFFECTIVE).read_text())["pod_variables"], "it is in force")


def check_ctr() -> None:
    """ctr's containers are sliced too, by ours and by NVIDIA's runtime, which works once in either case."""
    for runtime in (str(LAUNCHER), VENDOR):
        PASSES.unlink(missing_ok=True)
        how = ["--rm", "--snapshotter", "native", "--runc-binary", runtime, *variables(SIX)]
        sliced = attend(["ctr", "run"], [*how, REFERENCE, "by-ctr", "/cgpu-probe", "info"])
        assert step(sliced, "info").number("total") == LIMIT
        assert PASSES.read_text().split().count("create") == 1


def check_default(cri: Cri) -> None:
    """As the default runtime it slices what asks, in a pod of no handler; sandboxes pass through it too."""
    must([CGPU, "install", "--engine", "daemon", "--runtimes", "containerd", "--default-runtime"])
    plain = run(cri, "plain-by-default")
    assert instances() == []
    pod = run(cri, "by-default", **SIX)
    assert instances() == [pod.container[:12]]
    cri.remove(pod)
    cri.remove(plain)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    with containerd(folder), closing(Cri(SOCKET)) as cri:
        early = run(cri, "early")
        before = state()
        check_unknown(cri)
        must([CGPU, "install", "--engine", "daemon", "--runtimes", "containerd,nvidia"])
        config = folder / "config.yaml"
        config.write_text("{}\n")
        must([CGPUD, "--simulate", "T4", "--config", config])
        try:
            check_closed(cri)
            let_pods_ask(config)
            check_plain(cri, early)
            later = run(cri, "later", **SIX)
            check_plain(cri, later)
            check_slices(cri)
            check_ctr()
            kept = run(cri, "kept", "cgpu")
            check_default(cri)
            said = must([CGPU, "uninstall"]).stdout
            assert "warning: containerd: tests/kept with the runtime cgpu: they run on" in said
        finally:
            call([CGPUD, "--stop", "--force"])
        Engine.assert_nothing_left()
        check_same(before)
        assert SETTINGS.read_text() == BEFORE
        with pytest.raises(RefusedError, match=UNKNOWN):
            cri.start(kept, "second", REFERENCE, PAUSE, {})
        for pod in (early, later, kept, run(cri, "after")):
            check_plain(cri, pod)
            cri.remove(pod)
        check_unknown(cri)
    print(f"pods as before; the slice had {LIMIT // MIB} MiB")


if __name__ == "__main__":
    main()
