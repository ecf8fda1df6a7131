# SPDX-License-Identifier: Apache-2.0
"""Another core takes over while containers run, or everything stays as it was."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.integration.probe import step
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    build_core,
    insmod,
    load_engine,
    loaded,
    read,
    real_driver,
    rmmod,
    unload_engine,
    write,
)
from tests.vm.harness.process import Process
from tests.vm.harness.slices import GIB, PROBE, Slice, clear, figures, set_knob, slice_of, view
from tests.vm.harness.store import put
from tests.vm.programs import build

pytestmark = pytest.mark.two_cpus

OLD, NEW = "cgpu_core_0_1_0", "cgpu_core_0_1_1"
ELF_LIST_AND_OWNER = 24  # bytes before the interface number in struct cgpu_km_core
STOP = "/tmp/stop"
# Calls that `park` stops: one of its allocations of card memory has been made, and waits to be told.
PIECE, STOPPED_ALLOCATIONS, STOPPED_ANSWERS = 64 << 10, 3, 1
TABLES = 64 << 10  # what the ledger charges at most for the addresses that one of these calls reserves
WORK = """
rounds=0
until [ -e "$2" ]; do
	"$1" alloc=128M info dup free alloc=64M:64k via=heap alloc=32M free=all info >/tmp/work.$$ ||
		{ cat /tmp/work.$$; exit 1; }
	rounds=$((rounds + 1))
done
echo "rounds=$rounds"
"""


def symbol_offset(module: Path, symbol: str) -> int:
    """Return where a symbol's data starts in a module's file.

    readelf's value of a symbol counts from its section. nm adds the section's address, which may be set.
    """
    table = subprocess.run(
        ["readelf", "-sSW", str(module)], capture_output=True, text=True, check=True
    ).stdout
    lines = table.splitlines()
    _, value, *_, section, _ = next(one.split() for one in lines if one.endswith(f" {symbol}"))
    row = next(one for one in lines if one.lstrip().startswith(f"[{section:>2}]"))
    return int(row.partition("]")[2].split()[3], 16) + int(value, 16)


def of_another_interface(module: Path) -> Path:
    """Return a copy of a core that says it was made for another cgpu_km."""
    at = symbol_offset(module, "this_core") + ELF_LIST_AND_OWNER
    data = bytearray(module.read_bytes())
    data[at : at + 4] = (99).to_bytes(4, "little")
    copy = module.with_name("of_another_interface.ko")
    put(copy, bytes(data))
    return copy


@pytest.fixture
def same_layout(engine: Machine) -> Path:
    """Return a core that lays out its state as the one in use does."""
    return build_core(engine, "0.1.1")


@pytest.fixture
def other_layout(engine: Machine) -> Path:
    """Return a core with another layout, which can take over from the one in use, but not give back."""
    return build_core(engine, "0.2.0", "-DCORE_VERSION=2u -DCORE_CONVERTS_FROM=1u")


@pytest.fixture
def tenants(engine: Machine) -> Iterator[tuple[Slice, Slice]]:
    pair = slice_of(engine, "first", f"0:{2 * GIB}"), slice_of(engine, "second", f"0:{2 * GIB}")
    yield pair
    engine.shell(f"touch {STOP}")
    clear(engine)
    engine.shell(f"rm {STOP}")


def upgrade(machine: Machine) -> str:
    """Ask for an upgrade; return what was the matter, nothing when it was done."""
    done = write(machine, "upgrade", "1")
    return "" if done.returncode == 0 else done.stderr.strip().rpartition(": ")[2].splitlines()[0]


def work(tenant: Slice) -> Process:
    """Allocate, ask and free in a container until told to stop."""
    seen = tenant.machine.seen(PROBE)
    return tenant.start("/bin/busybox", "sh", "-euc", WORK, "sh", seen, STOP)


def await_ends(machine: Machine, loads: list[Process]) -> None:
    """Stop work; none of it may have met a failure."""
    machine.shell(f"touch {STOP}")
    ends = [load.wait().text for load in loads]
    assert all(int(end.rpartition("rounds=")[2]) > 0 for end in ends), ends


def sums_agree(machine: Machine, total: int, spare: int = 0) -> bool:
    """Say whether an engine counts that much, and the card the same, or up to `spare` less."""
    seen = view(machine)
    return sum(seen.used.values()) == total and 0 <= total - seen.cards[0]["used"] <= spare


@pytest.mark.enforcement
def test_upgrade_under_load(engine: Machine, same_layout: Path, tenants: tuple[Slice, Slice]) -> None:
    """Cores of one layout change places under load: no call fails, no charge is lost, the old one can go."""
    held = [tenant.hold("alloc=512M") for tenant in tenants]
    assert sums_agree(engine, GIB)
    loads = [work(tenant) for tenant in tenants]
    insmod(engine, same_layout)
    versions = []
    for _ in range(count(5, 50) * 2):
        assert upgrade(engine) == ""
        versions.append(read(engine, "version").strip())
        over = tenants[0].probe("expect=0x51", "alloc=2G")
        assert over.returncode == 0, over.text
    await_ends(engine, loads)
    assert versions == ["0.1.1", "0.1.0"] * (len(versions) // 2)
    assert sums_agree(engine, GIB)
    rmmod(engine, NEW)
    for holder in held:
        holder.finish()
    assert sums_agree(engine, 0)


@pytest.mark.enforcement
def test_another_layout_takes_over_and_does_not_give_back(
    engine: Machine, other_layout: Path, tenants: tuple[Slice, Slice]
) -> None:
    """A core that can read the state gets it with all charges and counters; one that cannot is refused."""
    held = [tenant.hold("alloc=512M") for tenant in tenants]
    tenants[0].probe("expect=0x51", "alloc=2G").check()
    loads = [work(tenant) for tenant in tenants]
    engine.shell("echo 5000 >/sys/module/cgpu_km/parameters/upgrade_timeout_ms")
    insmod(engine, other_layout)
    assert upgrade(engine) == ""
    assert read(engine, "version") == "0.2.0\n"
    over = tenants[0].probe("expect=0x51", "alloc=2G")
    assert upgrade(engine) == "Protocol error"
    assert read(engine, "version") == "0.2.0\n"
    await_ends(engine, loads)
    assert over.returncode == 0, over.text
    assert sums_agree(engine, GIB)
    # One by each core.
    assert " refused_limit=2 " in read(engine, "0/first/stat")
    rmmod(engine, OLD)
    for holder in held:
        holder.finish()
    assert sums_agree(engine, 0)


def parked(machine: Machine, tenant: Slice) -> Process:
    """Have a call that sleeps in the driver until the knob is back at 0."""
    call = tenant.start(PROBE, "info", "hold=1", "alloc=512M", "info", "hold")
    call.await_output("info ")
    set_knob(machine, "test_sleep_ms", 100_000)
    eventually(lambda: view(machine).used[0, tenant.name] == 512 << 20, "the call is under way", 20)
    return call


@pytest.mark.fake_driver("a knob of the driver")
def test_parked_call_ends_in_the_core_it_began_in(
    engine: Machine, same_layout: Path, tenants: tuple[Slice, Slice]
) -> None:
    """With one layout a sleeping call does not hinder an upgrade, keeps its core, and ends well."""
    call = parked(engine, tenants[0])
    insmod(engine, same_layout)
    assert upgrade(engine) == ""
    refused = rmmod(engine, OLD, check=False)
    set_knob(engine, "test_sleep_ms", 0)
    call.await_output("alloc ")
    assert refused.returncode != 0
    eventually(lambda: rmmod(engine, OLD, check=False).returncode == 0, "the old core goes", 20)
    assert sums_agree(engine, 512 << 20)
    call.stop()
    assert step(call.finished(), "alloc").number("status") == 0


def test_memory_that_stops_calls_hinders_no_upgrade(engine: Machine, other_layout: Path) -> None:
    """Calls that wait for their caller's memory hinder no other layout, and go on under it."""
    # Counted pages replace the estimate by the driver's own figure, which is none so far.
    tables = 0 if real_driver() else TABLES
    engine.shell("echo 1 >/proc/sys/vm/unprivileged_userfaultfd")
    tenant = slice_of(engine, "stopped", f"0:{GIB}")
    process = tenant.start(build("park"))
    process.await_output(" all\n", timeout=engine.scaled(30))
    assert view(engine).used == {(0, "stopped"): STOPPED_ANSWERS * PIECE + tables}
    insmod(engine, other_layout)
    assert upgrade(engine) == ""
    assert read(engine, "version") == "0.2.0\n"
    rmmod(engine, OLD)
    process.write("\n")
    ended = figures(process, engine.scaled(30))
    assert set(ended.values()) == {0}, ended
    assert sums_agree(engine, STOPPED_ALLOCATIONS * PIECE + tables, spare=tables)
    process.stop()
    eventually(lambda: sums_agree(engine, 0), "the charges end", engine.scaled(10))


@pytest.mark.fake_driver("a knob of the driver")
def test_parked_call_hinders_another_layout(
    engine: Machine, other_layout: Path, tenants: tuple[Slice, Slice]
) -> None:
    """With another layout a call that does not end in time refuses the upgrade, and all goes on."""
    call = parked(engine, tenants[0])
    insmod(engine, other_layout)
    assert upgrade(engine) == "Device or resource busy"
    assert read(engine, "version") == "0.1.0\n"
    set_knob(engine, "test_sleep_ms", 0)
    beside = tenants[1].probe("alloc=1G", "info")
    assert beside.returncode == 0, beside.text
    call.await_output("alloc ")
    call.stop()
    assert step(call.finished(), "alloc").number("status") == 0
    eventually(lambda: sums_agree(engine, 0), "the charge ends", 10)
    assert upgrade(engine) == ""
    assert read(engine, "version") == "0.2.0\n"


def test_refusals(engine: Machine, same_layout: Path) -> None:
    """Without another core, with one of another interface, and while in use there are refusals."""
    assert upgrade(engine) == "No such file or directory"
    assert write(engine, "upgrade", "2").returncode != 0
    assert read(engine, "upgrade") == "0\n"
    foreign = insmod(engine, of_another_interface(same_layout), check=False)
    assert foreign.returncode != 0
    assert "core 0.1.1: made for interface 99" in engine.dmesg()
    insmod(engine, same_layout)
    assert read(engine, "upgrade") == "1\n"
    assert rmmod(engine, "cgpu_km", check=False).returncode != 0
    rmmod(engine, NEW)
    assert read(engine, "version") == "0.1.0\n"


SHARE = f"share {GIB} 2 1 -\n"


def test_reservations_go_over(engine: Machine, same_layout: Path, other_layout: Path) -> None:
    """Reservations keep their core loaded as containers do, and go over to cores of any layout."""
    write(engine, "inst_ctl", f"reserve id=share gpu=0:{GIB}:2:1").check()
    assert rmmod(engine, OLD, check=False).returncode != 0
    for core, old in ((same_layout, OLD), (other_layout, NEW)):
        insmod(engine, core)
        assert upgrade(engine) == ""
        rmmod(engine, old)
        assert read(engine, "0/reserved") == SHARE
    assert rmmod(engine, "cgpu_core_0_2_0", check=False).returncode != 0
    write(engine, "inst_ctl", "release id=share").check()
    assert read(engine, "0/reserved") == ""
    assert engine.shell("cat /sys/module/cgpu_core_0_2_0/refcnt").stdout == "0\n"


def test_core_in_use_can_go_when_nobody_is_registered(engine: Machine, same_layout: Path) -> None:
    """Without containers the core in use can be unloaded, and the tree is there again with the next one."""
    insmod(engine, same_layout)
    assert upgrade(engine) == ""
    rmmod(engine, OLD)
    rmmod(engine, NEW)
    assert engine.shell("ls /proc/cgpu_km").stdout == ""
    insmod(engine, same_layout)
    eventually(lambda: "0" in engine.shell("ls /proc/cgpu_km").stdout.split(), "the GPU is back", 10)
    assert read(engine, "version") == "0.1.1\n"
    assert NEW in loaded(engine)
    unload_engine(engine)
    load_engine(engine)
