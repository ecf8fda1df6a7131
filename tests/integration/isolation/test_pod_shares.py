# SPDX-License-Identifier: Apache-2.0
"""Containers of pods with shares, as containerd hands them over; and who else has none by their variable."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu import paths
from tests.integration.engine import TREE, Engine
from tests.integration.isolation.test_refusals import message
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker, Podman, Runc
from tests.integration.test_slice import LIMIT
from tests.request.shares import SHARE, asking, by_containerd, put

INFO = ["/cgpu-probe", "info", "fill=1M:64k"]


@pytest.fixture(autouse=True)
def no_shares() -> Iterator[None]:
    """Leave no share's file and no reservation behind."""
    yield
    shutil.rmtree(paths.SHARES, ignore_errors=True)
    for reserved in TREE.glob("*/reserved"):
        for line in reserved.read_text().splitlines():
            (TREE / "inst_ctl").write_text(f"release id={line.split()[0]}")


def prepare(engine: Engine) -> None:
    """Do by hand what the node's agent does for a claim: reserve, and write the share's file."""
    engine.write("inst_ctl", f"reserve id={SHARE} gpu=0:{LIMIT}:1:0")
    put(Path(paths.SHARES), gpu=engine.read("0/uuid").strip(), bytes=LIMIT)


def users(engine: Engine) -> dict[str, str]:
    """Return who uses each reservation of the card."""
    lines = (line.split() for line in engine.read("0/reserved").splitlines())
    return {words[0]: words[-1] for words in lines}


@pytest.mark.enforcement
def test_a_container_has_its_share(engine: Engine, runc: Runc) -> None:
    """It sees and gets what was reserved, to the byte; the reservation outlives it, and a second start."""
    prepare(engine)
    for _ in range(2):
        place = runc.bundle({**runc.spec(INFO, asking(SHARE)), "annotations": by_containerd()})
        outcome = runc.run_bundle(place, f"pod{os.getpid()}")
        assert step(outcome, "info").number("total") == LIMIT
        had = step(outcome, "fill")
        assert (had.number("bytes"), had.number("status")) == (LIMIT, NO_MEMORY)
        engine.await_empty()
        assert users(engine) == {SHARE: "-"}
    engine.write("inst_ctl", f"release id={SHARE}")
    assert users(engine) == {}


def test_others_have_no_share(engine: Engine, docker: Docker, podman: Podman, tmp_path: Path) -> None:
    """docker and podman run with a share's variable are refused, and so is an image that has it.

    podman is, whatever annotations are given to it, as an image's would be.
    """
    prepare(engine)
    why = "shares are for containers of pods"
    assert why in message(docker.run(INFO, asking(SHARE)))
    notes = [word for key, value in by_containerd().items() for word in ("--annotation", f"{key}={value}")]
    assert why in message(podman.run(INFO, asking(SHARE), *notes))
    env = [f"{key}={value}" for key, value in asking(SHARE).items()]
    assert why in message(docker.run_image(tmp_path, INFO, {}, Env=env))
