# SPDX-License-Identifier: Apache-2.0
"""A pod that asks by other systems' names, as one that has claims: its changes, and the templates for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cgpu.errors import CgpuError, show
from cgpu.kubernetes.admission import asked, cards, nodes, turns, unheeded
from cgpu.kubernetes.admission.shape import PREFIX, Shape, name_of, template
from cgpu.kubernetes.names import RUNTIME_CLASS

CLAIM_PREFIX = "opencgpu-"
DEFAULT_SCHEDULER = "default-scheduler"
MAX_LABEL = 63  # of a claim's name in a pod (RFC 1123)
KINDS = ("initContainers", "containers")
MOST = 64  # containers of a pod that ask: each may need a template, made before the API server judges the pod


@dataclass(frozen=True, slots=True)
class Rewritten:
    """patch: a JSON Patch (RFC 6902) of a pod. templates: by name, specs that have to exist before it.

    warnings: lines for whoever makes the pod. dropped: names of resources that no quota counts of it.
    """

    patch: list[dict[str, Any]] = field(default_factory=list)
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    dropped: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the chart for all pods.

    ack_unit: MiB of one aliyun.com/gpu-mem. scheduler: places them. keeps_names: it ignores the names, so
    that they stay for quotas to count.
    """

    ack_unit: int = asked.MIB_OF_GIB
    scheduler: str = DEFAULT_SCHEDULER
    keeps_names: bool = False

    @property
    def kept(self) -> frozenset[str]:
        """The names that stay beside a claim."""
        return asked.KEPT if self.keeps_names else frozenset()


DEFAULTS = Settings()


class Published(Protocol):
    """The cards of the cluster."""

    def sizes(self) -> Sequence[int]:
        """Return the MiB of all kinds of card, the most frequent first."""

    def largest(self, mib: int) -> int:
        """Return the MiB of the largest card, or some that are as many; 0 where none is known."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    kind: str
    index: int
    container: Mapping[str, Any]
    shape: Shape

    @property
    def claim(self) -> str:
        """The name of its claim in the pod; not by its place, as others may put containers before it."""
        name = str(self.container.get("name"))
        if len(name) > MAX_LABEL - len(CLAIM_PREFIX):
            name = hashlib.sha256(name.encode()).hexdigest()[:16]
        return CLAIM_PREFIX + name


def rewrite(
    pod: Mapping[str, Any],
    published: Published,
    settings: Settings = DEFAULTS,
    prefer: Callable[[], str] = lambda: "",
) -> Rewritten:
    """Return what to change of a pod, nothing for one that asks for nothing of ours. Raises CgpuError.

    prefer: returns the expression for the card that a pod prefers; called once for a pod that asks.
    """
    spec = pod.get("spec") or {}
    wanted = list(_wanted(pod, settings))
    if len(wanted) > MOST:
        raise CgpuError(f"{len(wanted)} containers ask for parts of GPUs; expected at most {MOST} in a pod")
    found = Rewritten()
    claims = {one.get("name"): one for one in spec.get("resourceClaims") or ()}
    preferred: str | None = None
    for one in wanted:
        sizes = _sizes(one.shape, published)
        found.dropped.update(asked.names_beside(one.container) - settings.kept)
        if _is_rewritten(one, claims, sizes, settings):
            found.patch.extend(_without_again(one, settings))
            continue
        preferred = prefer() if preferred is None else preferred
        described = template(replace(one.shape, preferred=preferred), sizes)
        name = name_of(described)
        found.patch.append(_with_claim(one, settings))
        found.patch.append(_claim_of_pod(claims, one.claim, name))
        found.templates[name] = described
        found.warnings.extend(_warnings(one, published))
    if wanted:
        found.patch.extend(_runtime(spec))
        found.patch.extend(_scheduler(spec, settings))
        found.patch.extend(nodes.prefer(pod))
        found.warnings.extend(unheeded.warnings(pod, settings.scheduler))
    found.patch.extend(_without_names(spec, {(one.kind, one.index) for one in wanted}))
    return found


def _is_rewritten(one: _Wanted, claims: Mapping[str, Any], sizes: Sequence[int], settings: Settings) -> bool:
    """Tell whether a container that asks has its claim already: by an earlier call for the pod.

    Where names do not stay, a LimitRange puts its default there again, which may be another amount.
    """
    used = [entry.get("name") for entry in (one.container.get("resources") or {}).get("claims") or ()]
    made = str((claims.get(one.claim) or {}).get("resourceClaimTemplateName", ""))
    if one.claim not in used or not made.startswith(PREFIX):
        return False
    if not settings.keeps_names:
        return True
    shapes = (replace(one.shape, preferred=expression) for expression in turns.expressions())
    return any(made == name_of(template(shape, sizes)) for shape in shapes)


def _without_again(one: _Wanted, settings: Settings) -> Iterator[dict[str, Any]]:
    resources = _cleaned(one.container, settings.kept)
    if resources != one.container.get("resources"):
        yield _resources(one.kind, one.index, resources)


def _sizes(shape: Shape, published: Published) -> Sequence[int]:
    """Return the sizes of card of which a percentage is something else. Raises CgpuError without any."""
    if shape.percent is None:
        return ()
    found = published.sizes()
    if not found:
        raise CgpuError("a percentage of a GPU is asked for, and no node has published a GPU yet; try again")
    return found


def _warnings(one: _Wanted, published: Published) -> Iterator[str]:
    yield from unheeded.priority(one.container)
    mib = one.shape.mib or 0
    largest = published.largest(mib)
    if largest and mib > largest:
        where = f"container {show(one.container.get('name'))}"
        yield f"{where}: {mib} MiB of a GPU: the pod waits, as the largest GPU of a node has {largest} MiB"


def _wanted(pod: Mapping[str, Any], settings: Settings) -> Iterator[_Wanted]:
    metadata = pod.get("metadata") or {}
    spec = pod.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    # KAI takes its annotations of pods that it schedules; others may use these words for something else. They
    # stay, and a second call, which another webhook may cause, finds the pod with another scheduler.
    annotated = asked.of_annotations(annotations) if spec.get("schedulerName") == unheeded.KAI else None
    whose = annotations.get(asked.ANNOTATED_CONTAINER)
    if whose is None and spec.get("containers"):
        whose = spec["containers"][0].get("name")
    taken = False
    selectors: tuple[str, ...] | None = None
    for kind, index, container in _containers(spec):
        shape = asked.of_container(container, metadata.get("labels") or {}, settings.ack_unit)
        if annotated is not None and container.get("name") == whose:
            if shape is not None:
                raise CgpuError(f"container {show(whose)}: it asks by annotations and by resources")
            shape, taken = annotated, True
        if shape is not None:
            # Those of a pod that asks for nothing of ours are read by nobody.
            selectors = cards.selectors(annotations) if selectors is None else selectors
            yield _Wanted(kind, index, container, replace(shape, selectors=selectors))
    if annotated is not None and not taken:
        raise CgpuError(
            f"annotation {asked.ANNOTATED_CONTAINER}: {show(whose)}: the pod has no such container"
        )


def _with_claim(one: _Wanted, settings: Settings) -> dict[str, Any]:
    """Return the change that gives a container its claim in place of the names, or beside those that stay."""
    resources = _cleaned(one.container, settings.kept)
    resources["claims"] = [*(resources.get("claims") or ()), {"name": one.claim}]
    return _resources(one.kind, one.index, resources)


def _resources(kind: str, index: int, value: dict[str, Any]) -> dict[str, Any]:
    return {"op": "add", "path": f"/spec/{kind}/{index}/resources", "value": value}


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield the list that each container is in, its place there, and the container."""
    for kind in KINDS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield kind, index, container


def _without_names(spec: Mapping[str, Any], done: set[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """Yield the changes of containers that ask for nothing, by an amount of 0: no node has these names."""
    for kind, index, container in _containers(spec):
        names = set(asked.names_in(container)) - asked.OTHERS_NAMES
        if names and (kind, index) not in done:
            yield _resources(kind, index, _cleaned(container, frozenset()))


def _cleaned(container: Mapping[str, Any], kept: frozenset[str]) -> dict[str, Any]:
    ours = set(asked.names_in(container)) - kept
    resources = dict(container.get("resources") or {})
    for kind in ("limits", "requests"):
        if kind in resources:
            resources[kind] = {name: amount for name, amount in resources[kind].items() if name not in ours}
    return resources


def _claim_of_pod(claims: dict[str, Any], claim: str, name: str) -> dict[str, Any]:
    """Return the change that adds a claim to a pod's, and add it to these."""
    if claim in claims:
        raise CgpuError(f"resourceClaims: {claim}: this name is needed for a claim; expected another one")
    first = not claims
    entry = claims[claim] = {"name": claim, "resourceClaimTemplateName": name}
    if first:
        return {"op": "add", "path": "/spec/resourceClaims", "value": [entry]}
    return {"op": "add", "path": "/spec/resourceClaims/-", "value": entry}


def _runtime(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    runtime = spec.get("runtimeClassName")
    if runtime not in (None, RUNTIME_CLASS, "nvidia"):
        raise CgpuError(
            f"runtimeClassName: {show(runtime)}: a GPU slice takes {RUNTIME_CLASS}; leave it out, or set that"
        )
    if runtime != RUNTIME_CLASS:
        yield {"op": "add", "path": "/spec/runtimeClassName", "value": RUNTIME_CLASS}


def _scheduler(spec: Mapping[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    now = spec.get("schedulerName", DEFAULT_SCHEDULER)
    if now != settings.scheduler and now in (*unheeded.SCHEDULERS, DEFAULT_SCHEDULER):
        yield {"op": "add", "path": "/spec/schedulerName", "value": settings.scheduler}
