# SPDX-License-Identifier: Apache-2.0
"""Every path that is used at run time."""

from __future__ import annotations

import os

# Where a bundle (install/packaging/build-bundle) has the package, as CGPU_BUNDLED of launcher.h.
BUNDLED = "/lib/bundle/cgpu/"
BUNDLE = __file__.partition(BUNDLED)[0] if BUNDLED in __file__ else None
PACKAGED = "/usr/lib/opencgpu"  # the bundle of the Debian and rpm packages, whose units start its commands
PROGRAMS = f"{BUNDLE}/bin" if BUNDLE else "/usr/bin"
PYTHON = PROGRAMS + "/python3"  # of hook and launcher
OPENSSL = PROGRAMS + "/openssl"

CONFIG = "/etc/cgpu/config.yaml"

RUN = "/run/cgpu"
EFFECTIVE = RUN + "/config.json"
REFUSED = RUN + "/config-refused.json"  # why the last start of an engine refused the configuration
EVENTS = RUN + "/events.log"  # what became of slices (cgpu/events); the one before it ends in .1
CONTROL_SOCKET = RUN + "/control.sock"
SECCOMP_SOCKET = RUN + "/seccomp.sock"
LOCK = RUN + "/cgpud.lock"
KEEPER_SOCKET = RUN + "/keeper.sock"
CDI = RUN + "/cdi.json"
CDI_DEVICES = "/run/cdi/opencgpu.json"  # container engines read that folder
PID = RUN + "/cgpud.pid"
COMMAND = RUN + "/command"  # by which a person has started cgpud last, with its options
STARTED = RUN + "/cgpud.started"
SHARES = RUN + "/shares"  # what Kubernetes has given to pods (cgpu/shares.py)
SIM = RUN + "/sim"
RUNTIME_SOCKET = "/run/cgpu-container-runtime.sock"  # of the wrapper's server, which is no engine's
# Links that the engine keeps to the runtime below the wrapper, and to one that is not NVIDIA's. Not in RUN:
# users of rootless container engines cannot look into that.
LOW_LEVEL = "/run/cgpu-low-level-runtime"
LOW_LEVEL_PLAIN = LOW_LEVEL + ".plain"
DRAINING = "/run/cgpu-draining"  # not in RUN, which an engine makes and owns
DRAINING_HERE = RUN + "/draining"  # the same for an agent in a pod, which sees no more of /run than RUN
PUBLISHED = "/run/cgpu-smi"  # for users who are not root, who cannot go into RUN
UPGRADING = "/run/cgpu-upgrading"  # while the module is loaded anew

TREE_MODULE = "/proc/cgpu_km"
TREE_DAEMON = "/run/cgpu_km"
TREES = (TREE_MODULE, TREE_DAEMON)

PARAMETERS = "/sys/module/cgpu_km/parameters"
DRIVER_MODULE = "/sys/module/nvidia"  # there while NVIDIA's driver is loaded
DRIVER_ANEW = "modprobe -r nvidia_uvm nvidia_drm; modprobe -a nvidia_uvm nvidia_drm"
CONFIGURED = PARAMETERS + "/configured"
DEVICES = "/proc/devices"
# Device nodes by number.
DEVICE_NUMBERS = "/dev/char"
KERNEL_LOG = "/dev/kmsg"
MODULES = "/lib/modules"

COMMAND_MAX = 4096

JOURNAL = "/run/systemd/journal/socket"

SYSTEMD = "/run/systemd/system"
UNITS = tuple(folder + "/systemd/system/cgpud.service" for folder in ("/etc", "/usr/lib", "/lib"))


def lasting(path: str) -> str:
    """Return the path of one of our files that the next version has, too.

    A bundle's version is a folder of its own, and `current` beside it a link to the one in force.
    """
    if BUNDLE is None or not path.startswith(BUNDLE + "/"):
        return path
    current = os.path.dirname(BUNDLE) + "/current"
    return current + path[len(BUNDLE) :] if os.path.realpath(current) == BUNDLE else path


def tree(configured: str | None) -> str:
    """Return the tree's path: the configured one, else the module's when it is loaded, else the daemon's."""
    if configured is not None:
        return configured
    return TREE_MODULE if is_module_loaded() else TREE_DAEMON


def is_module_loaded() -> bool:
    """Return whether the kernel module is the engine."""
    return os.path.exists(TREE_MODULE + "/version")


def start_command(tree_path: str) -> str:
    """Return the command that brings back the engine behind a tree."""
    # Without the module its tree is not there, and the daemon's is looked at in its place.
    by_hand = _command_by_hand() is not None
    module = tree_path == TREE_MODULE or (tree_path == TREE_DAEMON and not by_hand and _is_module_installed())
    return "modprobe cgpu_km" if module else daemon_command("start")


def config_command(verb: str) -> str:
    """Return the command that puts the configuration in force; verb is what cgpud would have to do."""
    return "cgpu-config-apply" if is_module_loaded() else daemon_command(verb)


def daemon_command(verb: str) -> str:
    """Return the command that starts, restarts or reloads cgpud here.

    It is systemd's where that has the unit, unless a person has started cgpud last: then theirs.
    """
    by_hand = _command_by_hand()
    if by_hand is None and os.path.isdir(SYSTEMD) and any(os.path.exists(unit) for unit in UNITS):
        return f"systemctl {verb} cgpud"
    start = by_hand or "cgpud"
    return {
        "start": start,
        "restart": f"cgpud --stop; {start}",
        "reload": f"kill -HUP $(cat {PID})",
    }[verb]


def _command_by_hand() -> str | None:
    try:
        with open(COMMAND, errors="replace") as said:
            return said.read(COMMAND_MAX).strip()
    except OSError:
        return None


def _is_module_installed() -> bool:
    try:
        with open(f"{MODULES}/{os.uname().release}/modules.dep", "rb") as listed:
            return b"/cgpu_km.ko" in listed.read()
    except OSError:
        return False
