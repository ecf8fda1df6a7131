# SPDX-License-Identifier: Apache-2.0
"""Words of an OCI specification that have to do with GPUs. docs/variables.md has the rules."""

from __future__ import annotations

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.request.grants import is_number, is_share
from cgpu.request.names import (
    CDI_KIND,
    CDI_VARIABLE,
    CRIO_ROOT,
    MANAGER,
    MISSPELT,
    NAMES,
    PODMAN_MARKS,
    SHARE_KIND,
    SHARE_VARIABLE,
    check_annotations,
    check_variables,
    is_of_a_service,
    share_variable,
)
from cgpu.request.validate import DEVICES_LENGTH, SourcedValue, expected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cgpu.config.effective import Effective
    from cgpu.request.device_nodes import Named
    from cgpu.request.pod import Pod

VENDOR = "NVIDIA_VISIBLE_DEVICES"
VENDOR_NOTHING = ("", "void", "none")
# NVIDIA's runtime takes the lack of its variable for `all` in images of these old days.
LEGACY = ("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA")
HAMI = ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT")
READ = (*MISSPELT, "CGPU_", VENDOR, *LEGACY, *HAMI)
MIG_REFUSED = "a MIG device cannot be sliced, nor given beside slices; name whole GPUs"
# Begins the annotations of containerd's CRI (io.kubernetes.cri.) and of CRI-O (io.kubernetes.cri-o.).
CRI_MARKS = "io.kubernetes.cri"
MAX_SHARES = 64


class Words:
    """A specification's words about GPUs; None where it has none. Treat it as read-only.

    mem and container: the amount, as sizes or as numbers that dev is the whole of; never both. vendor: the
    value of NVIDIA_VISIBLE_DEVICES. nodes: other words that give it GPUs. pod: facts of its pod, None without
    a sign of one. shares: ids that its environment names, which proves nothing. empty: a name of the amount
    that is set to nothing. hami: whether it has variables of HAMi-core.
    """

    __slots__ = (*NAMES, "empty", "hami", "nodes", "pod", "shares", "vendor")

    mem: SourcedValue | None
    container: SourcedValue | None
    dev: SourcedValue | None
    devices: SourcedValue | None
    weight: SourcedValue | None
    priority: SourcedValue | None
    disable: SourcedValue | None
    empty: SourcedValue | None

    def __init__(
        self,
        values: Mapping[str, SourcedValue | None],
        *,
        vendor: str = "",
        nodes: Named | None = None,
        pod: Pod | None = None,
        shares: tuple[str, ...] = (),
        hami: bool = False,
    ) -> None:
        """Keep all; values go by the keys of NAMES, and `empty`."""
        for key in (*NAMES, "empty"):
            setattr(self, key, values.get(key))
        self.vendor = vendor
        self.nodes = nodes
        self.pod = pod
        self.shares = shares
        self.hami = hami


def read(spec: Mapping[str, object], config: Effective) -> Words:
    """Read what a config.json says of GPUs. Raises CgpuError for anything malformed."""
    annotations = _annotations(spec)
    environment = _environment(spec)
    known = _is_known(spec, annotations, config)
    pod = _pod(spec, annotations)
    closed = is_closed(pod, config)
    # Words of a pod are refused where they do not count.
    counted = environment if config.allow_environment or closed else {}
    sandbox = pod is not None and pod.sandbox
    values = _values(counted, annotations, config, known=known, sandbox=sandbox)
    shares = _shares(environment)
    nodes = _nodes(spec, environment, config, words_first=closed or bool(shares))
    return Words(
        values,
        vendor=environment.get(VENDOR, ""),
        nodes=nodes,
        pod=pod,
        shares=shares,
        hami=any(name.startswith(HAMI) for name in environment),
    )


def check_spelling(found: Mapping[str, object], members: Sequence[str]) -> None:
    """Refuse members that differ from known ones only in case: runtimes in Go read them as the same.

    Raises CgpuError.
    """
    folded = {name.casefold(): name for name in members}
    for key in found:
        name = folded.get(key.casefold())
        if name is not None and name != key:
            raise CgpuError(f"config.json: the field {show(key)} could be taken for {name}: write {name}")


def mig_device(text: str) -> bool:
    """Return whether one of the names in a list is that of a MIG device: MIG-..., or GPU:INSTANCE."""
    for name in text.split(","):
        gpu, colon, instance = name.partition(":")
        if name[:3].upper() == "MIG" or (colon and gpu.isdigit() and instance.isdigit()):
            return True
    return False


def malformed(key: str, name: str, text: object) -> str:
    """Return what is wrong with a malformed value, what is expected, and what was probably meant."""
    if key == "devices" and mig_device(str(text)[:DEVICES_LENGTH]):
        return MIG_REFUSED
    # Imported here, as a container's start is paid for each module.
    from cgpu.request.hints import hint

    return f"{expected(key, text or ' ')}{hint(key, name, text)}"


def _environment(spec: Mapping[str, object]) -> dict[str, str]:
    process = spec.get("process")
    if process is None:
        return {}
    if not isinstance(process, dict):
        raise CgpuError(f"config.json: process: {show(process)}: expected an object")
    entries = process.get("env")
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise CgpuError(f"config.json: process.env: {show(entries)}: expected a list of NAME=VALUE strings")
    found: dict[str, str] = {}
    for entry in entries:
        if not isinstance(entry, str):
            raise CgpuError(f"config.json: process.env: {show(entry)}: expected a NAME=VALUE string")
        if entry.startswith(READ):
            name, equals, value = entry.partition("=")
            if name.startswith(SHARE_VARIABLE) and found.get(name, value) != value:
                raise CgpuError(f"variable {show(name)}: given twice; expected once, with its share's id")
            if equals:
                found[name] = value
    return found


def _shares(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the shares that variables name, in their order. Raises CgpuError."""
    found = []
    for name, text in environment.items():
        if not name.startswith(SHARE_VARIABLE) or is_of_a_service(name):
            continue
        if not is_share(text) or name != share_variable(text):
            raise CgpuError(
                f"{show(name)}={show(text)}: expected OPENCGPU_SHARE_ and a share's id in capitals, with _ "
                f"for -, and the id as its value, as the CDI device {SHARE_KIND} sets it"
            )
        found.append(text)
    if len(found) > MAX_SHARES:
        raise CgpuError(f"the container has {len(found)} shares; expected at most {MAX_SHARES}")
    return tuple(sorted(found))


def _annotations(spec: Mapping[str, object]) -> dict[str, str]:
    annotations = spec.get("annotations")
    if annotations is None:
        return {}
    if not isinstance(annotations, dict):
        raise CgpuError(f"config.json: annotations: {show(annotations)}: expected an object of strings")
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


def _pod(spec: Mapping[str, object], annotations: Mapping[str, str]) -> Pod | None:
    if not any(name.startswith(CRI_MARKS) for name in annotations):
        return None
    from cgpu.request.pod import read as read_pod

    root = spec.get("root")
    return read_pod(annotations, root.get("path") if isinstance(root, dict) else None)


def is_closed(pod: Pod | None, config: Effective) -> bool:
    """Return whether nothing that a container says of GPUs counts, because a pod says it."""
    if pod is None or not pod.by_kubernetes:
        return False
    if not config.pod_variables:
        return True
    from cgpu.pod_shares import is_on

    return is_on(paths.SHARES)


def _nodes(
    spec: Mapping[str, object], environment: dict[str, str], config: Effective, *, words_first: bool
) -> Named | None:
    if not any(spec.get(member) for member in ("linux", "mounts", "annotations", "hooks")):
        return None
    from cgpu.request.device_nodes import find

    version, required = (environment.get(name) for name in LEGACY)
    legacy = bool(version) and not required and VENDOR not in environment
    return find(spec, config, legacy=legacy, words_first=words_first)


def _values(
    counted: Mapping[str, str],
    annotations: Mapping[str, str],
    config: Effective,
    *,
    known: bool,
    sandbox: bool,
) -> dict[str, SourcedValue | None]:
    """Choose between environment and annotations; `empty` is a key here too. Raises CgpuError.

    counted: the environment, as far as it counts. known: whether the annotations are those of who started
    the container, and not of the image.
    """
    by_variable = _by_variables(counted, config)
    check_annotations(annotations)
    by_annotation = {
        key: _value(key, names, annotations, "annotation ", trusted=known)
        for key, (_, names) in NAMES.items()
    }
    if not known:
        _refuse_unknown(by_variable, by_annotation, config)
    elif sandbox:
        annotations, by_annotation = {}, {}
    if _amount(by_annotation) is not None:
        by_variable = {**by_variable, "mem": None, "container": None}
    values = {key: by_annotation.get(key) or by_variable[key] for key in NAMES}
    # An annotation sets the amount on purpose: the environment must not enlarge it or switch it off.
    amount = _amount(values)
    if amount is not None and amount.trusted:
        values["dev"] = _only_trusted(values["dev"])
        values["disable"] = _only_trusted(values["disable"])
    _refuse_second_amount(values)
    values["empty"] = _empty_amount(counted, annotations) or by_variable.get("empty")
    return values


def _amount(values: Mapping[str, SourcedValue | None]) -> SourcedValue | None:
    return values.get("mem") or values.get("container")


def _by_variables(environment: Mapping[str, str], config: Effective) -> dict[str, SourcedValue | None]:
    check_variables(environment)
    found = {key: _value(key, names, environment) for key, (names, _) in NAMES.items()}
    cdi = _cdi_devices(environment)
    if cdi is not None and found["devices"] is not None:
        raise found["devices"].refuse(f"{cdi.source} is given too, and means the same; set one of them")
    found["devices"] = found["devices"] or cdi
    if config.allow_hami_variables and any(name.startswith(HAMI) for name in environment):
        from cgpu.request import hami

        amount, weight = hami.amount(environment), hami.weight(environment)
        if _amount(found) is None:
            found["mem"] = amount
            found["empty"] = hami.empty_amount(environment)
        found["weight"] = found["weight"] or weight
    return found


def _cdi_devices(environment: Mapping[str, str]) -> SourcedValue | None:
    """Return the GPUs that --device names, in the order of their indexes. Raises CgpuError."""
    indexes = []
    for name, text in environment.items():
        if name.startswith(CDI_VARIABLE) and not is_of_a_service(name):
            index = name.removeprefix(CDI_VARIABLE)
            if not is_number(index, 4) or text != "1":
                raise CgpuError(
                    f"{show(name)}={show(text)}: expected OPENCGPU_CDI_GPU_0=1 or alike, as --device "
                    "opencgpu.io/gpu=0 sets it"
                )
            indexes.append(int(index))
    listed = ",".join(map(str, sorted(indexes)))
    return SourcedValue(f"device {CDI_KIND}", listed) if indexes else None


def _value(
    key: str, names: Sequence[str], texts: Mapping[str, str], label: str = "", *, trusted: bool = False
) -> SourcedValue | None:
    """Return the value of whichever name is set; an empty one is not. Raises CgpuError."""
    found = None
    for name in names:
        text = texts.get(name, "")
        wanted = expected(key, text)
        if wanted is not None:
            raise CgpuError(f"{label}{name}={show(text)}: {malformed(key, name, text)}")
        if text and found is not None:
            raise found.refuse(f"{label}{name} is set too, and means the same; set one of them")
        if text:
            found = SourcedValue(f"{label}{name}", text, trusted=trusted)
    return found


def _refuse_second_amount(values: Mapping[str, SourcedValue | None]) -> None:
    mem = values["mem"]
    second = values["container"] or values["dev"]
    if mem is not None and second is not None:
        raise mem.refuse(f"{second.source} is set too; set {mem.source} alone, which has its unit with it")


def _empty_amount(environment: Mapping[str, str], annotations: Mapping[str, str]) -> SourcedValue | None:
    for key in ("mem", "container"):
        variables, notes = NAMES[key]
        if any(environment.get(name) == "" for name in variables):
            return SourcedValue(variables[0], "")
        if any(annotations.get(name) == "" for name in notes):
            return SourcedValue(f"annotation {notes[0]}", "")
    return None


def _refuse_unknown(
    by_variable: Mapping[str, SourcedValue | None],
    by_annotation: Mapping[str, SourcedValue | None],
    config: Effective,
) -> None:
    """Refuse annotations that may be the image's beside, or in the place of, words that count more."""
    annotated = next(filter(None, by_annotation.values()), None)
    if annotated is None:
        return
    other = next(filter(None, by_variable.values()), None)
    if other is None and config.allow_environment:
        return
    why = f"{other.source} is set too" if other is not None else "allow_environment is false"
    raise annotated.refuse(
        f"it may come from the image, and {why}; accepted where trust_annotations: always (podman from 4.6 "
        "on copies none of an image)"
    )


def _only_trusted(value: SourcedValue | None) -> SourcedValue | None:
    return value if value is not None and value.trusted else None
