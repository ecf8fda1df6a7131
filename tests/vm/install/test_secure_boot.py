# SPDX-License-Identifier: Apache-2.0
"""Under Secure Boot the kernel loads the module once the key that has signed it is enrolled, as is printed.

The firmware starts Debian's signed shim, GRUB and kernel, which then takes signed modules alone.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.probe import NO_MEMORY, step
from tests.vm.conftest import Boot
from tests.vm.harness.firmware import FILES, Firmware
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import insmod
from tests.vm.harness.slices import GIB, stage
from tests.vm.harness.store import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.own_disk, pytest.mark.timeout(1200)]

# The key of dkms, the public part of which is to be enrolled.
KEY = Path("/var/lib/dkms/mok")
ONCE = "opencgpu"  # the word by which the next boot knows who has asked for the key
DOWN = "\x1b[B"
# What shim's manager of keys says, and what a person at the machine answers.
ANSWERS = (
    ("Press any key", "\r"),
    ("Enroll MOK", f"{DOWN}\r"),
    ("Continue", f"{DOWN}\r"),
    ("Enroll the key(s)?", f"{DOWN}\r"),
    ("Password:", f"{ONCE}\r"),
    # The key is in the list then. This board's firmware does not come through a reset.
    ("Reboot", ""),
)
VARIABLES = "/sys/firmware/efi/efivars"
LIBRARIES, PROGRAMS = FILES / "usr/lib/x86_64-linux-gnu", FILES / "usr/bin"
REFUSED = "Key was rejected by service"


def said_of_signatures(machine: Machine) -> str:
    """Return what an installation says of Secure Boot on the machine; nothing where it is content."""
    mount = 'modprobe efivarfs; mountpoint -q "$1" || mount -t efivarfs efivarfs "$1"'
    machine.shell(mount, VARIABLES)
    words = ("install", "--engine", "module", "--dry-run")
    said = machine.run([ROOT / ".venv/bin/cgpu", *words], check=False, timeout=200).text
    return "".join(line for line in said.splitlines(keepends=True) if "secure boot" in line)


def obey(machine: Machine, said: str) -> None:
    """Type the commands of a cure, up to the reboot."""
    make, enrol = re.findall(r"(openssl req [^;]*|mokutil --import [^;]*);", said)
    machine.shell(f"mkdir -p {KEY.parent}; {make}")
    mokutil = f"env LD_LIBRARY_PATH={machine.seen(LIBRARIES)} {machine.seen(PROGRAMS)}/{enrol}"
    machine.run(["/bin/busybox", "sh", "-euc", mokutil], input=f"{ONCE}\n{ONCE}\n")


def sign(kernel: Kernel, folder: Path, modules: Path) -> Path:
    """Sign a folder's modules with the key in a folder, as dkms does; return their folder."""
    signed = folder / modules.name
    signed.mkdir()
    for module in modules.glob("*.ko"):
        words = ("sha256", folder / "mok.key", folder / "mok.pub", module, signed / module.name)
        subprocess.run([kernel.build / "scripts/sign-file", *words], check=True, timeout=60)
    return signed


def enroll(boot: Boot, firmware: Firmware) -> None:
    """Start the machine, and have shim take the key that was asked for: it comes to no kernel."""
    machine = boot(wait=False, firmware=firmware)
    firmware.answer(ANSWERS)
    machine.close()


def test_key_of_dkms(kernel: Kernel, boot: Boot, module: Path, fake_driver: Path, tmp_path: Path) -> None:
    """Unsigned modules are refused at any time; signed ones, and the cure, go when the key is enrolled."""
    firmware = Firmware(tmp_path)
    machine = boot(firmware=firmware)
    # This machine may have a key.
    machine.shell(f"rm -f {KEY}.*")
    said = said_of_signatures(machine)
    assert "dkms has no key to sign with" in said
    obey(machine, said)
    assert f"{KEY}.pub is not enrolled: mokutil --import {KEY}.pub" in said_of_signatures(machine)
    keys = {name: machine.read_file(f"{KEY}{name}") for name in (".key", ".pub")}
    for name, data in keys.items():
        (tmp_path / f"mok{name}").write_bytes(data)
    signed = {folder: sign(kernel, tmp_path, folder) for folder in (module, fake_driver)}
    assert REFUSED in insmod(machine, signed[fake_driver] / "nvidia.ko", check=False).text
    machine.close()

    enroll(boot, firmware)
    machine = boot(firmware=firmware)
    for name, data in keys.items():
        machine.write_file(f"{KEY}{name}", data)
    assert said_of_signatures(machine) == ""
    assert REFUSED in insmod(machine, fake_driver / "nvidia.ko", check=False).text
    for folder, theirs in signed.items():
        machine.run(["mount", "--bind", machine.seen(theirs), machine.seen(folder)])
    with stage(machine) as made:
        done = made.slice("signed", GIB).probe("info", "alloc=1100M")
        assert step(done, "info").number("total") == GIB
        assert step(done, "alloc").number("status") == NO_MEMORY
