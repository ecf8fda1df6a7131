# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver comes, goes and is exchanged below the engine; and a card that does not start."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.integration.commands import eventually
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    MAKE_NODES,
    load_engine,
    load_real_driver,
    loaded,
    read,
    real_driver,
    rmmod,
    unload_driver,
    unload_engine,
    write,
)
from tests.vm.harness.slices import PROBE, await_empty, slice_of, view
from tests.vm.nvidia import driver as nvidia

pytestmark = pytest.mark.real_driver

MIB = 1 << 20
LIMIT = 1024 * MIB
SECONDS = 60.0
EXCHANGE_SECONDS = 900  # of all versions that are built
# Unloads the driver at a moment without an open file of it.
UNLOAD_BETWEEN = """
/bin/busybox sleep 1
kill $(cat /run/nvidia-keeper)
rm /run/nvidia-keeper
for name in nvidia_uvm nvidia; do
	while [ -d /sys/module/$name ]; do /bin/busybox rmmod $name 2>/dev/null || true; done
done
"""


@pytest.fixture
def version() -> str:
    found = real_driver()
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def clean(machine: Machine) -> Iterator[None]:
    """Leave neither driver nor engine behind."""
    yield
    if "cgpu_km" in loaded(machine):
        unload_engine(machine)
    unload_driver(machine)


def await_cards(machine: Machine) -> None:
    eventually(
        lambda: "memtotal" in machine.shell("ls /proc/cgpu_km/0", check=False).stdout,
        "the engine has the card",
        machine.scaled(SECONDS),
    )


def is_held(machine: Machine) -> bool:
    """Say whether a slice gets all of its memory, no byte more, and gives it back."""
    tenant = slice_of(machine, "tenant", f"0:{LIMIT}")
    done = tenant.probe("alloc=1G", "expect=0x51", "alloc=4K", "info")
    seen = view(machine)
    tenant.end()
    await_empty(machine)
    return (done.returncode, seen.cards[0]["peak"], f"total={LIMIT} free=0 " in done.stdout) == (
        0,
        LIMIT,
        True,
    )


@pytest.mark.enforcement
@pytest.mark.parametrize("order", ["driver first", "engine first"])
def test_orders(machine: Machine, version: str, order: str) -> None:
    """Whichever is loaded first, the card is there and a slice of it holds."""
    steps: list[Callable[[], None]] = [
        lambda: load_real_driver(machine, version),
        lambda: load_engine(machine),
    ]
    for step in steps if order == "driver first" else reversed(steps):
        step()
    await_cards(machine)
    assert read(machine, "0/minor") == "0\n"
    assert is_held(machine)


@pytest.mark.timeout(EXCHANGE_SECONDS)
@pytest.mark.other_drivers
def test_exchange_of_versions(machine: Machine, version: str) -> None:
    """Another version of the driver takes the place of the one before, with its own layouts."""
    others = [each for each in nvidia.built_versions(machine.kernel) if each != version]
    if not others:
        pytest.skip(
            f"no other version of NVIDIA's driver than {version} is built for {machine.kernel.release}"
        )
    load_engine(machine)
    for each in (version, *others, version):
        load_real_driver(machine, each)
        await_cards(machine)
        assert f"driver {each}: in place" in machine.dmesg()
        assert is_held(machine)
        unload_driver(machine)


def test_driver_in_use_stays(machine: Machine, version: str) -> None:
    """A driver that a container uses is not unloaded; afterwards it is, below a registration that goes on."""
    load_real_driver(machine, version)
    load_engine(machine)
    await_cards(machine)
    tenant = slice_of(machine, "tenant", f"0:{LIMIT}")
    holder = tenant.hold("alloc=256M")
    assert rmmod(machine, "nvidia_uvm", "nvidia", check=False).returncode != 0
    holder.stop()
    eventually(lambda: view(machine).cards[0]["used"] == 0, "the card has its memory back", SECONDS)
    unload_driver(machine)
    tenant.end()


def test_unloaded_under_load(machine: Machine, version: str) -> None:
    """Processes that come and go with the driver keep nothing of it, and nothing of them is left."""
    load_real_driver(machine, version)
    load_engine(machine)
    await_cards(machine)
    tenant = slice_of(machine, "tenant", f"0:{LIMIT}")
    loop = f'while :; do "{machine.seen(PROBE)}" alloc=64M free alloc=2M exit-dirty >/dev/null 2>&1; '
    loop += "/bin/busybox sleep 0.3; done"
    workers = [tenant.start("/bin/busybox", "sh", "-c", loop) for _ in range(2)]
    for _ in range(3):
        machine.shell(UNLOAD_BETWEEN, timeout=SECONDS)
        unload_driver(machine)
        # The witness takes what is used after the load as the driver's own: no worker may have memory then.
        with tenant.frozen():
            load_real_driver(machine, version)
        await_cards(machine)
    for worker in workers:
        worker.stop()
    tenant.end()
    await_empty(machine)
    assert is_held(machine)


def test_card_that_does_not_start(machine: Machine, version: str) -> None:
    """Without firmware the driver cannot start its card: the engine says so, and no slice is given."""
    load_engine(machine)
    nvidia.put_card_in(machine)
    nvidia.load(machine, version)
    machine.shell(MAKE_NODES)
    eventually(
        lambda: f"driver {version}: its GPUs cannot be sliced (error -5)" in machine.dmesg(),
        "the engine says why there is no card",
        SECONDS,
    )
    assert re.search(r"card with GPU id 0x\w+: does not start \(error -5\), and is left out", machine.dmesg())
    refused = write(machine, "inst_ctl", f"create id=tenant pid=1 gpu=0:{LIMIT}")
    assert (refused.returncode != 0, "No such file" in refused.text) == (True, True), refused.text
    # Calls that need no card work as before.
    assert f"driver={version}" in machine.run([machine.seen(PROBE), "count"], check=False).stdout
