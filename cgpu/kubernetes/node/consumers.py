# SPDX-License-Identifier: Apache-2.0
"""Which containers of which pods may use a claim's shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lightkube.models.core_v1 import Container, PodResourceClaim
from lightkube.resources.core_v1 import Pod

# By request of the claim: the names of the containers.
Containers = Mapping[str, tuple[str, ...]]


def containers(pod: Pod, claim: str, requests: Iterable[str]) -> Containers:
    """Return for each request of a claim the pod's containers that name it, init containers too.

    claim: its name. A container that names no request of the claim has all of them.
    """
    names = {one.name for one in _claims(pod) if _resolved(pod, one) == claim}
    named = list(_references(pod, names))
    return {
        request: tuple(
            sorted({name for name, wanted in named if wanted in (None, request.partition("/")[0])})
        )
        for request in requests
    }


def _claims(pod: Pod) -> Iterable[PodResourceClaim]:
    return (pod.spec.resourceClaims or ()) if pod.spec is not None else ()


def _resolved(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim that an entry stands for; of a template's, the pod's status says it."""
    if entry.resourceClaimName is not None:
        return entry.resourceClaimName
    statuses = (pod.status.resourceClaimStatuses or ()) if pod.status is not None else ()
    return next((one.resourceClaimName for one in statuses if one.name == entry.name), None)


def _references(pod: Pod, names: set[str]) -> Iterator[tuple[str, str | None]]:
    for container in _containers(pod):
        for claim in (container.resources.claims or ()) if container.resources is not None else ():
            if claim.name in names:
                yield container.name, claim.request


def _containers(pod: Pod) -> Iterator[Container]:
    if pod.spec is not None:
        yield from pod.spec.initContainers or ()
        yield from pod.spec.containers
