# SPDX-License-Identifier: Apache-2.0
"""A program: a running dockerd takes the runtime as its default, and lets go of it; its containers live on.

Run by test_install.py as install_trial.py is. No systemd runs where tests do: a script does of systemctl what
docker needs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.integration.commands import Server, call, eventually, must
from tests.integration.engine import CGPU
from tests.integration.images import IMAGE, image_tar

SETTINGS = Path("/etc/docker/daemon.json")
BEFORE = '{"debug": false}\n'
PID = "/run/dockerd-trial.pid"
SYSTEMCTL = f"""#!/bin/sh
case "$1 $2" in
"try-reload-or-restart docker") kill -HUP "$(cat {PID})" ;;
is-*) exit 3 ;;
esac
"""


def default_runtime() -> str:
    return call(["docker", "info", "--format", "{{.DefaultRuntime}}"]).stdout.strip()


def main() -> None:
    Path("/run/systemd/system").mkdir(parents=True)
    systemctl = Path("/usr/local/sbin/systemctl")
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text(BEFORE)
    folder = Path(tempfile.mkdtemp())
    options = ["--iptables=false", "--bridge=none", "--storage-driver=vfs", "--data-root", f"{folder}/docker"]
    command, log = ["dockerd", *options, "--pidfile", PID], folder / "log"
    server = Server("dockerd", command, log, lambda: default_runtime() == "runc").start()
    try:
        image_tar(folder)
        must(["docker", "import", folder / "image.tar", IMAGE], timeout=120)
        program = ["-v", "/bin/busybox:/busybox:ro", IMAGE, "/busybox", "sleep", "600"]
        must(["docker", "run", "-d", "--name", "neighbour", "--network", "none", *program])
        must([CGPU, "install", "--engine", "daemon", "--runtimes", "docker", "--default-runtime"])
        eventually(lambda: default_runtime() == "cgpu", "the new default is in force")
        must(["docker", "create", "--name", "left", IMAGE, "/cgpu-probe"])
        said = must([CGPU, "uninstall"]).stdout
        assert "warning: docker: left with the runtime cgpu: they run on, and cannot be started again" in said
        eventually(lambda: default_runtime() == "runc", "the old default is in force")
        assert SETTINGS.read_text() == BEFORE
        assert "Unknown runtime specified cgpu" in call(["docker", "start", "left"]).stderr
        must([systemctl, "try-reload-or-restart", "docker"])
        eventually(
            lambda: (folder / "log").read_text().count("Got signal to reload") >= 3, "it has read them"
        )
        assert default_runtime() == "runc"
        assert server.runs
        state = must(["docker", "inspect", "-f", "{{.State.Running}}", "neighbour"])
        assert state.stdout.strip() == "true"
    finally:
        call(["docker", "rm", "-f", "neighbour"])
        server.stop()
    assert not os.path.exists("/etc/systemd/system/cgpud.service")
    print("dockerd has let go")


if __name__ == "__main__":
    main()
