# SPDX-License-Identifier: Apache-2.0
"""The names of variables and annotations, and the words for an unknown one."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.slice import BESIDE_MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "opencgpu.io/"
# Prefix of our annotations, also when it is a mistake.
NEAR_PREFIX = (PREFIX, "opencgpu/", "opencgpu.com/")
OURS = ("OPENCGPU_", "ALIYUN_COM_GPU_")
# As a variable of ours can be written by mistake: how a name begins.
MISSPELT = (*OURS, "opencgpu_", "aliyun_com_gpu_", "OPENCGPU-", "ALIYUN-COM-GPU-")
# The variables, then the annotations, that say one thing: any of them, but not two at once.
NAMES = {
    "mem": (("OPENCGPU_MEM",), (PREFIX + "mem",)),
    "container": (("ALIYUN_COM_GPU_MEM_CONTAINER",), (PREFIX + "mem-container",)),
    "dev": (("ALIYUN_COM_GPU_MEM_DEV",), (PREFIX + "mem-dev",)),
    "devices": (
        ("OPENCGPU_GPUS", "ALIYUN_COM_GPU_VISIBLE_DEVICES"),
        (PREFIX + "gpus", PREFIX + "visible-devices"),
    ),
    **{one.asked: (one.variables, one.annotations) for one in BESIDE_MEMORY},
    "disable": (("CGPU_DISABLE",), (PREFIX + "disable",)),
}
# Variable that --device opencgpu.io/gpu=0 sets; see cgpu/cdi_devices.py.
CDI_KIND = PREFIX + "gpu"
CDI_VARIABLE = "OPENCGPU_CDI_GPU_"
# Names that others have for the same, and that are like another of ours by their letters.
OTHER_WORDS = {
    "OPENCGPU_DEVICES": "OPENCGPU_GPUS",
    "OPENCGPU_DEVICE": "OPENCGPU_GPUS",
    "OPENCGPU_VISIBLE_DEVICES": "OPENCGPU_GPUS",
    "OPENCGPU_INDEX": "OPENCGPU_GPUS",
    "OPENCGPU_UUID": "OPENCGPU_GPUS",
    "OPENCGPU_LIMIT": "OPENCGPU_MEM",
    "OPENCGPU_SIZE": "OPENCGPU_MEM",
    "OPENCGPU_CORES": "OPENCGPU_WEIGHT",
    "OPENCGPU_SHARE": "OPENCGPU_WEIGHT",
    "OPENCGPU_HIGH_PRIO": "OPENCGPU_PRIORITY",
    "ALIYUN_COM_GPU_MEM": "ALIYUN_COM_GPU_MEM_CONTAINER",
    PREFIX + "device": PREFIX + "gpus",
    PREFIX + "devices": PREFIX + "gpus",
}
# Variable that the CDI device of a share sets, followed by the share's id in capitals; see cgpu/shares.py.
SHARE_KIND = PREFIX + "share"
SHARE_VARIABLE = "OPENCGPU_SHARE_"
# Variables that Alibaba's device plugin and scheduler write beside those above, for each other
# (github.com/AliyunContainerService/gpushare-device-plugin); UNIT cancels out.
OF_THE_PLUGIN = (
    "ALIYUN_COM_GPU_MEM_UNIT",
    "ALIYUN_COM_GPU_MEM_IDX",
    "ALIYUN_COM_GPU_MEM_POD",
    "ALIYUN_COM_GPU_MEM_ASSIGNED",
    "ALIYUN_COM_GPU_MEM_ASSUME_TIME",
    "ALIYUN_COM_GPU_MEM_ASSIGN_TIME",
)
# podman and CRI-O name themselves. podman before 4.6 copies the annotations of the image, these included:
# CRI-O's have to agree with the root file system, whose path no image knows before.
MANAGER = "io.container.manager"
PODMAN_MARKS = "io.podman."
CRIO_MARKS = "io.kubernetes.cri-o."
CRIO_ROOT = CRIO_MARKS + "MountPoint"


def check_variables(found: Iterable[str]) -> None:
    """Refuse a variable that looks like one of ours, and is none. Raises CgpuError."""
    known = [name for names, _ in NAMES.values() for name in names]
    for name in found:
        others = (
            name in OF_THE_PLUGIN or name.startswith((CDI_VARIABLE, SHARE_VARIABLE)) or is_of_a_service(name)
        )
        if _folded(name).startswith(OURS) and name not in known and not others:
            near = OTHER_WORDS.get(_folded(name)) or _nearest(_folded(name), known)
            raise CgpuError(f"variable {show(name)}: there is none of that name; did you mean {near}?")


def share_variable(share: str) -> str:
    """Return the variable of a share: each has its own, as of two of one name the last would count."""
    return SHARE_VARIABLE + share.upper().replace("-", "_")


def check_annotations(found: Iterable[str]) -> None:
    """Refuse an annotation that looks like one of ours, and is none. Raises CgpuError."""
    known = [name for _, names in NAMES.values() for name in names]
    for name in found:
        if name.startswith(NEAR_PREFIX) and name not in known:
            near = OTHER_WORDS.get(name) or _nearest(name, known)
            raise CgpuError(f"annotation {show(name)}: there is none of that name; did you mean {near}?")


def _folded(name: str) -> str:
    """Return a name as a variable of ours is spelt: in capitals, with underscores."""
    return name.upper().replace("-", "_") if name.startswith(MISSPELT) else name


def is_of_a_service(name: str) -> bool:
    """Return whether the kubelet may have made a variable.

    Every container gets such variables of each service of its namespace, and one may be called opencgpu.
    """
    return name.endswith(("_SERVICE_HOST", "_PORT")) or "_PORT_" in name


def _nearest(name: str, known: list[str]) -> str:
    # Imported here, as a container's start is paid for each module.
    from difflib import get_close_matches

    return get_close_matches(name[:128], known, 1, cutoff=0.0)[0]
