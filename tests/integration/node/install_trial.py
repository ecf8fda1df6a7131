# SPDX-License-Identifier: Apache-2.0
"""A program: install, a sliced container through docker and podman, uninstall, on this machine's own paths.

Run by test_install.py in a mount namespace with layers over /etc and /var/lib and a /run of its own.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path

from tests.install.support import snapshot
from tests.integration.commands import Outcome, Server, call, eventually, must
from tests.integration.engine import CGPU, CGPUD, MIB
from tests.integration.images import IMAGE, image_tar
from tests.integration.probe import step
from tests.integration.runtimes import PODMAN_LIMITS, variables
from tests.integration.test_slice import LIMIT, SIX

PLACES = ("etc", "var/lib/cgpu", "usr/src", "usr/lib/systemd")
ENGINES = "docker,containerd,podman"
# Layers over layers cannot be.
STORAGE = """[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
"""
FOREIGN = {"log-level": "warn"}


def state() -> dict[str, object]:
    """Return all files where the installer works."""
    return {
        f"{place}/{name}": entry for place in PLACES for name, entry in snapshot(Path("/", place)).items()
    }


def check_same(before: dict[str, object]) -> None:
    """Fail with the names of all files that are not as they were."""
    now = state()
    differ = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    assert not differ, [(name, before.get(name), now.get(name)) for name in differ]


def docker(*words: str) -> Outcome:
    return call(["docker", *words])


def sliced(*words: str, name: str = "") -> Outcome:
    how = ["-d", "--name", name] if name else ["--rm"]
    return docker("run", *how, "--runtime", "cgpu", "--network", "none", *variables(SIX), IMAGE, *words)


def in_podman(folder: Path) -> Outcome:
    """Run the same through podman, and leave a container that asks for nothing."""
    must(["podman", "import", folder / "image.tar", f"localhost/{IMAGE}"], timeout=120)
    create = ["--runtime", "cgpu", "create", "--name", "left", *PODMAN_LIMITS]
    must(["podman", *create, f"localhost/{IMAGE}", "/x"])
    run = ["--runtime", "cgpu", "--cgroup-manager", "cgroupfs", "run", "--rm", *PODMAN_LIMITS]
    return call(["podman", *run, *variables(SIX), f"localhost/{IMAGE}", "/cgpu-probe", "info"])


def check_containers(folder: Path) -> None:
    """Each engine slices what asks for it, and docker runs the rest as ever."""
    assert step(sliced("/cgpu-probe", "info"), "info").number("total") == LIMIT
    assert step(in_podman(folder), "info").number("total") == LIMIT
    plain = docker("run", "--rm", "--network", "none", IMAGE, "/cgpu-probe", "--help")
    assert plain.returncode == 0, plain.text


def check_stuck() -> None:
    """While podman runs a container that it could not stop without the runtime, nothing is taken back."""
    how = ["--runtime", "cgpu", "--cgroup-manager", "cgroupfs", "run", "-d", "--name", "runs"]
    program = ["-v", "/bin/busybox:/busybox:ro", f"localhost/{IMAGE}", "/busybox", "sleep", "60"]
    must(["podman", *how, *PODMAN_LIMITS, *program])
    before = state()
    refused = call([CGPU, "uninstall"])
    assert refused.returncode == 1
    assert "podman containers with the runtime cgpu run: runs: " in refused.stderr
    check_same(before)
    must(["podman", "rm", "-f", "runs"])


def check_refusals() -> None:
    """While a sliced container runs nothing is taken back, and while it is waited for no other one starts."""
    assert sliced("/cgpu-probe", "alloc=1G", "hold=1000", name="holder").returncode == 0
    before = state()
    refused = call([CGPU, "uninstall"])
    assert refused.returncode == 1
    assert "sliced containers run: " in refused.stderr
    late = call([CGPU, "uninstall", "--drain", "--timeout", "0"])
    assert "still have a slice" in late.stderr
    check_same(before)

    done: list[Outcome] = []
    waits = threading.Thread(target=lambda: done.append(call([CGPU, "uninstall", "--drain"])))
    waits.start()
    eventually(lambda: Path("/run/cgpu-draining").exists(), "no slices are given out")
    other = sliced("/cgpu-probe", "info")
    assert other.returncode != 0
    assert "no slices are given out while OpenCGPU is removed" in other.text
    docker("rm", "-f", "holder")
    waits.join(60)
    assert done[0].returncode == 0, done[0].text
    assert "warning: podman: left with the runtime cgpu: they cannot be started" in done[0].stdout
    assert "runtime cgpu is missing" in call(["podman", "start", "left"]).text
    must(["podman", "rm", "left"])
    assert "To do: stop cgpud, which still runs: cgpud --stop" in done[0].stdout


def check_foreign_edit() -> None:
    """Settings written since the installation stay; only the runtime goes."""
    path = Path("/etc/docker/daemon.json")
    must([CGPU, "install", "--engine", "daemon", "--runtimes", "docker"])
    path.write_text(json.dumps({**json.loads(path.read_text()), **FOREIGN}, indent=4))
    out = must([CGPU, "uninstall"])
    assert "docker: takes the runtime cgpu out of /etc/docker/daemon.json" in out.stdout
    assert json.loads(path.read_text()) == FOREIGN
    path.unlink()


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    image_tar(folder)
    Path("/etc/docker").mkdir(exist_ok=True)
    Path("/etc/containers/storage.conf").write_text(STORAGE)
    before = state()
    must([CGPU, "install", "--dry-run", "--engine", "daemon", "--runtimes", ENGINES])
    check_same(before)
    said = must([CGPU, "install", "--engine", "daemon", "--runtimes", ENGINES]).stdout
    assert f"To do: start the engine, now and after each boot: {CGPUD}" in said
    installed = state()
    assert installed != before
    assert "nothing to change" in must([CGPU, "install", "--engine", "daemon", "--runtimes", ENGINES]).stdout
    check_same(installed)

    must([CGPUD, "--simulate", "T4"])
    options = ["--iptables=false", "--bridge=none", "--storage-driver=vfs", "--data-root", f"{folder}/docker"]
    command, log = ["dockerd", *options], folder / "log"
    server = Server("dockerd", command, log, lambda: docker("version").returncode == 0).start()
    try:
        must(["docker", "import", folder / "image.tar", IMAGE], timeout=120)
        check_containers(folder)
        check_stuck()
        check_refusals()
        check_same(before)
        plain = docker("run", "--rm", "--network", "none", IMAGE, "/cgpu-probe", "--help")
        assert plain.returncode == 0, plain.text
        check_foreign_edit()
        check_same(before)
    finally:
        server.stop()
        call([CGPUD, "--stop", "--force"])
    refused = call([CGPU, "install", "--engine", "module", "--runtimes", "docker"])
    assert refused.returncode == 1 or os.path.exists("/sys/module/cgpu_km")
    assert "nothing was changed" in refused.stderr
    check_same(before)
    print(f"as before; the slice had {LIMIT // MIB} MiB")


if __name__ == "__main__":
    main()
