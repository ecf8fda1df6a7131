# SPDX-License-Identifier: Apache-2.0
"""The messages of container engines that the page on troubleshooting has are what they really say."""

from __future__ import annotations

import os
import socket

import pytest

from cgpu import paths
from tests.integration.commands import Outcome, call
from tests.integration.engine import Engine
from tests.integration.images import IMAGE
from tests.integration.runtimes import Docker, Runtime
from tests.integration.test_slice import SLICE
from tests.test_troubleshooting import OTHERS, is_said

GPUS, UNKNOWN_TO_DOCKER, UNKNOWN_TO_PODMAN, NO_AGENT = OTHERS


def assert_said(message: str, outcome: Outcome) -> None:
    assert outcome.returncode != 0, outcome.text
    assert is_said(message, {outcome.text}), outcome.text


def test_docker(docker: Docker) -> None:
    """docker without NVIDIA's hook, and docker without the runtime."""
    run = [*docker.base, "run", "--rm", "--network", "none"]
    unknown = call([*run, "--runtime", "nope", IMAGE, "/cgpu-probe"])
    if "Unknown runtime specified" not in unknown.text:  # as docker 20 has it
        assert_said(UNKNOWN_TO_DOCKER, unknown)
    if os.path.exists("/usr/bin/nvidia-container-runtime-hook"):
        pytest.skip("this machine has NVIDIA's hook")
    assert_said(GPUS, call([*run, "--gpus", "all", IMAGE, "/cgpu-probe"]))


def test_podman() -> None:
    """podman without the runtime."""
    assert_said(UNKNOWN_TO_PODMAN, call(["podman", "--runtime", "nope", "run", "--rm", "none"]))


def test_nobody_listens(engine: Engine, runc: Runtime) -> None:
    """runc, where nobody listens at cgpud's socket."""
    away = paths.SECCOMP_SOCKET + ".away"
    os.rename(paths.SECCOMP_SOCKET, away)
    try:
        with socket.socket(socket.AF_UNIX) as closed:
            closed.bind(paths.SECCOMP_SOCKET)
        assert_said(NO_AGENT, runc.run(["/cgpu-probe", "info"], SLICE))
    finally:
        os.rename(away, paths.SECCOMP_SOCKET)
