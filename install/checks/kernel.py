# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel can carry an engine."""

from __future__ import annotations

from cgpu.distribution import install_command
from cgpu.install.checks.finding import EngineKind, Finding, ok, problem, skipped, warning
from cgpu.install.node.machine import Node
from cgpu.kmod.daemon.tree.libfuse import LIBRARIES
from cgpu.runtime_config.programs import numbers

FIRST: dict[EngineKind, tuple[int, int]] = {"module": (6, 1), "daemon": (5, 10)}
MACHINE = "x86_64"
BY_DAEMON = "use the daemon engine: cgpu install --engine daemon"
DKMS_KEY = "/var/lib/dkms/mok"
# dkms makes it so with its first build; its command for that, generate_mok, is newer than Debian 12's dkms.
MAKE_KEY = (
    "openssl req -new -x509 -nodes -days 36500 -subj '/CN=DKMS module signing key' -newkey rsa:2048 "
    f"-keyout {DKMS_KEY}.key -outform DER -out {DKMS_KEY}.pub"
)
# Each kernel option, and the calls that cgpud refuses without it.
WANTED = {
    "CONFIG_KCMP": "exports of memory to descriptors are refused",
    "CONFIG_PROC_PAGE_MONITOR": "managed memory (cudaMallocManaged) is refused",
}


def machine(node: Node) -> list[Finding]:
    """The processor."""
    if node.kernel.machine == MACHINE:
        return ok("machine", f"{MACHINE}")
    return problem(
        "machine", f"{node.kernel.machine}: only {MACHINE} is supported", f"take a machine with {MACHINE}"
    )


def version(node: Node, engine: EngineKind) -> list[Finding]:
    """The kernel's version."""
    release, first = node.kernel.release, FIRST[engine]
    if release is None:
        return skipped("kernel", "the kernel's release cannot be read from /proc/sys/kernel/osrelease")
    if numbers(release) >= first:
        return ok("kernel", f"Linux {release}")
    needed = ".".join(map(str, first))
    fix = f"boot Linux {needed} or newer" + (f", or {BY_DAEMON}" if engine == "module" else "")
    return problem("kernel", f"Linux {release}: the {engine} engine needs {needed} or newer", fix)


def modules(node: Node) -> list[Finding]:
    """Whether the kernel loads modules at all."""
    kernel = node.kernel
    if not kernel.loads_modules:
        return problem("kernel-modules", "the kernel is built without loadable modules", BY_DAEMON)
    if kernel.modules_disabled:
        return problem(
            "kernel-modules",
            "kernel.modules_disabled is 1: no module is loaded until the next boot",
            BY_DAEMON,
        )
    return ok("kernel-modules", "modules can be loaded")


def headers(node: Node) -> list[Finding]:
    """Whether a module can be built for the running kernel."""
    release = node.kernel.release
    install = install_command(f"linux-headers-{release}", node.software.family)
    if node.kernel.headers is not None:
        return ok("kernel-headers", f"{node.kernel.headers}")
    if release in node.ours.module_kernels:
        text = f"/lib/modules/{release}/build: no headers: the installed module cannot be built anew"
        return warning("kernel-headers", text, install)
    return problem(
        "kernel-headers",
        f"/lib/modules/{release}/build: there are no headers to build the module with",
        f"{install}, or: {BY_DAEMON}",
    )


def signatures(node: Node) -> list[Finding]:
    """Whether the kernel loads a module that dkms has built."""
    kernel = node.kernel
    why = _demand(node)
    if why is None:
        return ok("module-signature", "no signature is demanded of modules")
    if kernel.signing_key is None:
        fix = f"{MAKE_KEY}; mokutil --import {DKMS_KEY}.pub; then reboot and confirm"
        return problem("module-signature", f"{why}, and dkms has no key to sign with", fix)
    enrol = f"mokutil --import {kernel.signing_key}, then reboot and confirm"
    if kernel.key_enrolled is False:
        return problem("module-signature", f"{why}, and {kernel.signing_key} is not enrolled", enrol)
    if kernel.key_enrolled is None:
        return warning(
            "module-signature", f"{why}; whether {kernel.signing_key} is enrolled cannot be read", enrol
        )
    return ok("module-signature", f"{why}; {kernel.signing_key} is enrolled")


def _demand(node: Node) -> str | None:
    kernel = node.kernel
    if kernel.secure_boot:
        return "secure boot is on: modules must be signed"
    if kernel.lockdown in ("integrity", "confidentiality"):
        return f"kernel lockdown is {kernel.lockdown}: modules must be signed"
    if kernel.enforces_signatures or "CONFIG_MODULE_SIG_FORCE" in (kernel.options or ()):
        return "the kernel demands signed modules"
    return None


def probes(node: Node) -> list[Finding]:
    """Whether the module can put its probes on the driver's functions."""
    kernel = node.kernel
    if kernel.options is not None and "CONFIG_KPROBES" not in kernel.options:
        return problem("kernel-probes", "the kernel is built without CONFIG_KPROBES", BY_DAEMON)
    if kernel.kprobes is False:
        fix = "echo 1 > /sys/kernel/debug/kprobes/enabled"
        return problem(
            "kernel-probes", "kprobes are switched off in debugfs: the module would enforce nothing", fix
        )
    if kernel.ftrace is False:
        fix = "sysctl kernel.ftrace_enabled=1"
        return problem("kernel-probes", "kernel.ftrace_enabled is 0: the module is not loaded so", fix)
    if kernel.lockdown == "confidentiality":
        return problem("kernel-probes", "kernel lockdown is confidentiality: kprobes are refused", BY_DAEMON)
    return ok("kernel-probes", "kprobes and ftrace are on")


def seccomp(node: Node) -> list[Finding]:
    """Whether the kernel hands calls to cgpud."""
    if node.kernel.seccomp_notify:
        return ok("seccomp", "seccomp can notify a supervisor")
    return problem(
        "seccomp",
        "/proc/sys/kernel/seccomp/actions_avail: user_notif is not there",
        "boot a kernel with CONFIG_SECCOMP_FILTER, 5.10 or newer",
    )


def options(node: Node) -> list[Finding]:
    """Options without which cgpud lacks a feature."""
    found = node.kernel.options
    if found is None:
        return skipped(
            "kernel-options", "the kernel's configuration is neither in /proc/config.gz nor in /boot"
        )
    missing = [f"{option} ({loss})" for option, loss in WANTED.items() if option not in found]
    if missing:
        return warning(
            "kernel-options",
            f"the kernel is built without {', '.join(missing)}",
            "boot a kernel that has them",
        )
    return ok("kernel-options", f"{' and '.join(WANTED)} are on")


def tracing(node: Node) -> list[Finding]:
    """Whether cgpud may read other processes' memory."""
    if node.kernel.ptrace_scope == 3:
        return problem(
            "ptrace",
            "kernel.yama.ptrace_scope is 3: nobody may look into processes, cgpud neither",
            "set kernel.yama.ptrace_scope below 3 in /etc/sysctl.d and reboot",
        )
    return ok("ptrace", "cgpud may look into containers' processes")


def fuse(node: Node) -> list[Finding]:
    """Whether cgpud can mount its tree."""
    if not node.kernel.fuse:
        return problem("fuse", "/dev/fuse is not there", "modprobe fuse")
    if node.software.fuse is None:
        libraries = " or ".join(LIBRARIES)
        fix = install_command("fuse3", node.software.family)
        return problem("fuse", f"no {libraries} in the usual folders", fix)
    return ok("fuse", f"{node.software.fuse}")


def cgroups(node: Node) -> list[Finding]:
    """The hierarchies by which the engine knows a container's processes."""
    mode = node.kernel.cgroups
    if mode is None:
        return problem(
            "cgroups", "/sys/fs/cgroup: no cgroups are mounted", "mount -t cgroup2 none /sys/fs/cgroup"
        )
    return ok("cgroups", f"cgroup {mode}")
