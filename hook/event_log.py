# SPDX-License-Identifier: Apache-2.0
"""Events that the hook, the runtime and `cgpu run` log: refused containers, and names.

The engine writes the rest. Nothing here raises: a container starts, or is refused, whether there is a log or
not.
"""

from __future__ import annotations

from cgpu.hook.state import OF_DOCKER, POD
from cgpu.slice import ATTRIBUTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cgpu.request.grants import Grant

MAX_ID = 127
# By what they are called in an event: annotations of containerd, and the kubelet's labels, which CRI-O has.
NAMES = {
    "pod": POD,
    "namespace": ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"),
    "container": ("io.kubernetes.cri.container-name", "io.kubernetes.container.name"),
}


def named(container: str, bundle: str, annotations: Mapping[str, object]) -> None:
    """Write the name of a container with a slice: after its removal no program knows it."""
    names = _names(container, bundle, annotations)
    if names:
        _append("named", {"id": container, **names})


def refused(
    container: str,
    bundle: str,
    annotations: Mapping[str, object],
    grants: Sequence[Grant],
    message: str,
) -> None:
    """Write that a container was refused, for each GPU of which it was to have a slice, or once."""
    fields = {"id": container[:MAX_ID], **_names(container, bundle, annotations), "message": message}
    for gpu, *values in grants:
        asked = {one.name: value for one, value in zip(ATTRIBUTES, values, strict=True)}
        _append("refused", {"gpu": gpu, **fields, **asked})
    if not grants:
        _append("refused", fields)


def _names(container: str, bundle: str, annotations: Mapping[str, object]) -> dict[str, str]:
    name = _docker_name(container, bundle)
    return {**names_of(annotations), **({"name": name} if name else {})}


def names_of(annotations: Mapping[str, object]) -> dict[str, str]:
    """Return the names of a container in its pod; nothing where no annotation says them."""
    found: dict[str, str] = {}
    for key, places in NAMES.items():
        value = next((annotations[place] for place in places if place in annotations), None)
        if isinstance(value, str):
            found[key] = value
    return found


def _docker_name(container: str, bundle: str) -> str:
    if OF_DOCKER not in bundle:
        return ""
    try:
        from cgpu.hook.docker_name import docker_name

        return docker_name(bundle, container)
    except Exception:  # noqa: BLE001, whatever it is, the container starts, or is refused
        return ""


def _append(event: str, fields: Mapping[str, str | int]) -> None:
    try:
        from cgpu import paths
        from cgpu.events.append import append

        append(event, fields, paths.EVENTS)
    except Exception:  # noqa: BLE001, whatever it is, the container starts
        return
