# SPDX-License-Identifier: Apache-2.0
"""The kernel module as it is installed: for this kernel, and for the next boot's."""

from __future__ import annotations

import re

from cgpu.distribution import install_command
from cgpu.install.checks.finding import Finding, ok, problem, skipped, warning
from cgpu.install.node.facts import files, programs
from cgpu.install.node.report import NodeReport

PACKAGE = "opencgpu"
STATUS = re.compile(rf"^{PACKAGE}[/,]\s*([^,:]+)(?:,\s*([^,:]+),\s*([^,:]+))?:\s*(\w+)", re.MULTILINE)
DKMS_S = 30.0


def built(now: NodeReport) -> list[Finding]:
    """Whether the module is there for the running kernel."""
    if now.kind != "module":
        return skipped("module-built", "the engine is cgpud")
    release, ours = now.node.kernel.release, now.node.ours
    if release not in ours.module_kernels:
        fix = f"dkms autoinstall -k {release}; modprobe cgpu_km"
        text = f"cgpu_km is not built for the running kernel {release}"
        return problem("module-built", text, fix)
    newer = [one for one in others(now) if one not in ours.module_kernels]
    if newer:
        of = now.node.software.family
        fixes = (f"{install_command(f'linux-headers-{one}', of)}; dkms autoinstall -k {one}" for one in newer)
        text = f"cgpu_km is not built for {', '.join(newer)}, which the next boot may take"
        return warning("module-built", text, "; ".join(fixes))
    return ok("module-built", f"cgpu_km is built for {', '.join(ours.module_kernels)}")


def others(now: NodeReport) -> list[str]:
    """Return the installed kernels that are newer than the running one."""
    running = _order(now.node.kernel.release or "")
    installed = [
        name
        for name in files.names(now.node.root, "/lib/modules")
        if files.follow(now.node.root, f"/boot/vmlinuz-{name}").exists()
    ]
    return [name for name in installed if _order(name) > running]


def _order(release: str) -> list[int]:
    """Return all numbers of a release: 6.1.0-57 comes after 6.1.0-56."""
    return [int(number) for number in re.findall(r"\d+", release)]


def dkms(now: NodeReport) -> list[Finding]:
    """The states of our module in dkms, for each version and kernel."""
    program = now.node.software.dkms
    if program is None or now.kind != "module":
        return skipped("module-dkms", "dkms is not installed" if program is None else "the engine is cgpud")
    said = programs.output(str(program.path), "status", "-m", PACKAGE, timeout_s=DKMS_S)
    if said is None:
        return problem(
            "module-dkms", f"{program.path} status -m {PACKAGE}: fails", f"dkms status -m {PACKAGE}"
        )
    return judge(said)


def judge(said: str) -> list[Finding]:
    """Judge the output of dkms status, as dkms 2 and 3 write it."""
    states = [(version.strip(), kernel.strip(), state) for version, kernel, _, state in STATUS.findall(said)]
    if not states:
        return warning(
            "module-dkms",
            "dkms does not know the module: it is not built for new kernels",
            "cgpu install --engine module",
        )
    # dkms installs one version for a kernel: other versions may stay built, or added for no kernel.
    there = {kernel for _, kernel, state in states if state == "installed"}
    broken = [one for one in states if not (one[1] in there or (there and not one[1]))]
    if broken:
        version, kernel, state = broken[0]
        where = f" -k {kernel}" if kernel else ""
        text = f"{PACKAGE}/{version}{f' for {kernel}' if kernel else ''}: {state}, not installed"
        return problem("module-dkms", text, f"dkms install {PACKAGE}/{version}{where}")
    installed = [f"{version} for {kernel}" for version, kernel, state in states if state == "installed"]
    return ok("module-dkms", ", ".join(installed))
