# SPDX-License-Identifier: Apache-2.0
"""Driver, engine and containers come and go in every order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.commands import eventually
from tests.integration.probe import step, steps
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    load_engine,
    loaded,
    rmmod,
    unload_engine,
    write,
)
from tests.vm.harness.process import Process
from tests.vm.harness.slices import GIB, PROBE, Slice, await_empty, create, set_knob, slice_of, view

pytestmark = pytest.mark.two_cpus

BUSY = "Resource temporarily unavailable"
CORE = "cgpu_core_0_1_0"

COPY = 'mkdir -p /tmp/modules; cp "$1"/nvidia.ko "$2"/cgpu_km.ko "$2"/cgpu_core_*.ko /tmp/modules'
BOTH_ORDERS = """
cd /tmp/modules
core=$(echo cgpu_core_*.ko)
up() { /bin/busybox insmod "$@"; }
down() { /bin/busybox rmmod "$@"; }
for round in $(seq "$1"); do
	up nvidia.ko cards=T4; up cgpu_km.ko; up $core
	[ -e /proc/cgpu_km/0/memfree ] || echo "round $round: driver first: no GPU"
	down ${core%.ko} cgpu_km nvidia
	up cgpu_km.ko; up $core; up nvidia.ko cards=T4
	tries=0
	until [ -e /proc/cgpu_km/0/memfree ] || [ $tries = 100 ]; do
		tries=$((tries + 1)); /bin/busybox sleep 0.05
	done
	[ $tries -lt 100 ] || echo "round $round: engine first: no GPU"
	down nvidia ${core%.ko} cgpu_km
	[ ! -e /proc/cgpu_km ] || echo "round $round: the tree is left"
done
"""
# Allocates and frees until a file appears; prints the number of rounds, or the failed step.
ALLOCATE = """
rounds=0
until [ -e "$2" ]; do
	"$1" alloc=64M free alloc=1M info free >/tmp/allocate.$$ || { cat /tmp/allocate.$$; exit 1; }
	rounds=$((rounds + 1))
done
echo "rounds=$rounds"
"""
STOP = "/tmp/stop"
OPEN = 'for turn in $(seq "$1"); do : <>/dev/nvidiactl; : <>/dev/nvidia0; done'
# Has copies of a process's files of the driver from a number on, as if it had been sent them.
KEEP = """
import ctypes, os, sys
process, folder = os.pidfd_open(int(sys.argv[1])), f"/proc/{sys.argv[1]}/fd"
def is_kept(fd): return os.readlink(f"{folder}/{fd}").startswith(("/dev/nvidia", "/dmabuf:"))
files = [int(fd) for fd in os.listdir(folder) if int(fd) >= int(sys.argv[2]) and is_kept(fd)]
print("kept", [ctypes.CDLL(None).syscall(438, process, fd, 0) for fd in files], flush=True)  # pidfd_getfd
sys.stdin.read()
"""


@pytest.fixture
def no_stop(machine: Machine) -> Iterator[str]:
    """Return the name of a file that is not there before and after."""
    machine.shell(f"rm -f {STOP}")
    yield STOP
    machine.shell(f"rm -f {STOP}")


def allocate(machine: Machine) -> list[str]:
    return ["/bin/busybox", "sh", "-euc", ALLOCATE, "sh", machine.seen(PROBE), STOP]


def rounds(text: str) -> int:
    assert "rounds=" in text, text
    return int(text.rpartition("rounds=")[2])


@pytest.mark.fake_driver("its modules, which are loaded by insmod alone")
def test_loads_and_unloads_in_both_orders(machine: Machine, fake_driver: Path, module: Path) -> None:
    """The engine finds the driver that is there and the one that comes, and leaves nothing when it goes."""
    machine.shell(COPY, machine.seen(fake_driver), machine.seen(module))
    before = loaded(machine)
    done = machine.shell(BOTH_ORDERS, str(count(3, 20)), timeout=280)
    assert done.text == ""
    assert loaded(machine) == before


@pytest.mark.enforcement
def test_engine_does_not_go_before_the_containers(engine: Machine) -> None:
    """While a container lives neither module can be unloaded; when it has ended both can."""
    alive = slice_of(engine, "alive")
    refused = [rmmod(engine, name, check=False) for name in (CORE, "cgpu_km")]
    over = alive.probe("expect=0x51", "alloc=2G")
    assert [BUSY in one.text for one in refused] == [True, True]
    assert over.returncode == 0, over.text
    alive.end()
    alive.await_gone()
    await_empty(engine)
    unload_engine(engine)
    load_engine(engine)


@pytest.mark.enforcement
def test_opens_under_load(engine: Machine, no_stop: str) -> None:
    """Opens inside and outside of containers all succeed while others allocate."""
    tenant, other = slice_of(engine, "tenant"), slice_of(engine, "other")
    words = ["/bin/busybox", "sh", "-euc", OPEN, "sh", str(count(500, 5000))]
    load = engine.start(other.argv(*allocate(engine)))
    outside = engine.start(words)
    inside = tenant.run(*words, timeout=200)
    outcome = outside.wait(200)
    refused = tenant.run("/bin/busybox", "sh", "-c", ": <>/dev/nvidia-modeset")
    engine.shell(f"touch {no_stop}")
    assert (inside.returncode, outcome.returncode) == (0, 0), inside.text + outcome.text
    assert "nvidia-modeset: Operation not permitted" in refused.text
    assert rounds(load.wait().text) > 0


def test_engine_comes_and_goes_under_load(engine: Machine, no_stop: str) -> None:
    """Tasks outside of containers see nothing of an engine that is loaded and unloaded under them."""
    loads = [engine.start(allocate(engine)) for _ in range(2)]
    for _ in range(count(4, 40)):
        unload_engine(engine)
        load_engine(engine)
    engine.shell(f"touch {no_stop}")
    assert all(rounds(load.wait().text) > 0 for load in loads)


@pytest.mark.enforcement
def test_left_over_tasks_stay_refused(engine: Machine) -> None:
    """A process whose container was removed is refused, not unsliced, as long as it lives."""
    tenant = slice_of(engine, "tenant")
    script = f'"{engine.seen(PROBE)}" alloc=64M hold alloc=64M; "{engine.seen(PROBE)}" info'
    left = tenant.start("/bin/busybox", "sh", "-c", script)
    left.await_output("alloc ")
    assert write(engine, "inst_ctl", "destroy id=tenant").returncode == 0
    assert not tenant.registered()
    engine.shell("kill $(pidof cgpu-probe)")
    outcome = left.wait()
    assert [one.name for one in steps(outcome)][:1] == ["alloc"]
    assert "status=0x0" not in outcome.stdout.split("\n", 1)[1], outcome.text
    assert tenant.probe("info").returncode != 0


KEPT = {
    "descriptor": ("alloc=4G",),
    "export": ("alloc=4G", "export", "free"),
    "map": ("uvm", "alloc=4G", "range=4G", "map", "rm-free"),
    "dma-buf": ("alloc=4G", "dmabuf", "rm-free"),
}
KINDS = [pytest.param(kind, marks=pytest.mark.real_driver if kind == "map" else ()) for kind in KEPT]
FIRST_EXPORTED = 100  # of the probes


def kept_outside(tenant: Slice, kind: str) -> Process:
    """Have a container take memory, and a process outside have its files; return that process."""
    machine = tenant.machine
    program = uvm_probe() if kind in ("map", "dma-buf") else PROBE
    held = tenant.start(program, *KEPT[kind], "hold=1000")
    held.await_output(KEPT[kind][-1].partition("=")[0])
    pid = machine.shell('/bin/busybox pidof "$1"', program.name).stdout.split()[-1]
    first = FIRST_EXPORTED if kind in ("export", "dma-buf") else 0
    keeper = machine.start(["/usr/bin/python3", "-c", KEEP, pid, str(first)], input=None)
    keeper.await_output("kept ", machine.scaled(60))
    return keeper


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_outlives_its_container_is_promised_to_nobody(engine: Machine, kind: str) -> None:
    """Memory that a process outside keeps, in any way, is promised to no container until it is dropped."""
    tenant = slice_of(engine, "tenant", f"0:{8 * GIB}")
    keeper = kept_outside(tenant, kind)
    eventually(lambda: view(engine).cards[0]["used"] == 4 * GIB, "it has its memory", 10)
    tenant.end()
    tenant.await_gone()
    assert view(engine).cards[0]["used"] == 4 * GIB
    refused, done = create(engine, "greedy", f"0:{12 * GIB}")
    assert done.returncode != 0
    refused.end()
    slice_of(engine, "fitting", f"0:{10 * GIB}").end()
    keeper.finish()
    await_empty(engine)
    slice_of(engine, "whole", f"0:{14 * GIB}")


@pytest.mark.real_driver
def test_engine_goes_while_uvm_holds_memory(engine: Machine) -> None:
    """Memory that UVM has for an ended container is given up with the engine, and freed without it."""
    tenant = slice_of(engine, "tenant", f"0:{8 * GIB}")
    keeper = kept_outside(tenant, "map")
    tenant.end()
    tenant.await_gone()
    unload_engine(engine)
    load_engine(engine)
    assert view(engine).cards[0]["used"] == 4 * GIB
    keeper.finish()


@pytest.mark.fake_driver("a knob of the driver")
def test_death_in_a_sleeping_call(engine: Machine) -> None:
    """A process that is killed while its call sleeps in the driver leaves no charge."""
    tenant = slice_of(engine, "tenant")
    before = tenant.start(PROBE, "info", "hold=1", "alloc=512M", "hold")
    before.await_output("info ")
    set_knob(engine, "test_sleep_ms", 2000)
    eventually(lambda: view(engine).used == {(0, "tenant"): 512 << 20}, "the call is under way", 10)
    before.kill()
    set_knob(engine, "test_sleep_ms", 0)
    before.wait()
    eventually(lambda: view(engine).used == {(0, "tenant"): 0}, "the charge ends", 10)


@pytest.mark.fake_driver("a knob of the driver")
@pytest.mark.parametrize("function", ["rm_ioctl", "os_memcpy_from_user", "os_memcpy_to_user"])
def test_failure_of_the_driver_undoes_the_charge(engine: Machine, function: str) -> None:
    """After a failure on the driver's way, card and tree agree on its memory."""
    tenant = slice_of(engine, "tenant")
    words = ["alloc=256M", "hold=1", "alloc=256M", "via=heap", "alloc=128M", "dup", "via=rm21", "alloc=64M"]
    held = tenant.start(PROBE, *words, "host=1M", "hold=1", "via=rm64", "alloc=32M", "hold")
    held.await_output("alloc ")
    set_knob(engine, "test_fail", function)
    held.await_output("host ")
    set_knob(engine, "test_fail", "")
    held.await_output("alloc 33554432")
    seen = view(engine)
    held.stop()
    # The last step is none of the failure's.
    assert step(held.finished(), "alloc", -1).number("status") == 0
    assert seen.used[0, "tenant"] == seen.cards[0]["used"] > 0
    eventually(lambda: view(engine).used == {(0, "tenant"): 0}, "the charges end", 10)


@pytest.mark.real_driver
def test_failed_duplicate_of_uvm_is_not_charged(engine: Machine) -> None:
    """A mapping that UVM could not make keeps nothing when the memory itself is freed."""
    tenant = slice_of(engine, "tenant")
    refused = ["uvm", "alloc=256M", "range=256M", "expect=0x1b", "fork-map"]
    held = tenant.start(uvm_probe(), *refused, "rm-free", "used", "hold=1000")
    held.await_output("used status")
    seen = view(engine)
    held.stop()
    assert "fork-map status=0x1b" in held.finished().text
    assert (seen.used[0, "tenant"], seen.cards[0]["used"]) == (0, 0)


def test_unload_is_complete(engine: Machine) -> None:
    """No call ever passed a probe by, as the engine itself counts."""
    unload_engine(engine)
    assert "calls went by its probe" not in engine.dmesg()
    load_engine(engine)
