# SPDX-License-Identifier: Apache-2.0
"""The fake driver alone does what the NVIDIA driver does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.commands import eventually
from tests.sim.support import fields
from tests.vm.fake_driver.steps import EMPTY, PROBE, PROBE32, card, run_buffer_steps, used
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import build_fake_driver, insmod, load_driver, rmmod, unload_driver

pytestmark = pytest.mark.fake_driver("it is what is tested")

KNOBS = "/sys/module/nvidia/parameters"


@pytest.fixture(scope="module")
def with_driver(machine: Machine) -> Iterator[Machine]:
    """Return the machine with two cards."""
    load_driver(machine, cards="T4:2")
    yield machine
    unload_driver(machine)


@pytest.fixture
def loaded(with_driver: Machine) -> Iterator[Machine]:
    """Return the machine with two cards; the test that leaves something on one of them fails."""
    yield with_driver
    eventually(lambda: all(EMPTY in card(with_driver, index) for index in (0, 1)), "both cards empty")


def knob(machine: Machine, name: str, value: str) -> None:
    """Set a module parameter for tests."""
    machine.shell('echo "$2" >"$1"', f"{KNOBS}/{name}", value)


def test_dma_buf(loaded: Machine) -> None:
    """A dma-buf holds the memory until it is closed."""
    done = run_buffer_steps(loaded, "gpu=1", "alloc=4M", "dmabuf", "rm-free", "used", "dmabuf-close", "used")
    assert used(done) == [4 << 20, 0]


def test_killed_process(loaded: Machine) -> None:
    """The end of a process gives everything back."""
    process = loaded.start([loaded.seen(uvm_probe()), "alloc=1G", "dmabuf", "hold=100"])
    process.await_output("dmabuf status=0x0")
    assert f" used={1 << 30} " in card(loaded)
    process.kill()
    process.wait()


def test_deferred_close(loaded: Machine) -> None:
    """A close that a kernel thread finishes gives back as much."""
    knob(loaded, "defer_close", "1")
    loaded.run([loaded.seen(PROBE), "alloc=1G", "exit-dirty"])
    knob(loaded, "defer_close", "0")


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        ("nv_dma_buf_export", ("alloc=1M", "expect=0x1a", "dmabuf")),
        ("os_memcpy_to_user", ("expect=0x1e", "alloc=1M")),
    ],
)
def test_failing_function(loaded: Machine, function: str, steps: tuple[str, ...]) -> None:
    """A function that is to fail fails as the driver's does, and nothing is left behind."""
    if function != "os_memcpy_to_user":
        knob(loaded, "test_fail", function)
        run_buffer_steps(loaded, *steps)
    else:
        # Copies back are part of every start of the probe, so the failure comes while it waits.
        process = loaded.start([loaded.seen(PROBE), "alloc=64K", "hold", *steps], input=None)
        process.await_output("hold")
        knob(loaded, "test_fail", function)
        assert process.finish().returncode == 0
    knob(loaded, "test_fail", "")


def test_32_bit_program(loaded: Machine) -> None:
    """A 32-bit program gets the same answers."""
    loaded.run([loaded.seen(PROBE32), "alloc=1G", "via=heap", "xfer", "alloc=1M", "dup", "info", "free=all"])


def test_in_use(loaded: Machine) -> None:
    """A driver with open files is not unloaded."""
    process = loaded.start([loaded.seen(PROBE), "alloc=1M", "hold"], input=None)
    process.await_output("hold")
    assert rmmod(loaded, "nvidia_modeset", "nvidia_uvm", check=False).returncode == 0
    assert rmmod(loaded, "nvidia", check=False).returncode != 0
    process.finish()
    folder = build_fake_driver(loaded.kernel)
    insmod(loaded, folder / "nvidia-uvm.ko")
    insmod(loaded, folder / "nvidia-modeset.ko")


def test_two_versions_do_not_mix(loaded: Machine) -> None:
    """nvidia-modeset of another version does not load."""
    rmmod(loaded, "nvidia_modeset")
    other = build_fake_driver(loaded.kernel, "999.99") / "nvidia-modeset.ko"
    assert insmod(loaded, other, check=False).returncode != 0
    insmod(loaded, build_fake_driver(loaded.kernel) / "nvidia-modeset.ko")


def test_work(loaded: Machine) -> None:
    """Channels run what is written to the card's node, when they are scheduled and not disabled."""
    steps = ("submit=20:1ms", "expect-errno=62", "drain=50ms", "schedule=1", "drain=60s", "figures")
    done = loaded.run([loaded.seen(PROBE), "idle-group=2", *steps])
    figures = next(fields(line) for line in done.stdout.splitlines() if line.startswith("figures"))
    assert (figures["completed"], figures["busy"]) == ("40", "40000000")
    held = ("submit=5:1ms", "expect-errno=62", "drain=50ms", "schedule=1", "expect-errno=62", "drain=50ms")
    loaded.run(
        [loaded.seen(PROBE32), "group", "disable", *held, "enable", "drain=60s", "slice=5", "scheduling"]
    )


def test_work_shares_the_card(loaded: Machine) -> None:
    """Two groups have their parts by their time slices, and the driver's samples name the process."""
    done = loaded.run([loaded.seen(PROBE), "group", "group", "slice=3072", "busy=2s:1ms", "samples"])
    small, large = (int(fields(line)["busy"]) for line in done.stdout.splitlines() if line.startswith("busy"))
    assert large / small == pytest.approx(3, rel=0.05)
    pid = next(fields(line)["pid"] for line in done.stdout.splitlines() if line.startswith("busy"))
    last = [fields(line) for line in done.stdout.splitlines() if line.startswith("sample ")][-3:]
    assert {sample["pid"] for sample in last} == {pid}


def test_rights_of_levers(loaded: Machine) -> None:
    """What can starve others is for those who may raise priorities; the driver's own callers may do all."""
    words = (
        "interleave=2",
        "realtime=1",
        "restart",
        "runlist-policy=1",
        "runlist-policy=0:1",
        "compute-policy=1",
    )
    loaded.run([loaded.seen(PROBE), "group", *words])
    refused = [word for name in words for word in ("expect=0x1b", name)]
    loaded.run(
        ["/usr/bin/setpriv", "--bounding-set=-sys_nice,-sys_admin", loaded.seen(PROBE), "group", *refused]
    )


def test_without_gsp(loaded: Machine) -> None:
    """Cards without that processor have no channels disabled."""
    knob(loaded, "test_without_gsp", "1")
    loaded.run([loaded.seen(PROBE), "group", "expect=0x56", "disable"])
    knob(loaded, "test_without_gsp", "0")
    loaded.run([loaded.seen(PROBE), "group", "disable", "enable"])


def test_groups_end_with_their_process(loaded: Machine) -> None:
    """A killed process leaves nothing on the runlist."""
    process = loaded.start([loaded.seen(PROBE), "group", "submit=1000:1s:0", "hold"], input=None)
    process.await_output("hold")
    process.kill()
    process.wait()
    loaded.run([loaded.seen(PROBE), "group", "submit=5:1ms", "drain=60s"])
