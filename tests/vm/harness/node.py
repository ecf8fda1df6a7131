# SPDX-License-Identifier: Apache-2.0
"""Work of a GPU node's administrator: load and unload the driver and the engine, make device nodes."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from cgpu import paths
from tests.integration.commands import ENFORCE, hold_lock
from tests.nvidia.archive import version_of
from tests.vm.harness import cross
from tests.vm.harness.kernels import Kernel, flavour
from tests.vm.harness.machine import Machine
from tests.vm.harness.process import Finished
from tests.vm.harness.store import ROOT, STORE, run_make
from tests.vm.nvidia import driver as nvidia

DRIVER_VERSION = "580.142"
REAL_DRIVER = "CGPU_VM_DRIVER"  # the version of NVIDIA's driver to load in place of the fake one
TREE = "/proc/cgpu_km"
ENGINES = ROOT / "kmod" / "build" / "module"
LINES = "CGPU_CFLAGS=-g1"  # the modules have numbers of lines, for tests/module/test_branches.py

RECLAIM_TENTHS = 100
AWAIT_UNUSED = """
tenths=$1; shift
while [ "$tenths" -gt 0 ]; do
	used=
	for core; do [ "$(cat /sys/module/$core/refcnt)" = 0 ] || used=1; done
	[ "$used" ] || break
	sleep 0.1
	tenths=$((tenths - 1))
done
"""

# The kernel's modules are thousands, which depmod reads each time, and none of them is needed.
FEW_MODULES = """
few=/tmp/few-modules real=/lib/modules/$(uname -r)
mkdir -p $few/updates/dkms
cp $real/modules.builtin $real/modules.order $few
cp -P $real/build $few
mount --bind $few $real
/sbin/depmod
"""
# The driver makes no nodes; on a node its own tools do.
MAKE_NODES = """
cat /proc/driver/nvidia/gpus/*/information | while read -r key value rest; do
	[ "$key $value" = "Device Minor:" ] || continue
	minor=${rest##* }
	[ -e /dev/nvidia$minor ] || mknod -m 666 /dev/nvidia$minor c 195 $minor
done
[ -e /dev/nvidiactl ] || mknod -m 666 /dev/nvidiactl c 195 255
[ -e /dev/nvidia-modeset ] || mknod -m 666 /dev/nvidia-modeset c 195 254
while read -r major name; do
	[ "$name" = nvidia-uvm ] || continue
	rm -f /dev/nvidia-uvm /dev/nvidia-uvm-tools
	mknod -m 666 /dev/nvidia-uvm c $major 0
	mknod -m 666 /dev/nvidia-uvm-tools c $major 1
done </proc/devices
"""


@cache
def make(directory: Path, output: Path, *variables: str) -> Path:
    """Run make once, alone in its output folder; a build that fails fails the test with its last lines."""
    with hold_lock(STORE / f"{output.name}.lock"):
        run_make(directory, f"OUT={output}", *variables)
    return output


def build_fake_driver(kernel: Kernel, version: str = DRIVER_VERSION, without: str = "") -> Path:
    """Build the fake NVIDIA driver; return the folder with its modules.

    `without` names functions of the driver, with commas, that this one is to lack.
    """
    output = STORE / "-".join(["fake_driver", flavour(kernel), version, *filter(None, [without])])
    # With the objects in common, each further version costs seconds.
    objects = f"OBJ={STORE / f'fake_driver-{flavour(kernel)}-obj'}"
    variables = [f"KDIR={kernel.build}", objects, f"DRIVER_VERSION={version}", f"WITHOUT={without}"]
    variables.append(f"BINUTILS={' '.join(cross.tool(''))}")
    return make(ROOT / "tests" / "vm" / "fake_driver", output, *variables)


def build_engine(kernel: Kernel) -> Path:
    """Build the engine's modules; return the folder with them."""
    return make(ROOT / "kmod" / "module", ENGINES / flavour(kernel), f"KDIR={kernel.build}", LINES)


def build_core(machine: Machine, version: str, flags: str = "") -> Path:
    """Build another version of the core, for the engine that is loaded; return its module."""
    output = STORE / f"core-{version}-{flavour(machine.kernel)}"
    symbols = build_engine(machine.kernel) / "Module.symvers"
    variables = [f"KDIR={machine.kernel.build}", f"CGPU_SYMBOLS={symbols}"]
    variables += [f"CGPU_VERSION={version}", f"CGPU_CFLAGS={flags}"]
    built = make(ROOT / "kmod" / "module", output, *variables)
    return built / f"cgpu_core_{version.replace('.', '_')}.ko"


def insmod(machine: Machine, module: Path | str, *parameters: str, check: bool = True) -> Finished:
    """Load a module that lies on the host (a Path) or in the guest (a text)."""
    path = machine.seen(module) if isinstance(module, Path) else module
    return machine.run(["/bin/busybox", "insmod", path, *parameters], check=check)


def rmmod(machine: Machine, *names: str, check: bool = True) -> Finished:
    return machine.run(["/bin/busybox", "rmmod", *names], check=check)


def loaded(machine: Machine) -> list[str]:
    lines = machine.read_file("/proc/modules").decode().splitlines()
    return [line.split()[0] for line in lines]


def keep_few_modules(machine: Machine) -> None:
    """Have few of the kernel's modules at hand; modules that NVIDIA's driver needs are loaded before."""
    nvidia.load_needed(machine)
    machine.shell(FEW_MODULES)


def words(parameters: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in parameters.items()]


def real_driver() -> str | None:
    """Return the version of NVIDIA's driver that CGPU_VM_DRIVER names; None: the fake driver is meant."""
    named = os.environ.get(REAL_DRIVER)
    return version_of(named) if named else None


def load_real_driver(machine: Machine, version: str) -> None:
    """Load NVIDIA's driver, on a card in software with a fake GSP, and make its device nodes."""
    nvidia.put_card_in(machine)
    nvidia.put_gsp_in(machine, version)
    nvidia.load(machine, version)
    nvidia.put_copy_engine_in(machine)
    machine.shell(MAKE_NODES)
    nvidia.keep_started(machine)


def load_driver(
    machine: Machine,
    cards: str = "T4:1",
    version: str = DRIVER_VERSION,
    without: str = "",
    **parameters: object,
) -> None:
    """Load the fake driver with these cards, or NVIDIA's where that is tested; make its device nodes."""
    real = real_driver()
    if real is not None:
        # Tests that want more are marked fake_driver.
        assert (cards.removesuffix(":1"), version, without, parameters) == ("T4", DRIVER_VERSION, "", {})
        load_real_driver(machine, real)
        return
    folder = build_fake_driver(machine.kernel, version, without)
    insmod(machine, folder / "nvidia.ko", f"cards={cards}", *words(parameters))
    insmod(machine, folder / "nvidia-uvm.ko")
    machine.shell(MAKE_NODES)


def pass_check(machine: Machine, version: str) -> None:
    """Tell the module that check-driver has passed on a version that its table lacks."""
    machine.shell('echo "$1" >/sys/module/cgpu_km/parameters/driver_checked', version)


def unload_driver(machine: Machine) -> None:
    """Unload the driver; its nodes go with it."""
    if real_driver() is not None:
        nvidia.unload(machine)
        return
    rmmod(machine, "nvidia_uvm", "nvidia")
    machine.shell("rm -f /dev/nvidia*")


def load_engine(machine: Machine, core: Path | None = None, **parameters: object) -> None:
    """Load cgpu_km with these parameters, and a core: the one that was built with it, or another.

    Under CGPU_TEST_ENFORCE=off it enforces nothing, unless a parameter says otherwise.
    """
    if os.environ.get(ENFORCE) == "off":
        parameters = {"enforce": "N", **parameters}
    folder = build_engine(machine.kernel)
    if core is None:
        cores = sorted(folder.glob("cgpu_core_*.ko"))
        assert len(cores) == 1, (
            f"{folder}: one cgpu_core_*.ko expected, found {[path.name for path in cores]}"
        )
        core = cores[0]
    insmod(machine, folder / "cgpu_km.ko", *words(parameters))
    insmod(machine, core)


def unload_engine(machine: Machine) -> None:
    """Unload the engine, cores first, once it has seen that the last container's processes are gone."""
    cores = [name for name in loaded(machine) if name.startswith("cgpu_core_")]
    words = [str(int(machine.scaled(RECLAIM_TENTHS))), *cores]
    machine.run(["/bin/busybox", "sh", "-c", AWAIT_UNUSED, "sh", *words], timeout=120)
    rmmod(machine, *cores, "cgpu_km")


#: what an engine has of its configuration; the launcher's links outlive the folder
CONFIGURATION = f"{paths.CONFIG} {paths.RUN} {paths.LOW_LEVEL} {paths.LOW_LEVEL_PLAIN}"


def read(machine: Machine, node: str) -> str:
    return machine.read_file(f"{TREE}/{node}").decode()


def write(machine: Machine, node: str, text: str) -> Finished:
    """Make one write to a node of the tree; the result says whether it was taken."""
    return machine.run(
        ["/bin/busybox", "dd", f"of={TREE}/{node}", "bs=64k", "conv=notrunc"], input=text, check=False
    )
