# SPDX-License-Identifier: Apache-2.0
"""A machine below a folder: the files that facts are read from, and nodes made of facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cgpu.install.node import machine as facts
from cgpu.install.node.facts.driver import Card
from cgpu.install.node.facts.software import Program
from cgpu.install.node.machine import Node
from cgpu.install.node.report import NodeReport

RELEASE = "6.1.0-56-amd64"
CARD = """Model: \t\t NVIDIA A10
IRQ:   \t\t 37
GPU UUID: \t GPU-5a1f0000-0000-0000-0000-000000000001
Video BIOS: \t 94.02.75.00.01
Device Minor: \t 0
GPU Firmware: \t 580.142
GPU Excluded:\t No
"""
OPEN_DRIVER = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release Build  (dvs-builder@U22)  x\n"
    "GCC version:  gcc version 12.2.0\n"
)
OLD_DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021\n"
OPTIONS = "CONFIG_KPROBES=y\nCONFIG_KCMP=y\nCONFIG_PROC_PAGE_MONITOR=y\n# CONFIG_X is not set\n"
UNIFIED = "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
LEGACY = "31 30 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a root; returns the root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def program(root: Path, name: str) -> None:
    """Put a program into the root's /usr/bin."""
    write(root, {f"usr/bin/{name}": "#!/bin/sh\n"})
    (root / "usr/bin" / name).chmod(0o755)


def sound(root: Path) -> Path:
    """Write a machine on which either engine runs."""
    headers = f"usr/src/linux-headers-{RELEASE}"
    write(
        root,
        {
            "proc/sys/kernel/osrelease": f"{RELEASE}\n",
            "proc/sys/kernel/modules_disabled": "0\n",
            "proc/sys/kernel/ftrace_enabled": "1\n",
            "proc/sys/kernel/seccomp/actions_avail": "kill_process errno user_notif allow\n",
            "proc/modules": "nvidia 1 0 - Live 0x0\n",
            "proc/devices": "Character devices:\n195 nvidia\n510 nvidia-uvm\n",
            "proc/1/mountinfo": UNIFIED,
            "proc/driver/nvidia/version": OPEN_DRIVER,
            "proc/driver/nvidia/gpus/0000:01:00.0/information": CARD,
            "sys/kernel/debug/kprobes/enabled": "1\n",
            "sys/firmware/acpi/x": "",
            "dev/fuse": "",
            "etc/os-release": "ID=debian\n",
            f"boot/config-{RELEASE}": OPTIONS,
            f"{headers}/Makefile": "",
            f"{headers}/include/generated/autoconf.h": "",
            f"lib/modules/{RELEASE}/modules.dep": "updates/dkms/nvidia.ko:\nkernel/fs/fuse/fuse.ko.xz:\n",
            "usr/lib/x86_64-linux-gnu/libfuse3.so.3": "",
        },
    )
    (root / f"lib/modules/{RELEASE}/build").symlink_to(f"/{headers}")
    for name in ("dkms", "runc", "dockerd", "podman"):
        program(root, name)
    (root / "run/systemd/system").mkdir(parents=True)
    return root


def node(root: Path, **changed: dict[str, Any]) -> Node:
    """Return the sound machine's facts, with some of each part changed."""
    made = facts.gather(sound(root) if not (root / "proc").exists() else root)
    made = replace(made, software=replace(made.software, systemd_version=254))
    made = replace(made, driver=replace(made.driver, cards=(card(),)))
    return replace(made, **{part: replace(getattr(made, part), **values) for part, values in changed.items()})


def card(**changed: Any) -> Card:
    """Return an ordinary card."""
    return replace(Card("0000:01:00.0", "NVIDIA A10", "GPU-5a1f", "580.142", mig=False), **changed)


def tool(name: str, version: str | None) -> Program:
    return Program(name, Path(f"/usr/bin/{name}"), version, running=False)


def node_report(root: Path, **changed: Any) -> NodeReport:
    """Return a node_report on the sound machine with cgpud answering."""
    ours = {
        "engine": "cgpud",
        "version": "0.1.0",
        "commands": "0.1.0",
        "daemon_running": True,
    }
    return replace(NodeReport(node(root, ours=ours), "daemon"), **changed)
