# SPDX-License-Identifier: Apache-2.0
"""Which containers of which pods may use a claim's shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lightkube.models.core_v1 import Container, PodResourceClaim
from lightkube.resources.core_v1 import Pod

from cgpu.errors import CgpuError, show, some

NAMED = 3  # containers in a message


class AtOnceError(CgpuError):
    """Containers of a pod that run beside each other name one request."""


# By request of the claim: the names of the containers.
Containers = Mapping[str, tuple[str, ...]]


def containers(pod: Pod, claim: str, requests: Iterable[str]) -> Containers:
    """Return for each request of a claim the pod's containers that name it, init containers too.

    claim: its name. A container that names no request of the claim has all of them. Raises AtOnceError.
    """
    names = {one.name for one in _claims(pod) if _resolved(pod, one) == claim}
    found = {}
    for request in requests:
        name = request.partition("/")[0]
        found[request] = _containers_of(pod, names, name, set(_by_extended_resource(pod, claim, name)))
    return found


def _containers_of(pod: Pod, claims: set[str], request: str, others: set[str]) -> tuple[str, ...]:
    """Return the names. One container at a time has a share, so only init containers may name it together.

    others: that have the request, and do not name it.
    """
    found: list[str] = []
    running: list[str] = []
    most: list[str] = []
    for container, stays in _containers(pod):
        if container.name not in others and not _names(container, claims, request):
            continue
        found.append(container.name)
        most = max(most, [*running, container.name], key=len)
        if stays:
            running.append(container.name)
    if len(most) > 1:
        raise AtOnceError(
            f"request {show(request)} is named by {len(most)} containers that run at once "
            f"({some(most, NAMED)}); expected one: give each container a request of its own"
        )
    return tuple(found)


def _claims(pod: Pod) -> Iterable[PodResourceClaim]:
    return (pod.spec.resourceClaims or ()) if pod.spec is not None else ()


def _resolved(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim that an entry stands for; of a template's, the pod's status says it."""
    if entry.resourceClaimName is not None:
        return entry.resourceClaimName
    statuses = (pod.status.resourceClaimStatuses or ()) if pod.status is not None else ()
    return next((one.resourceClaimName for one in statuses if one.name == entry.name), None)


def _by_extended_resource(pod: Pod, claim: str, request: str) -> Iterator[str]:
    """Yield the containers that have asked by a resource for which the scheduler has made a claim."""
    made = pod.status.extendedResourceClaimStatus if pod.status is not None else None
    if made is not None and made.resourceClaimName == claim:
        yield from (one.containerName for one in made.requestMappings if one.requestName == request)


def _names(container: Container, claims: set[str], request: str) -> bool:
    listed = (container.resources.claims or ()) if container.resources is not None else ()
    return any(one.name in claims and one.request in (None, request) for one in listed)


def _containers(pod: Pod) -> Iterator[tuple[Container, bool]]:
    """Yield each container, and whether it runs on when the next one starts."""
    if pod.spec is not None:
        for one in pod.spec.initContainers or ():
            yield one, one.restartPolicy == "Always"
        for one in pod.spec.containers:
            yield one, True
