# SPDX-License-Identifier: Apache-2.0
"""The driver and its cards."""

from __future__ import annotations

from cgpu import paths
from cgpu.install.checks.finding import Finding, ok, problem, skipped, warning
from cgpu.install.node.machine import Node
from cgpu.runtime_config.programs import numbers

FIRST = 515


def version(node: Node, *, allow_unknown: bool = False) -> list[Finding]:
    """Whether a driver is loaded whose calls are known."""
    driver = node.driver
    if driver.loaded is None:
        if driver.installed:
            return problem(
                "driver", "NVIDIA's driver is installed and not loaded", "modprobe nvidia nvidia-uvm"
            )
        fix = "install NVIDIA's driver; to try without a GPU: cgpud --simulate T4"
        return warning("driver", "NVIDIA's driver is not there", fix)
    row = None if node.ours.provisional else driver.rows.of(driver.loaded)
    if driver.known or row:
        by = f", by {row.file}" if row else ""
        return ok("driver", f"NVIDIA {driver.loaded}, {driver.kind}{by}")
    if numbers(driver.loaded)[:1] < (FIRST,):
        return problem(
            "driver",
            f"NVIDIA {driver.loaded}: expected a version from {FIRST} on",
            "install a newer driver",
        )
    if allow_unknown:
        return warning(
            "driver",
            f"NVIDIA {driver.loaded} is not in the table: served provisionally, where its check passes",
            "cgpu check-driver",
        )
    return problem(
        "driver",
        f"NVIDIA {driver.loaded} is not in the table of known drivers",
        "install a version of the table or a newer OpenCGPU; or run cgpu check-driver, then: "
        "cgpu config set allow_unknown_driver true --apply",
    )


def rows(node: Node) -> list[Finding]:
    """Whether the signed files with further versions count."""
    found = [
        one
        for line in node.driver.rows.problems
        for one in warning("driver-rows", f"{line}; its version is served as without it", "man cgpu-doctor")
    ]
    row = node.driver.rows.of(node.driver.loaded)
    if row and node.ours.provisional:
        fix = f"stop the containers with slices, then: {paths.config_command('restart')}"
        found += warning("driver-rows", f"{row.file}: is not in force: containers keep their layouts", fix)
    elif row and node.ours.module_loaded and not node.ours.by_row:
        fix = f"{paths.DRIVER_ANEW}; cgpu-config-apply"
        found += problem("driver-rows", f"{row.file}: is not in force: the driver was refused before it", fix)
    return found or ok("driver-rows", f"{len(node.driver.rows.rows)} versions by signed files")


def managed(node: Node) -> list[Finding]:
    """The driver's part that CUDA cannot do without."""
    if node.driver.loaded is None:
        return skipped("driver-uvm", "no driver is loaded")
    if node.driver.uvm:
        return ok("driver-uvm", "nvidia-uvm is loaded")
    return problem(
        "driver-uvm",
        "nvidia-uvm is not loaded: CUDA does not start",
        "modprobe nvidia-uvm; nvidia-modprobe -u -c=0",
    )


def firmware(node: Node) -> list[Finding]:
    """Whether the driver can divide GPU time."""
    cards = node.driver.cards
    if not cards:
        return skipped("driver-gsp", "the driver shows no card")
    without = [f"{card.bus} ({card.model})" for card in cards if card.firmware is None]
    if without:
        return warning(
            "driver-gsp",
            f"{', '.join(without)}: runs without GSP firmware, which dividing GPU time needs; memory is "
            "limited all the same",
            "load the driver with NVreg_EnableGpuFirmware=1, on Turing cards and newer",
        )
    return ok("driver-gsp", f"GSP firmware {', '.join(sorted({card.firmware or '' for card in cards}))}")


def mig(node: Node) -> list[Finding]:
    """Cards in MIG mode."""
    cards = node.driver.cards
    if not cards:
        return skipped("mig", "the driver shows no card")
    cut = [card for card in cards if card.mig]
    if cut:
        named = ", ".join(f"{card.bus} ({card.model})" for card in cut)
        fix = "; ".join(f"nvidia-smi -i {card.uuid or card.bus} -mig 0" for card in cut)
        text = f"{named}: in MIG mode, cannot be sliced"
        if len(cut) == len(cards):
            return problem("mig", text, fix)
        return warning("mig", f"{text}; the other cards can", fix)
    return ok("mig", "no card is cut by MIG")
