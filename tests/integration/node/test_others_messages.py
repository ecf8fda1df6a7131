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

GPUS, UNKNOWN_TO_DOCKER, UNKNOWN_TO_PODMAN, NO_CDI, NO_AGENT = OTHERS


def assert_said(message: str, outcome: Outcome) -> None:
    assert outcome.returncode != 0, outcome.text
    assert is_said(message, {outcome.text}), outcome.text


def docker_run(docker: Docker, *options: str) -> Outcome:
    return call([*docker.base, "run", "--rm", "--network", "none", *options, IMAGE, "/cgpu-probe"])


def test_docker_without_the_runtime(docker: Docker) -> None:
    """docker where nobody has added the runtime."""
    unknown = docker_run(docker, "--runtime", "nope")
    if "Unknown runtime specified" in unknown.text:  # docker 20, which says it in these words
        assert unknown.returncode != 0, unknown.text
    else:
        assert_said(UNKNOWN_TO_DOCKER, unknown)


def test_docker_without_nvidias_hook(docker: Docker) -> None:
    """docker where --gpus has nothing that it could call."""
    if os.path.exists("/usr/bin/nvidia-container-runtime-hook"):
        pytest.skip("docker finds NVIDIA's hook on this machine, so it does not say that there is none")
    assert_said(GPUS, docker_run(docker, "--gpus", "all"))


def test_docker_without_cdi(docker: Docker) -> None:
    """docker where CDI is not switched on, and docker before 25, which takes the name for a path."""
    refused = docker_run(docker, "--device", "opencgpu.io/gpu=0")
    if "error gathering device information" in refused.text:
        assert refused.returncode != 0, refused.text
    else:
        assert_said(NO_CDI, refused)


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
