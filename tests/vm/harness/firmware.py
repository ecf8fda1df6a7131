# SPDX-License-Identifier: Apache-2.0
"""Firmware with Secure Boot on, and what Debian starts by it: shim, GRUB, and the kernel, each signed.

The packages are fetched from the archive that apt uses here, and not installed. Their firmware has the keys
of Microsoft, which has signed Debian's shim.
"""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.integration.commands import eventually, hold_lock
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.store import STORE

PACKAGES = ("grub-efi-amd64-signed", "libefivar1", "mokutil", "ovmf", "shim-helpers-amd64-signed",
            "shim-signed")  # fmt: skip
FILES = STORE / "secure-boot"
# What the firmware starts from a disk that it does not know, and what that looks for beside it.
STARTED = {
    "BOOTX64.EFI": "shim/shimx64.efi.signed",
    "grubx64.efi": "grub/x86_64-efi-signed/grubx64.efi.signed",
    "mmx64.efi": "shim/mmx64.efi.signed",
}
SECONDS = 60.0
QUIET_S = 0.5


def fetch() -> None:
    """Have the packages' files in FILES."""
    with hold_lock(STORE / "secure-boot.lock"):
        if FILES.exists():
            return
        part = STORE / "secure-boot.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        # The archive's own user cannot write into a checkout.
        command = ["apt-get", "-q", "-oAPT::Sandbox::User=root", "download", *PACKAGES]
        subprocess.run(command, cwd=part, check=True, timeout=10 * SECONDS)
        for package in part.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, part], check=True, timeout=SECONDS)
            package.unlink()
        part.rename(FILES)


class Firmware:
    """The firmware of one machine. Its variables outlive each boot."""

    def __init__(self, folder: Path) -> None:
        fetch()
        self._disk = folder / "disk"
        self._line = folder / "line"
        self._variables = folder / "variables"
        shutil.copy(FILES / "usr/share/OVMF/OVMF_VARS_4M.ms.fd", self._variables)

    def options(self, kernel: Kernel, initramfs: Path, arguments: str, console: Path) -> list[str]:
        """Return the emulator's options, for a start from a disk that is made of a folder."""
        shutil.rmtree(self._disk, ignore_errors=True)
        # An emulator that was killed leaves it.
        self._line.unlink(missing_ok=True)
        folder = self._disk / "EFI/BOOT"
        folder.mkdir(parents=True)
        for name, source in STARTED.items():
            shutil.copy(FILES / "usr/lib" / source, folder / name)
        shutil.copy(kernel.image, self._disk / "vmlinuz")
        shutil.copy(initramfs, self._disk / "initrd")
        settings = self._disk / "EFI/debian/grub.cfg"
        settings.parent.mkdir()
        settings.write_text(f"linux /vmlinuz {arguments}\ninitrd /initrd\nboot\n")
        code = FILES / "usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
        return [
            # Only the firmware may write its variables, in the processor's own mode for that.
            "-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on",
            "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}",
            "-drive", f"if=pflash,unit=1,format=raw,file={self._variables}",
            "-drive", f"if=none,id=start,format=raw,readonly=on,file=fat:{self._disk}",
            "-device", "virtio-blk-pci,drive=start,bootindex=0",
            "-chardev", f"socket,id=line,path={self._line},server=on,wait=off,logfile={console}",
            "-serial", "chardev:line",
        ]  # fmt: skip

    def answer(self, answers: Iterable[tuple[str, str]]) -> None:
        """Press keys on the serial line, each row's after its words. Keys of the last row may be lost.

        A menu may forget keys that come before it is drawn whole: nothing more is said then.
        """
        eventually(self._line.exists, "the serial line is there")
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(SECONDS)
            line.connect(str(self._line))
            for words, keys in answers:
                said = b""
                while words.encode() not in said or select.select([line], [], [], QUIET_S)[0]:
                    more = line.recv(1 << 12)
                    assert more, f"the machine has ended before it said {words}: {said[-1000:]!r}"
                    said += more
                line.sendall(keys.encode())
