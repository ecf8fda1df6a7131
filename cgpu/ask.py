# SPDX-License-Identifier: Apache-2.0
"""What a container asks for, read from its OCI specification alone. docs/variables.md has the rules."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.schema.request_validator import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cgpu.device_nodes import Named
    from cgpu.effective import Effective

PREFIX = "opencgpu.io/"
VENDOR = "NVIDIA_VISIBLE_DEVICES"
VENDOR_NOTHING = ("", "void", "none")
# NVIDIA's runtime takes the lack of its variable for `all` in images of these old days.
LEGACY = ("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA")
READ = ("ALIYUN_COM_GPU_", "CGPU_", VENDOR, *LEGACY)
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
# podman and CRI-O say who they are. podman before 4.6 copies the annotations of the image, these included:
# what is CRI-O's has to agree with the root file system, whose path no image knows before.
MANAGER = "io.container.manager"
PODMAN_MARKS = "io.podman."
CRIO_ROOT = "io.kubernetes.cri-o.MountPoint"
FORBIDDEN = "slicing cannot be switched off on this node (allow_disable: false in /etc/cgpu/config.yaml)"


class Said:
    """One value, with the name it goes by in messages and whether it is known not to be the image's."""

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
    """All that a container said; None where it said nothing. nodes: what of the driver its nodes give."""

    __slots__ = (
        "container",
        "dev",
        "devices",
        "disable",
        "highprio",
        "nodes",
        "sandbox",
        "vendor",
        "weight",
    )

    container: Said | None
    dev: Said | None
    devices: Said | None
    disable: Said | None
    highprio: Said | None
    weight: Said | None

    def __init__(
        self,
        environment: Mapping[str, str],
        annotations: Mapping[str, str],
        config: Effective,
        *,
        known: bool = True,
        nodes: Named | None = None,
    ) -> None:
        """Choose between environment and annotations. Raises CgpuError for a value of the wrong form.

        known: whether the annotations are those of who started the container, and not of the image.
        """
        counted = {name: environment[name] for name in environment if name in VARIABLES}
        if not config.allow_environment:
            counted = {}
        notes = {name: annotations[name] for name in annotations if name in ANNOTATIONS}
        _refuse_malformed(counted, notes)
        self.sandbox = any(annotations.get(name) == "sandbox" for name in SANDBOX)
        if not known:
            _refuse_unknown(counted, notes, config)
        elif self.sandbox:
            notes = {}
        for key, (variable, annotation) in NAMES.items():
            setattr(self, key, _pick(variable, counted, annotation, notes, known=known))
        # Who sets the amount by annotation means it: the environment must not enlarge it or switch it off.
        if self.container is not None and self.container.trusted:
            self.dev = _only_trusted(self.dev)
            self.disable = _only_trusted(self.disable)
        self.vendor = environment.get(VENDOR, "")
        self.nodes = nodes

    def amounts(self, config: Effective) -> tuple[int, ...] | None:
        """Return the numbers of MEM_CONTAINER, () for the node's default, None for: not sliced.

        Raises CgpuError when the container would have a GPU unsliced where the node forbids that.
        """
        named = self.naming()
        if self.sandbox and named is not None and not config.allow_disable:
            raise named.refuse(f"a pod's sandbox is not sliced, and {FORBIDDEN}")
        if self.disable is not None and self.disable.text.lower() in ("true", "1"):
            _may_switch_off(self.disable, config)
            return None
        if self.container is not None:
            amounts = tuple(map(int, self.container.text.split(",")))
            if 0 not in amounts:
                return amounts
            _may_switch_off(self.container, config)
            return None
        if named is None:
            return None
        if not config.default_memsize and config.shared_node:
            raise named.refuse(
                "a GPU without an amount, and this node has no default (shared_node: true and "
                "default_memsize: 0 in /etc/cgpu/config.yaml): say how much by the "
                "annotation opencgpu.io/mem-container"
            )
        return () if config.default_memsize else None

    def is_silent(self) -> bool:
        """Return whether nothing is said of GPUs at all. The rights of a privileged one say nothing."""
        named = self.nodes is not None and not self.nodes.by_privilege
        return not (named or self._said()) and all(getattr(self, key) is None for key in NAMES)

    def naming(self) -> Said | None:
        """Return what names a GPU; None where nothing does."""
        said = self._said()
        if said is None and self.nodes is not None:
            return Said(self.nodes.label, self.nodes.text)
        return said

    def _said(self) -> Said | None:
        if self.devices is None and self.vendor not in VENDOR_NOTHING:
            return Said(VENDOR, self.vendor)
        return self.devices


def read(spec: Mapping[str, object], config: Effective) -> Ask:
    """Read what a config.json asks for. Raises CgpuError for anything malformed."""
    annotations = _annotations(spec)
    environment = _environment(spec)
    known = _is_known(spec, annotations, config)
    return Ask(environment, annotations, config, known=known, nodes=_nodes(spec, environment, config))


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
        if entry.startswith(READ):
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


def _is_known(spec: Mapping[str, object], annotations: Mapping[str, str], config: Effective) -> bool:
    """Return whether who started the container wrote the annotations: see docs/threat-model.md."""
    if config.trust_annotations != "auto":
        return config.trust_annotations == "always"
    if any(name.startswith(PODMAN_MARKS) for name in annotations):
        return False
    # docker and containerd write none, and copy nothing of an image.
    if MANAGER not in annotations:
        return True
    root = spec.get("root")
    path = root.get("path") if isinstance(root, dict) else None
    return annotations[MANAGER] == "cri-o" and bool(path) and annotations.get(CRIO_ROOT) == path


def _nodes(spec: Mapping[str, object], environment: dict[str, str], config: Effective) -> Named | None:
    if not any(spec.get(member) for member in ("linux", "mounts", "annotations", "hooks")):
        return None
    from cgpu.device_nodes import find

    version, required = (environment.get(name) for name in LEGACY)
    return find(spec, config, legacy=bool(version) and not required and VENDOR not in environment)


def _refuse_unknown(counted: Mapping[str, str], notes: Mapping[str, str], config: Effective) -> None:
    """Refuse annotations that may be the image's beside, or in the place of, words that count more."""
    said = next((name for name, value in notes.items() if value), None)
    if said is None:
        return
    other = next((name for name, value in counted.items() if value), None)
    if other is None and config.allow_environment:
        return
    why = f"{other} is set too" if other is not None else "allow_environment is false"
    raise Said(f"annotation {said}", notes[said]).refuse(
        f"it may come from the image, and {why}; accepted where trust_annotations: always (podman from 4.6 "
        "on copies none of an image)"
    )


def _refuse_malformed(environment: dict[str, str], annotations: dict[str, str]) -> None:
    problem = check({"environment": environment, "annotations": annotations})
    if problem is not None:
        section, name, value, accepted = problem
        label = name if section == "environment" else f"annotation {name}"
        if name in NAMES["devices"] and mig_device(str(value)):
            accepted = MIG_REFUSED
        raise CgpuError(f"{label}={show(value)}: {accepted}")


def _pick(
    variable: str, environment: dict[str, str], annotation: str, notes: dict[str, str], *, known: bool
) -> Said | None:
    # An empty value is the same as none.
    if notes.get(annotation):
        return Said(f"annotation {annotation}", notes[annotation], trusted=known)
    if environment.get(variable):
        return Said(variable, environment[variable])
    return None


def _only_trusted(said: Said | None) -> Said | None:
    return said if said is not None and said.trusted else None


def _may_switch_off(said: Said, config: Effective) -> None:
    if not config.allow_disable:
        raise said.refuse(FORBIDDEN)
