# SPDX-License-Identifier: Apache-2.0
"""The emulators of processors, and what each takes for a small machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Emulator:
    """A program, the options of processor and board, and the name of the board's serial line."""

    program: str
    package: str
    options: tuple[str, ...]
    console: str


EMULATORS = {
    # A plain model, with what finds a module's wrong access to user memory. All that newer ones have is dear
    # to emulate: a guest of "max" takes half as much time again. No devices that take time to find; the older
    # chipset's interrupt routing costs a second.
    "x86_64": Emulator(
        "qemu-system-x86_64",
        "qemu-system-x86",
        ("-cpu", "Nehalem,+smap,+smep", "-machine", "q35,i8042=off,hpet=off,usb=off,vmport=off,smm=off"),
        "ttyS0",
    ),
    # The same here: PAN is what finds such access.
    "aarch64": Emulator(
        "qemu-system-aarch64", "qemu-system-arm", ("-cpu", "cortex-a76", "-machine", "virt"), "ttyAMA0"
    ),
}
