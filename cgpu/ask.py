# SPDX-License-Identifier: Apache-2.0
"""What a container asks for, read from its OCI specification alone. docs/variables.md has the rules."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.schema.request_validator import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cgpu.effective import Effective

PREFIX = "opencgpu.io/"
VENDOR = "NVIDIA_VISIBLE_DEVICES"
VENDOR_NOTHING = ("", "void", "none")
NAMES = {
    "container": ("ALIYUN_COM_GPU_MEM_CONTAINER", PREFIX + "mem-container"),
    "dev": ("ALIYUN_COM_GPU_MEM_DEV", PREFIX + "mem-dev"),
    "devices": ("ALIYUN_COM_GPU_VISIBLE_DEVICES", PREFIX + "visible-devices"),
    "weight": ("ALIYUN_COM_GPU_SCHD_WEIGHT", PREFIX + "schd-weight"),
    "highprio": ("ALIYUN_COM_GPU_HIGH_PRIO", PREFIX + "high-prio"),
    "disable": ("CGPU_DISABLE", PREFIX + "disable"),
}
VARIABLES = frozenset(names[0] for names in NAMES.values())
ANNOTATIONS = frozenset(names[1] for names in NAMES.values())
MIG_REFUSED = "a MIG device cannot be sliced, nor given beside slices; name whole GPUs"
# A pod's sandbox carries the annotations of its pod, but runs only the pause program.
SANDBOX = ("io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType")


class Said:
    """One value, with the name it goes by in messages and whether an annotation gave it."""

    __slots__ = ("label", "text", "trusted")

    def __init__(self, label: str, text: str, *, trusted: bool = False) -> None:
        """Keep the three."""
        self.label = label
        self.text = text
        self.trusted = trusted

    def refuse(self, why: str) -> CgpuError:
        """Return the error for this value: name, value, what is wrong or accepted."""
        return CgpuError(f"{self.label}={show(self.text)}: {why}")


class Ask:
    """All that a container said; None where it said nothing."""

    __slots__ = ("container", "dev", "devices", "disable", "highprio", "sandbox", "vendor", "weight")

    container: Said | None
    dev: Said | None
    devices: Said | None
    disable: Said | None
    highprio: Said | None
    weight: Said | None

    def __init__(
        self, environment: Mapping[str, str], annotations: Mapping[str, str], config: Effective
    ) -> None:
        """Choose between environment and annotations. Raises CgpuError for a value of the wrong form."""
        counted = {name: environment[name] for name in environment if name in VARIABLES}
        if not config.allow_environment:
            counted = {}
        notes = {name: annotations[name] for name in annotations if name in ANNOTATIONS}
        _refuse_malformed(counted, notes)
        for key, (variable, annotation) in NAMES.items():
            setattr(self, key, _pick(variable, counted, annotation, notes))
        # Who sets the amount by annotation means it: the environment must not enlarge it or switch it off.
        if self.container is not None and self.container.trusted:
            self.dev = _only_trusted(self.dev)
            self.disable = _only_trusted(self.disable)
        self.vendor = environment.get(VENDOR, "")
        self.sandbox = any(annotations.get(name) == "sandbox" for name in SANDBOX)

    def amounts(self, config: Effective) -> tuple[int, ...] | None:
        """Return the numbers of MEM_CONTAINER, () for the node's default, None for: not sliced.

        Raises CgpuError when the container switches slicing off where the node forbids that.
        """
        if self.sandbox:
            return None
        if self.disable is not None and self.disable.text.lower() in ("true", "1"):
            _may_switch_off(self.disable, config)
            return None
        if self.container is not None:
            amounts = tuple(map(int, self.container.text.split(",")))
            if 0 not in amounts:
                return amounts
            _may_switch_off(self.container, config)
            return None
        return () if config.default_memsize and self.names_gpu() else None

    def is_silent(self) -> bool:
        """Return whether nothing is said of GPUs at all."""
        return not self.names_gpu() and all(getattr(self, key) is None for key in NAMES)

    def names_gpu(self) -> bool:
        """Return whether a GPU is named at all."""
        return self.devices is not None or self.vendor not in VENDOR_NOTHING


def read(spec: Mapping[str, object], config: Effective) -> Ask:
    """Read what a config.json asks for. Raises CgpuError for anything malformed."""
    return Ask(_environment(spec), _annotations(spec), config)


def mig_device(text: str) -> bool:
    """Return whether one of the names in a list is that of a MIG device: MIG-..., or GPU:INSTANCE."""
    for name in text.split(","):
        gpu, colon, instance = name.partition(":")
        if name[:3].upper() == "MIG" or (colon and gpu.isdigit() and instance.isdigit()):
            return True
    return False


def _environment(spec: Mapping[str, object]) -> dict[str, str]:
    process = spec.get("process")
    if process is None:
        return {}
    if not isinstance(process, dict):
        raise CgpuError(f"config.json: process: {show(process)}: an object is accepted")
    entries = process.get("env")
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise CgpuError(
            f"config.json: process.env: {show(entries)}: a list of NAME=VALUE strings is accepted"
        )
    found = {}
    for entry in entries:
        if not isinstance(entry, str):
            raise CgpuError(f"config.json: process.env: {show(entry)}: a NAME=VALUE string is accepted")
        if entry.startswith(("ALIYUN_COM_GPU_", "CGPU_", VENDOR)):
            name, equals, value = entry.partition("=")
            if equals:
                found[name] = value
    return found


def _annotations(spec: Mapping[str, object]) -> dict[str, str]:
    annotations = spec.get("annotations")
    if annotations is None:
        return {}
    if not isinstance(annotations, dict):
        raise CgpuError(f"config.json: annotations: {show(annotations)}: an object of strings is accepted")
    return annotations


def _refuse_malformed(environment: dict[str, str], annotations: dict[str, str]) -> None:
    problem = check({"environment": environment, "annotations": annotations})
    if problem is not None:
        section, name, value, accepted = problem
        label = name if section == "environment" else f"annotation {name}"
        if name in NAMES["devices"] and mig_device(str(value)):
            accepted = MIG_REFUSED
        raise CgpuError(f"{label}={show(value)}: {accepted}")


def _pick(variable: str, environment: dict[str, str], annotation: str, notes: dict[str, str]) -> Said | None:
    # An empty value is the same as none.
    if notes.get(annotation):
        return Said(f"annotation {annotation}", notes[annotation], trusted=True)
    if environment.get(variable):
        return Said(variable, environment[variable])
    return None


def _only_trusted(said: Said | None) -> Said | None:
    return said if said is not None and said.trusted else None


def _may_switch_off(said: Said, config: Effective) -> None:
    if not config.allow_disable:
        raise said.refuse(
            "slicing cannot be switched off on this node (allow_disable: false in /etc/cgpu/config.yaml)"
        )
