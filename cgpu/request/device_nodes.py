# SPDX-License-Identifier: Apache-2.0
"""GPUs that a specification gives without a variable: nodes, rights to open them, CDI names.

Engines put nodes there for --device, for CDI devices and for --privileged. Looked at are linux.devices and
the device cgroup's rules: without a rule no node can be opened, also where /dev of the host is mounted. The
files of simulated cards are no device nodes: a mount of them is looked at.
"""

from __future__ import annotations

import os

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cgpu.client.tree import Gpu
    from cgpu.config.effective import Effective

# Linux, Documentation/admin-guide/devices.txt; the driver's other numbers are those of the day.
MAJOR = 195
DRM_MAJOR = 226
FIRST_DYNAMIC = 234
LAST_CARD_MINOR = 247  # above are control nodes
DRIVER = "nvidia"
VENDOR_RUNTIME = "nvidia-container-runtime"
VENDOR_HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-cdi-hook", "nvidia-ctk")
CDI_PREFIX = "cdi.k8s.io/"
# Path at which NVIDIA's runtime looks for names of GPUs among the mounts of /dev/null.
VOLUMES = "/var/run/nvidia-container-devices"
CHARACTER = ("c", "u")
MAX_BYTES = 1 << 16
SYSFS = "/sys/dev/char"
ANY = -1
LIST = "expected a list of objects"


class Named:
    """A word that gives GPUs, for messages, and the minors of their nodes, None for all.

    by_privilege: the container may open every node there is, and nothing else names a GPU. by_words: it has
    no node; a program of NVIDIA's would give it what is named.
    """

    __slots__ = ("by_privilege", "by_words", "label", "minors", "text")

    def __init__(
        self,
        label: str,
        text: str,
        minors: frozenset[int] | None,
        *,
        by_privilege: bool = False,
        by_words: bool = False,
    ) -> None:
        self.label = label
        self.text = text
        self.minors = minors
        self.by_privilege = by_privilege
        self.by_words = by_words

    def pick(self, gpus: Sequence[Gpu]) -> list[Gpu]:
        """Return the cards. Raises CgpuError for a node of none of them."""
        if self.minors is None:
            return list(gpus)
        by_minor = {gpu.minor: gpu for gpu in gpus}
        unknown = sorted(self.minors - by_minor.keys())
        if unknown:
            raise CgpuError(
                f"{self.label}={self.text}: the engine has no GPU of minor {unknown[0]}: see cgpu-smi"
            )
        return [gpu for gpu in gpus if gpu.minor in self.minors]


def find(
    spec: Mapping[str, object], config: Effective, *, legacy: bool = False, words_first: bool = False
) -> Named | None:
    """Return what gives the container a GPU, None where nothing does. Raises CgpuError for a wrong type.

    legacy: whether NVIDIA's runtime would take the environment for one that names all GPUs. words_first:
    return what a program of NVIDIA's would take for names before nodes.
    """
    return _by_engine(spec, config, legacy=legacy, words_first=words_first) or _by_mounts(spec)


def _by_engine(
    spec: Mapping[str, object], config: Effective, *, legacy: bool, words_first: bool
) -> Named | None:
    linux = _table(spec, "linux")
    rules = list(_objects(_table(linux, "resources"), "linux.resources.devices", "devices"))
    nodes = list(_objects(linux, "linux.devices", "devices"))
    vendor = _by_vendor(spec, config, legacy=legacy)
    if (not rules and not nodes) or (words_first and vendor is not None):
        return vendor
    if not _is_open(rules):
        return _by_nodes(nodes) or _by_rules(rules) or vendor
    if vendor is None and not config.allow_privileged:
        return Named("device rule", "all devices", None, by_privilege=True)
    return vendor


def has_vendor_hook(spec: Mapping[str, object]) -> bool:
    """Return whether a program of NVIDIA's toolkit is a hook. Raises CgpuError for a wrong type."""
    hooks = _table(spec, "hooks")
    return any(
        os.path.basename(str(hook.get("path"))).startswith(VENDOR_HOOKS)
        for stage in hooks
        for hook in _objects(hooks, f"hooks.{stage}", stage)
    )


def _by_vendor(spec: Mapping[str, object], config: Effective, *, legacy: bool) -> Named | None:
    """Return what NVIDIA's runtime or its hook, where one comes after us, would take for a GPU's name."""
    for name, value in _table(spec, "annotations").items():
        if name.startswith(CDI_PREFIX) and DRIVER in str(value):
            return Named(f"annotation {show(name)}", show(value), None, by_words=True)
    for mount in _objects(spec, "mounts", "mounts"):
        destination = os.path.normpath(str(mount.get("destination")))
        if destination.startswith(VOLUMES + "/"):
            return Named("mount", show(destination), None, by_words=True)
    runtime = os.path.basename(config.low_level_runtime or "")
    if legacy and (runtime.startswith(VENDOR_RUNTIME) or has_vendor_hook(spec)):
        return Named("CUDA_VERSION", "set", None, by_words=True)
    return None


def _by_nodes(nodes: Iterable[Mapping[str, object]]) -> Named | None:
    label = ""
    minors: set[int] = set()
    for node in nodes:
        major, minor = node.get("major"), node.get("minor")
        if node.get("type") not in CHARACTER or not _is_driver(major, minor):
            continue
        label = label or show(node.get("path"))
        card = _card(major, minor)
        if card is not None:
            minors.add(card)
    return Named("device", label, frozenset(minors) or None) if label else None


def _by_mounts(spec: Mapping[str, object]) -> Named | None:
    """Return a mount of simulated cards' files, or of their folder."""
    if not os.path.exists(paths.SIM):
        return None
    folder = os.path.realpath(paths.SIM)
    for mount in _objects(spec, "mounts", "mounts"):
        source = mount.get("source")
        if isinstance(source, str) and os.path.isabs(source):
            found = os.path.realpath(source)
            if os.path.commonpath((found, folder)) == folder:
                return Named("mount", show(source), None)
    return None


def _card(major: object, minor: object) -> int | None:
    """Return the minor of a card's own node, None for others."""
    return minor if major == MAJOR and type(minor) is int and 0 <= minor <= LAST_CARD_MINOR else None


def _by_rules(rules: Iterable[Mapping[str, object]]) -> Named | None:
    for rule in rules:
        major, minor = rule.get("major"), rule.get("minor")
        if rule.get("allow") and _opens(rule) and not _every(major) and _is_driver(major, minor):
            card = _card(major, minor)
            return Named("device rule", f"{major}:{show(minor)}", None if card is None else frozenset({card}))
    return None


def _is_open(rules: Iterable[Mapping[str, object]]) -> bool:
    """Return whether the rules let every character device be opened, as with --privileged."""
    opened = False
    for rule in rules:
        if rule.get("type") not in (*CHARACTER, "a", "", None) or not _every(rule.get("major")):
            continue
        if rule.get("allow"):
            opened = opened or _opens(rule)
        elif _every(rule.get("minor")) and _opens(rule):
            opened = False
    return opened


def _every(number: object) -> bool:
    return number is None or number == ANY


def _opens(rule: Mapping[str, object]) -> bool:
    access = rule.get("access")
    return not access or not isinstance(access, str) or "r" in access or "w" in access


def _is_driver(major: object, minor: object) -> bool:
    if type(major) is not int:
        return False
    if major == DRM_MAJOR:
        return _is_driver_drm(minor)
    if major == MAJOR:
        return True
    known = character_devices() if major >= FIRST_DYNAMIC else []
    return any(number == major and name.startswith(DRIVER) for name, number in known)


def _is_driver_drm(minor: object) -> bool:
    """Return whether a node of the DRM, or one of all of them, is that of an NVIDIA card."""
    try:
        nodes = os.listdir(SYSFS) if _every(minor) else [f"{DRM_MAJOR}:{minor}"]
    except OSError:
        return False
    return any(_driver_of(node) == DRIVER for node in nodes if node.startswith(f"{DRM_MAJOR}:"))


def _driver_of(node: str) -> str:
    try:
        return os.path.basename(os.readlink(f"{SYSFS}/{node}/device/driver"))
    except (OSError, ValueError):
        return ""


def character_devices() -> list[tuple[str, int]]:
    """Return name and major number of all that drivers have registered. Raises CgpuError."""
    try:
        lines = read_bounded(paths.DEVICES, MAX_BYTES).decode("ascii", "replace").split("\n")
    except OSError as error:
        raise CgpuError(f"{paths.DEVICES}: cannot be read ({error.strerror})") from error
    found = []
    for line in lines:
        if line.startswith("Block"):
            break
        number, _, name = line.strip().partition(" ")
        if number.isdigit():
            found.append((name, int(number)))
    return found


def _table(parent: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = parent.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise CgpuError(f"config.json: {name}: {show(found)}: expected an object")
    return found


def _objects(parent: Mapping[str, object], label: str, name: str) -> Iterator[Mapping[str, object]]:
    found = parent.get(name)
    if found is None:
        return
    if not isinstance(found, list):
        raise CgpuError(f"config.json: {label}: {show(found)}: {LIST}")
    for entry in found:
        if not isinstance(entry, dict):
            raise CgpuError(f"config.json: {label}: {show(entry)}: {LIST}")
        yield entry
