# SPDX-License-Identifier: Apache-2.0
"""cgpu run where no engine runs: it starts one, which lives as long as runs need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.commands import call, eventually
from tests.integration.conftest import Start
from tests.integration.engine import CGPUD, MIB, Engine
from tests.integration.images import PROBE
from tests.integration.probe import step
from tests.integration.run.test_run import GIB, READY, groups, outlives_its_run, rest, run, running

ALONE = ("--simulate", "T4", "--mem", "1G")
END_S = 120


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Each test begins and ends without an engine."""
    assert not Engine.serves()
    yield
    eventually(lambda: call([CGPUD, "--status"]).returncode != 0, "the engine has ended", END_S)
    Engine.assert_nothing_left()


def test_next_run_takes_the_same() -> None:
    """A run has exactly its slice; others share its engine, which knows what it has promised."""
    large = ["--simulate", "T4", "--mem", "14G"]
    with running("/bin/sh", "-c", READY, PROBE, "info", options=large) as process:
        first = Engine.status()
        assert first["transient"] is True
        refused = run("/bin/true", options=ALONE)
        assert refused.returncode == 125
        assert "773 MiB of 15109 MiB" in refused.stderr
        fits = run(PROBE, "info", "fill=1M:64k", "expect=0x51", "alloc=64K:64k", options=["--mem", "700M"])
        assert fits.returncode == 0, fits.text
        assert step(fits, "info").number("total") == 700 * MIB
        assert step(fits, "fill").number("bytes") == 700 * MIB
        assert Engine.status()["pid"] == first["pid"]
        assert step(rest(process), "info").number("total") == 14 * GIB


def test_many_at_once() -> None:
    """One of many runs that begin at the same time starts the engine."""
    options = ["--simulate", "T4", "--mem", "64M"]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda number: run("/bin/echo", str(number), options=options), range(10)))
    assert [outcome.text for outcome in outcomes] == [f"{number}\n" for number in range(10)]
    assert groups() == []


def test_one_after_the_other() -> None:
    """A run that begins while the last one's engine ends gets an engine all the same."""
    for _ in range(2):
        assert run("/bin/true", options=ALONE).returncode == 0
        eventually(lambda: not Engine.serves(), "the engine ends", END_S)


def test_killed_run() -> None:
    """When cgpu run is killed the engine stays until the command has ended."""
    outlives_its_run(ALONE)
    eventually(lambda: call([CGPUD, "--status"]).returncode != 0, "the engine has ended", END_S)
    for group in groups():
        os.rmdir(group)


def test_engine_of_the_node(start: Start) -> None:
    """An engine that ran before is used as it is, and goes on; other cards than its own are refused.

    Without one a model that there is not is refused before anything is started.
    """
    engine = start("T4")
    before = engine.pid()
    assert run("/bin/true", options=ALONE).returncode == 0
    other = run("/bin/true", options=["--simulate", "V100", "--mem", "1G"])
    assert (other.returncode, other.stderr) == (
        125,
        "cgpu run: --simulate V100: the engine that runs has --simulate T4; leave the option out\n",
    )
    assert (engine.pid(), engine.status()["transient"]) == (before, False)
    engine.stop()
    wrong = run("/bin/echo", "ran", options=["--simulate", "T5", "--mem", "1G"])
    assert (wrong.returncode, wrong.stdout) == (125, "")
    assert wrong.stderr.startswith("cgpu run: --simulate T5: there is no such model")


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU, which would be used")
def test_no_card() -> None:
    """Without a GPU, and with no simulated one asked for, nothing runs, and the line says why."""
    outcome = run("/bin/echo", "ran")
    assert (outcome.returncode, outcome.stdout) == (125, "")
    assert outcome.stderr.startswith(
        "cgpu run: no engine runs, and none can be started: cgpud: /dev/nvidiactl: "
    )
    assert "load the NVIDIA driver" in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_installed_engine_that_is_stopped(tmp_path: Path) -> None:
    """An engine that the node has a service for is not started behind its back."""
    script = (
        "import sys; from cgpu import paths; from cgpu.run.main import main; "
        f"paths.SYSTEMD = {str(tmp_path)!r}; paths.UNITS = ({str(tmp_path)!r},); "
        "sys.exit(main(['--mem', '1G', '--', 'true']))"
    )
    python = Path(CGPUD).parent / "python"
    outcome = call([python, "-c", script])
    assert (outcome.returncode, outcome.stderr) == (
        125,
        (
            "cgpu run: the engine is not running, so containers with a GPU slice cannot start; "
            "start it: systemctl start cgpud\n"
        ),
    )
