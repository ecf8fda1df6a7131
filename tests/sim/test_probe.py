# SPDX-License-Identifier: Apache-2.0
"""The probe: its words, its lines, its exit status, and work that it has simulated cards do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.sim.abi import MIB, PAGE_BIG, VIDEO, Status
from tests.sim.client import Client
from tests.sim.support import BUILD, Sim, fields


@pytest.mark.parametrize("bits", [64, 32])
def test_story(sim: Sim, bits: int) -> None:
    """A whole story in one command line, the same for 32-bit processes."""
    lines = sim.lines(
        *("count", "info=all", "alloc=64K", "alloc=3M:2m", "host=1M", "dup", "info", "free=all"),
        *("gpu=1", "alloc=1", "info", "free", "expect=0x51", "alloc=1T", "reopen", "info"),
        bits=bits,
    )
    assert fields(lines[0])["cards"] == "2"
    assert [fields(line)["used"] for line in lines if line.startswith("info")] == [
        *("0", "0", str(4 * MIB + PAGE_BIG), str(PAGE_BIG), "0")
    ]
    assert all(fields(line)["status"] in {"0x0", "0x51"} for line in lines)


@pytest.mark.parametrize("bits", [64, 32])
def test_exports(sim: Sim, bits: int) -> None:
    """Memory is exported and imported, one and in a list, and its descriptor keeps it."""
    lines = sim.lines(
        *("alloc=64K", "export", "free", "info", "import", "close-export", "info", "free", "info"),
        *("alloc=64K", "alloc=64K", "export=2", "free=all", "import=2", "close-export", "free", "info"),
        *("expect=0x3b", "import", "expect-errno=9", "take=99"),
        bits=bits,
    )
    assert [fields(line)["used"] for line in lines if line.startswith("info")] == [
        *(str(PAGE_BIG), str(PAGE_BIG), "0", str(PAGE_BIG))
    ]
    assert sim.probe("alloc=64K", "export", "close", "exit-dirty").returncode == 0
    assert sim.settles(0, 0)


def test_exit_status(sim: Sim) -> None:
    """A refusal is 3, an unexpected success too, a bad word 2, no driver 1, and an expected refusal 0."""
    assert sim.probe("alloc=1T").returncode == 3
    assert sim.probe("expect=0x51", "alloc=64K").returncode == 3
    assert sim.probe("expect=0x51", "alloc=1T").returncode == 0
    assert sim.probe("class=0x7777").returncode == 3
    for word in (
        "alloc",
        "alloc=x",
        "alloc=1:9k",
        "free=x",
        "via=x",
        "gpu=99",
        "nonsense",
        "dup=1",
        "fork=0:1",
        "hold=x",
        "export=0",
        "import=x",
        "take",
        "close-export=1",
    ):
        done = sim.probe(word)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), word
        assert f"cgpu-probe: {word}: not understood" in done.stderr
    missing = subprocess.run(
        [BUILD / "cgpu-probe", "--dev", "/nowhere", "info"], capture_output=True, timeout=20, check=False
    )
    assert missing.returncode == 1


def test_help(sim: Sim) -> None:
    """The words are listed by --help."""
    done = subprocess.run(
        [BUILD / "cgpu-probe", "--help"], capture_output=True, text=True, timeout=20, check=True
    )
    for word in ("alloc=", "fill=", "fork=", "churn=", "unshare=", "expect=", "xfer", "magic=", "hold"):
        assert word in done.stdout


@pytest.mark.parametrize(
    "kind", ["fork=4:1M", "fork=3:1M:shared", "fork=2:1M:nest", "threads=4:1M", "threads=4:1M:shared"]
)
def test_crowds(sim: Sim, kind: str) -> None:
    """Processes and threads allocate at the same time, and leave nothing."""
    lines = sim.lines(kind)
    assert len(lines) == int(kind.split("=")[1][0])
    assert {fields(line)["bytes"] for line in lines} == {str(MIB)}
    assert sim.settles(0, 0)


def test_crowd_fills_a_card_exactly(sim: Sim) -> None:
    """Four processes that take all they can get have together exactly what the card has."""
    lines = sim.lines("fork=4:8M:fill")
    assert sum(int(fields(line)["bytes"]) for line in lines) == 15104 * MIB
    assert sim.settles(0, 0)


def test_dirty_exit(sim: Sim) -> None:
    """A process that leaves without freeing anything leaves nothing behind."""
    assert sim.probe("alloc=64M", "dup", "exit-dirty").returncode == 0
    assert sim.settles(0, 0)


def test_churn(sim: Sim) -> None:
    """Under a rain of signals every call happens exactly once."""
    line = fields(sim.lines("churn=1500:64K:150", "info")[0])
    assert int(line["alarms"]) > 0
    assert int(line["granted"]) + int(line["interrupted"]) == 1500
    assert line["bytes"] == line["used"] == str(int(line["granted"]) * PAGE_BIG)


def test_own_descriptor_table(sim: Sim) -> None:
    """A thread with a descriptor table of its own works through it."""
    assert sim.probe("unshare=64K").returncode == 0


def test_hold(sim: Sim) -> None:
    """Memory is held until stdin ends, for some seconds, or until SIGTERM; then the next steps come."""
    command = sim.command("alloc=64K", "hold", "free")
    for signal in (False, True):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while process.stdout.readline() != "hold\n":
                pass
            assert sim.used() == PAGE_BIG
            if signal:
                process.terminate()
            else:
                assert process.stdin is not None
                process.stdin.close()
            assert process.stdout.readlines()[-1] == "free last count=1 status=0x0\n"
            assert process.wait(timeout=20) == 0
    assert sim.probe("alloc=64K", "hold=0.01", "free").returncode == 0


def test_probe_is_static(built: Path) -> None:
    """The probe runs in an empty image: no interpreter, no libraries."""
    for name in ("cgpu-probe", "cgpu-probe32"):
        assert b"/ld-linux" not in (built / name).read_bytes()


def test_borrow(sim: Sim) -> None:
    """Calls on another process's client go through a copy of its descriptor, and the client outlives them."""
    with sim.client() as client, (sim.mount / "nvidiactl").open() as other:
        numbers = f"{os.getpid()}:{client.ctl}:{client.handle}:{client.device}:{client.subdevice}"
        lines = sim.lines(f"dup-fd={numbers}", "info", "alloc=64K", "info")
        used = [fields(line)["used"] for line in lines if line.startswith("info")]
        assert used == ["0", str(PAGE_BIG)]
        assert sim.used() == 0
        assert client.alloc(client.device, VIDEO, client.memory(PAGE_BIG))[0] == Status.OK
        stranger = f"{os.getpid()}:{other.fileno()}:{client.handle}:{client.device}:{client.subdevice}"
        assert sim.probe(f"dup-fd={stranger}", "alloc=64K").returncode == 3


def test_channel_words(sim: Sim) -> None:
    """What is no group and no channel: the words reach the driver and tell its refusal."""
    for word in ("timeslice=1", "timeslice=1:1000", "context-bytes=1", "channel-off=1:2", "channel-on=1:2"):
        done = sim.probe(word)
        assert (done.returncode, fields(done.stdout)["status"] != "0x0") == (3, True), word
    wrong = ("dup-fd=1:2", "timeslice=x", "context-bytes=1:2", "channel-off=1", "channel-up=1:2", "timeslice")
    for word in wrong:
        assert sim.probe(word).returncode == 2, word


TIMER = 62  # ETIME


def lines(sim: Sim, start: str, *words: str, bits: int = 64) -> list[dict[str, str]]:
    """Run words, which must all go well, and return the fields of the lines that begin so."""
    return [fields(line) for line in sim.lines(*words, bits=bits) if line.startswith(start)]


@pytest.mark.parametrize("bits", [64, 32])
def test_work_is_done(sim: Sim, bits: int) -> None:
    """As many kernels as were submitted to each channel, and their time."""
    words = ("group=3", "submit=20:100us:1us", "drain=10s", "figures")
    expected = {"submitted": "60", "completed": "60", "queued": "0", "busy": "6000000"}
    assert lines(sim, "figures", *words, bits=bits)[0].items() >= expected.items()


def test_a_group_tells_its_handles(sim: Sim) -> None:
    """Those of the client, of itself and of its channels: by them others can name it."""
    told = lines(sim, "group", "group=2")[0]
    assert int(told["client"], 16) >> 20 == 0xC1D
    assert len({told["handle"], *told["channels"].split(",")}) == 3


def test_busy_groups_share_the_card(sim: Sim) -> None:
    """By their timeslices; each line has what a group got of the time."""
    told = lines(sim, "busy", "group", "group", "slice=3072", "busy=500ms:1ms")
    small, large = (int(line["busy"]) for line in told)
    assert large / small == pytest.approx(3, rel=0.1)
    assert 450e6 < small + large <= int(told[1]["elapsed"])
    assert int(told[0]["completed"]) == pytest.approx(small / 1e6, abs=2)


def test_busy_processes(sim: Sim) -> None:
    """Each has a client and a group of its own, and the same part."""
    told = lines(sim, "busy", "busy=500ms:1ms:1us:3")
    assert len({line["pid"] for line in told}) == 3
    for line in told:
        assert int(line["busy"]) / int(line["elapsed"]) == pytest.approx(0.32, abs=0.05)


def test_what_is_held_back(sim: Sim) -> None:
    """Not scheduled, taken off, or disabled: nothing ends, and what waits is done afterwards."""
    stuck = ("submit=5:10us", f"expect-errno={TIMER}", "drain=50ms")
    told = lines(
        sim,
        "figures",
        "idle-group",
        *stuck,
        "schedule=1",
        "drain=10s",
        "schedule-channel=0",
        *stuck,
        "schedule-channel=1",
        "drain=10s",
        "disable",
        *stuck,
        "schedule=1",
        *stuck[1:],
        "enable",
        "drain=10s",
        "figures",
    )
    assert (told[0]["completed"], told[0]["queued"]) == ("15", "0")


def test_rewound_work_is_lost(sim: Sim) -> None:
    """What did not begin never does."""
    told = lines(
        sim,
        "figures",
        "idle-group",
        "submit=50:10us",
        "disable=2",
        "enable",
        "schedule=1",
        "drain=10s",
        "figures",
    )
    assert (told[0]["submitted"], told[0]["completed"], told[0]["queued"]) == ("50", "0", "0")


def test_scheduling_is_read_back(sim: Sim) -> None:
    """The driver's memory of a slice, and the card's policy."""
    told = lines(
        sim,
        "slice=",
        "group",
        "slice=123",
        "scheduling",
        "properties=456",
        "compute-policy=2",
        "scheduling",
        "compute-policy=0",
    )
    assert [(line["slice"], line["compute-policy"]) for line in told] == [("123", "0"), ("123", "2")]


def test_another_clients_channel(sim: Sim, client: Client) -> None:
    """Nobody asks whose a channel is."""
    sim.lines("group", "submit=1:1us", "drain=10s", "expect=0x21", f"channel-off={client.handle}:7")


def test_words_that_need_a_group(sim: Sim) -> None:
    """Without one they are refused by the probe; what is wrong is not understood."""
    for word in (
        "submit=1:1us",
        "schedule=1",
        "slice=5",
        "preempt",
        "disable",
        "enable",
        "scheduling",
        "restart",
    ):
        assert sim.probe(word).returncode == 3, word
    wrong = (
        "submit=1",
        "submit=1:1h",
        "submit=:1us",
        "busy=1s",
        "busy=1s:0",
        "busy=1s:1ms:1:999",
        "drain",
        "drain=x",
    )
    for word in (
        *wrong,
        "group=129",
        "group=x",
        "slice",
        "scheduling=1",
        "samples=1",
        "figures=1",
        "schedule=",
        "enable=1",
    ):
        assert sim.probe(word).returncode == 2, word
