# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's open kernel driver, built for a kernel before the first test: loaded, unloaded.

It comes from Debian's source package, or was built elsewhere and put into kmod/build/vm.

The driver finds a PCI card made in software (hardware/pci_card.c). Without firmware that card cannot be
started. With the fake GSP (hardware/gsp.c) it starts: the driver's resource manager then runs as on a card,
and its requests to the GSP are answered, and kept for tests to read. The firmware it loads then is an image
without code (firmware.py). UVM has its channels, whose semaphores a fake copy engine releases
(hardware/copy_engine.c): UVM_REGISTER_GPU, external mappings and migration work, and nothing is copied.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import hold_lock
from tests.nvidia import archive
from tests.nvidia.archive import NotInArchiveError, Release
from tests.vm.harness.kernels import Kernel, flavour
from tests.vm.harness.machine import Machine
from tests.vm.harness.store import ROOT, STORE, digest, run_make
from tests.vm.nvidia.firmware import image
from tests.vm.nvidia.hardware.layouts import DATA, value_at
from tests.vm.programs import build

HARDWARE = ROOT / "tests" / "vm" / "nvidia" / "hardware"
# 128 MiB that the kernel leaves to the card (hardware/pci_card.c).
BOOT_ARGUMENTS = ("memmap=128M$0x70000000",)
BUILD_SECONDS = 1500
MODULES = ("nvidia", "nvidia-uvm")
# Settings without the driver's work that needs a copy engine, and without its own tests of the card.
REGISTRY = "RMDisableScrubOnFree=1;RmDisableGlobalCeUtils=1"
PARAMETERS = f"NVreg_RegistryDwords={REGISTRY}"
# Settings by which UVM writes into memory of the machine, where the fake copy engine finds it.
UVM_PARAMETERS = ("uvm_channel_gpfifo_loc=sys", "uvm_channel_gpput_loc=sys", "uvm_channel_pushbuffer_loc=sys")
ORDERS = "/proc/opencgpu_gsp"
ORDER = re.compile(
    r"time=(?P<time>\d+) command=0x(?P<command>\w+) client=0x(?P<client>\w+) object=0x(?P<object>\w+) "
    r"bytes=\d+ params=(?P<params>\w*)"
)
# Debian's kernel 6.1 has come to have a fourth argument; these drivers know three.
RESIZE = "pci_resize_resource(pci_dev, NV_GPU_BAR1, requested_size)"
FILES_OF_HARDWARE = tuple(f"opencgpu_{name}.ko" for name in ("pci_card", "gsp", "copy_engine"))


CARD_BYTES = 15109 << 20  # as gsp_answers.c says
KEEP_STARTED = """
"$1" /run/nvidia-keeper </dev/null >/dev/null 2>&1 &
until [ -s /run/nvidia-keeper ]; do kill -0 $!; /bin/busybox sleep 0.05; done
echo >/proc/opencgpu_card
"""
UNLOAD = """
if [ -s /run/nvidia-keeper ]; then
	keeper=$(cat /run/nvidia-keeper)
	kill "$keeper"
	while kill -0 "$keeper" 2>/dev/null; do /bin/busybox sleep 0.05; done
	rm /run/nvidia-keeper
fi
for name in opencgpu_copy_engine nvidia_uvm nvidia opencgpu_gsp opencgpu_pci_card; do
	[ ! -d /sys/module/$name ] || /bin/busybox rmmod $name
done
rm -rf /dev/nvidia*
"""


@dataclass(frozen=True)
class Order:
    """A control that the driver has handed to its GSP."""

    time: int  # nanoseconds of the guest's monotonic clock
    command: int
    client: int
    object: int
    params: bytes  # without the zeroes at the end

    def number(self, at: int, size: int = 4) -> int:
        return int.from_bytes(self.params[at : at + size], "little")

    def numbers(self, at: int, count: int) -> tuple[int, ...]:
        """Return so many numbers of four bytes that stand one behind the other."""
        return tuple(self.number(at + 4 * i) for i in range(count))


def _suit_kernel(source: Path, kernel: Kernel) -> None:
    """Change what the driver's sources call that this kernel has otherwise."""
    headers = [kernel.build / "include/linux/pci.h", *kernel.build.glob("source/include/linux/pci.h")]
    common = re.sub(r"-amd64$", "-common", str(kernel.build.resolve()))
    headers.append(Path(common) / "include/linux/pci.h")
    text = next(path.read_text() for path in headers if path.is_file())
    if re.search(r"pci_resize_resource\([^)]*int exclude_bars\)", text):
        file = source / "nvidia" / "nv-pci.c"
        file.write_text(file.read_text().replace(RESIZE, RESIZE.replace(")", ", 0)")))


def _unpack(release: Release, work: Path, kernel: Kernel) -> Path:
    """Unpack the driver's sources; return the folder with its Makefile."""
    package = archive.package("nvidia-open-kernel-source", release.debian)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tarball = package / "usr/src/nvidia-open-kernel.tar.xz"
    subprocess.run(["tar", "-C", str(work), "-xf", str(tarball)], check=True)
    source = work / "modules" / "nvidia-open-kernel"
    _suit_kernel(source, kernel)
    return source


def driver_folder(kernel: Kernel, version: str) -> Path:
    """Return the folder that has the modules of a version, wherever they were built, or is to have them."""
    return STORE / f"nvidia-{version}-{flavour(kernel)}"


def built_versions(kernel: Kernel) -> list[str]:
    """Return the versions of the driver that are built for a kernel."""
    pattern = driver_folder(kernel, "*").name
    before, after = pattern.split("*")
    found = (path.name.removeprefix(before).removesuffix(after) for path in STORE.glob(pattern))
    return sorted(version for version in found if re.fullmatch(r"[\d.]+", version))


def built_driver(kernel: Kernel, version: str) -> Path:
    """Return the folder with the modules of a version. Raises NotInArchiveError where nobody has built it."""
    folder = driver_folder(kernel, version)
    if not folder.exists():
        debian = ", ".join(each.version for each in archive.RELEASES)
        raise NotInArchiveError(
            f"{version}: not built for {kernel.release}; expected nvidia.ko and nvidia-uvm.ko in {folder}, "
            f"or one of {debian} after: CGPU_VM_DRIVER=VERSION .venv/bin/python -m tests.vm.prepare"
        )
    return folder


def build_driver(kernel: Kernel, version: str) -> Path:
    """Return the folder with the driver's modules; built at most once for a kernel, in two to four minutes.

    Raises NotInArchiveError where it is not there, and Debian's archive has not its sources.
    """
    output = driver_folder(kernel, version)
    if version not in [each.version for each in archive.RELEASES]:
        return built_driver(kernel, version)
    with hold_lock(STORE / f"{output.name}.lock"):
        if not output.exists():
            release = archive.release(version)
            work = STORE / f".{output.name}.build"
            source = _unpack(release, work, kernel)
            objects = kernel.build.resolve()
            folders = (
                [f"SYSSRC={objects}", f"SYSOUT={objects}"]
                if kernel.debug
                else [f"KERNEL_UNAME={kernel.release}"]
            )
            words = ["modules", *folders, f"NV_KERNEL_MODULES={' '.join(MODULES)}"]
            run_make(source, *words, timeout=BUILD_SECONDS)
            part = work / "modules-stripped"
            part.mkdir()
            for name in MODULES:
                # Nine tenths of it tell a debugger of the driver's core.
                command = [
                    "strip",
                    "--strip-debug",
                    "-o",
                    str(part / f"{name}.ko"),
                    str(source / f"{name}.ko"),
                ]
                subprocess.run(command, check=True)
            part.rename(output)
            shutil.rmtree(work)
    return output


def build_hardware(kernel: Kernel) -> Path:
    """Return the folder with the modules that take the place of hardware."""
    names = ("nvidia.json", "controls.json", "classes.json", "fields.h", "generate.py")
    tables = (ROOT / "kmod/abi" / name for name in names)
    sources = sorted([*HARDWARE.iterdir(), *tables])
    name = digest(path.read_bytes() for path in sources if path.is_file())
    output = STORE / f"hardware-{flavour(kernel)}-{name}"
    with hold_lock(STORE / f"hardware-{flavour(kernel)}.lock"):
        if not all((output / file).exists() for file in FILES_OF_HARDWARE):
            run_make(HARDWARE, f"KDIR={kernel.build}", f"OUT={output}", timeout=BUILD_SECONDS)
    return output


def _insmod(machine: Machine, module: Path, *parameters: str) -> None:
    machine.run(["/bin/busybox", "insmod", machine.seen(module), *parameters])


def put_card_in(machine: Machine) -> None:
    """Put the card in; the machine must have been booted with BOOT_ARGUMENTS."""
    _insmod(machine, build_hardware(machine.kernel) / "opencgpu_pci_card.ko")


def load_needed(machine: Machine) -> None:
    """Load the kernel's own modules that the driver's need, where they are modules."""
    machine.shell("/sbin/modprobe -a drm drm_kms_helper 2>/dev/null || true")


def load(machine: Machine, version: str) -> None:
    modules = built_driver(machine.kernel, version)
    load_needed(machine)
    _insmod(machine, modules / "nvidia.ko", PARAMETERS)
    _insmod(machine, modules / "nvidia-uvm.ko", *UVM_PARAMETERS)


def put_gsp_in(machine: Machine, version: str) -> None:
    """Have a fake GSP, by which a driver that is loaded then starts the card; and a witness of its memory."""
    for name, data in firmware_files(version).items():
        machine.write_file(name, data)
    _insmod(machine, build_hardware(machine.kernel) / "opencgpu_gsp.ko", f"total={CARD_BYTES}")


def put_copy_engine_in(machine: Machine) -> None:
    """Have a fake copy engine, by which UVM can register the card. The driver's modules must be there."""
    _insmod(machine, build_hardware(machine.kernel) / "opencgpu_copy_engine.ko")


def keep_started(machine: Machine) -> None:
    """Keep the card started, and known to UVM, as nvidia-persistenced does; its device nodes must be there.

    Memory that the driver and UVM take for themselves is no container's.
    """
    machine.shell(KEEP_STARTED, machine.seen(build("keeper")), timeout=60)


def unload(machine: Machine) -> None:
    machine.shell(UNLOAD, timeout=60)


def orders(machine: Machine) -> list[Order]:
    """Return the controls that the driver has handed to its GSP since `forget_orders`."""
    return parse_orders(machine.read_file(ORDERS).decode())


def forget_orders(machine: Machine) -> None:
    """Begin anew."""
    machine.shell(f"echo >{ORDERS}")


def firmware_files(version: str) -> Mapping[str, bytes]:
    name = value_at(json.loads(DATA.read_text())["names"]["firmware"], version)
    return {f"/lib/firmware/nvidia/{version}/{name}.bin": image(version)}


def parse_orders(text: str) -> list[Order]:
    """Read what the fake GSP tells. Fails where it has lost some."""
    first, *lines = text.splitlines()
    assert first.endswith("lost=0"), first
    found = [ORDER.fullmatch(line) for line in lines]
    assert all(found), text
    return [
        Order(
            int(each["time"]),
            int(each["command"], 16),
            int(each["client"], 16),
            int(each["object"], 16),
            bytes.fromhex(each["params"]),
        )
        for each in found
        if each
    ]
