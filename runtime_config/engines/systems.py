# SPDX-License-Identifier: Apache-2.0
"""Systems on which a file of settings does not last: their settings come from elsewhere at each boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cgpu import distribution
from cgpu.node_files import below
from cgpu.runtime_config.files import read_text


@dataclass(frozen=True, slots=True)
class System:
    """A system whose files do not last. by_hand: a person's work instead; after_boot: what to do then."""

    by_hand: str = ""
    after_boot: str = ""


#: by the ID of os-release
SYSTEMS: Mapping[str, System] = {
    # bottlerocket-os/bottlerocket issues 2408 and 2343: settings.* has no key for containerd's runtimes.
    "bottlerocket": System(
        by_hand="Bottlerocket makes containerd's settings of its API, which has none for runtimes: build a "
        "variant whose template of containerd's settings has the runtime cgpu"
    ),
    # docs.siderolabs.com/talos, "Containerd": CRICustomizationConfig since 1.15, before a file of this name.
    "talos": System(
        by_hand="Talos makes containerd's settings of the machine config: add the runtime cgpu there, with "
        "talosctl patch machineconfig, as a CRICustomizationConfig, or before 1.15 in machine.files as "
        "/etc/cri/conf.d/20-customization.part"
    ),
    # cloud.google.com/container-optimized-os/docs/concepts/disks-and-filesystem: /etc is a tmpfs.
    "cos": System(after_boot="To do: after each boot: cgpu install (Container-Optimized OS forgets /etc)"),
}


def system(root: Path) -> System:
    """Return what is known of the system below a root, by its os-release. Raises CgpuError."""
    texts = (read_text(below(root, path), root) for path in distribution.OS_RELEASE)
    text = next((text for text in texts if text), "")
    fields = {name: value for name, _, value in distribution.FIELD.findall(text)}
    return SYSTEMS.get(fields.get("ID", ""), System())
