# SPDX-License-Identifier: Apache-2.0
"""Containers that get no share of a pod by its variable. node/containerd_trial has pods with theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

from cgpu import paths
from tests.integration.commands import message
from tests.integration.engine import Engine
from tests.integration.runtimes import Docker, Podman
from tests.integration.test_slice import LIMIT
from tests.request.shares import SHARE, asking, by_containerd, put

INFO = ["/cgpu-probe", "info"]
WHY = "shares are for containers of pods"


def test_others_have_no_share(engine: Engine, docker: Docker, podman: Podman, tmp_path: Path) -> None:
    """docker and podman run with a share's variable are refused, and so is an image that has it.

    podman's refusal holds with any annotations, as an image's would be.
    """
    notes = [word for key, value in by_containerd().items() for word in ("--annotation", f"{key}={value}")]
    env = [f"{key}={value}" for key, value in asking(SHARE).items()]
    # The file of a share, by hand in place of the node's agent.
    engine.write("inst_ctl", f"reserve id={SHARE} gpu=0:{LIMIT}:1:0")
    try:
        put(Path(paths.SHARES), gpu=engine.read("0/uuid").strip(), memsize=LIMIT)
        assert WHY in message(docker.run(INFO, asking(SHARE)))
        assert WHY in message(podman.run(INFO, asking(SHARE), *notes))
        assert WHY in message(docker.run_image(tmp_path, INFO, {}, Env=env))
    finally:
        shutil.rmtree(paths.SHARES, ignore_errors=True)
        engine.write("inst_ctl", f"release id={SHARE}")
