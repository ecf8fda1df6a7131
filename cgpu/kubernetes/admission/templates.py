# SPDX-License-Identifier: Apache-2.0
"""The ResourceClaimTemplates that admission makes: one for each shape and namespace, collected when unused.

Kubernetes makes the claims of them, with the pod as owner; admission makes none that could be left over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, cast

import httpx2
from lightkube import Client
from lightkube.core.client import LabelSelector
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.resource_v1 import ResourceClaimTemplateSpec
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaimTemplate, ResourceSlice
from lightkube.types import PatchType
from lightkube.utils.quantity import parse_quantity

from cgpu.errors import CgpuError, show
from cgpu.kubernetes.admission.shape import MANAGED_BY, MANAGER
from cgpu.kubernetes.names import DRIVER, GATE_OFF, MEMORY
from cgpu.sizes import MIB

LAST_USED = "opencgpu.io/last-used"
TOUCH_AFTER = timedelta(hours=1)
NO_AMOUNTS = f"a part of a GPU cannot be given, since this cluster gives out whole devices alone: {GATE_OFF}"
SIZES_S = 30.0  # how long the sizes of the cluster's cards are remembered
FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class Templates:
    """The templates of a cluster."""

    def __init__(
        self, client: Client, http: httpx2.Client, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Use a client. http: for what lightkube cannot say: a removal with preconditions. now: for tests."""
        self._client = client
        self._http = http
        self._now = now
        self._sizes: tuple[float, tuple[int, ...]] = (-SIZES_S, ())
        self._amounts_count = False  # until the API server has been seen to keep one

    def ensure(self, namespace: str, name: str, spec: dict[str, Any]) -> None:
        """Have a template of that name. Raises CgpuError when it cannot be, or is another one."""
        used = {LAST_USED: self._now().strftime(FORMAT)}
        labels = {MANAGED_BY: MANAGER}
        metadata = ObjectMeta(name=name, namespace=namespace, labels=labels, annotations=used)
        described = cast("ResourceClaimTemplateSpec", ResourceClaimTemplateSpec.from_dict(spec))
        wanted = ResourceClaimTemplate(metadata=metadata, spec=described)
        what = f"ResourceClaimTemplate {show(namespace)}/{name}"
        try:
            self._create_or_touch(wanted, spec, what)
        except ApiError as error:
            raise CgpuError(f"{what}: the API server says: {show(error.status.message or '')}") from error
        except httpx2.HTTPError as error:
            raise CgpuError(f"{what}: no answer from the API server ({type(error).__name__})") from error

    def sizes(self) -> Sequence[int]:
        """Return the MiB of all kinds of card that nodes publish. Raises CgpuError."""
        read, found = self._sizes
        if time.monotonic() - read > SIZES_S:
            try:
                found = tuple(sorted(set(self._published())))
            except (ApiError, httpx2.HTTPError) as error:
                raise CgpuError(f"ResourceSlices: no answer from the API server ({error})") from error
            self._sizes = (time.monotonic(), found)
        return found

    def collect(self, older_than: timedelta, *, dry_run: bool = False) -> Iterator[str]:
        """Remove templates that no pod names and no pod was given for so long; yield their names."""
        used = {
            (pod.metadata.namespace, entry.resourceClaimTemplateName)
            for pod in self._client.list(Pod, namespace="*", chunk_size=500)
            if pod.spec is not None and pod.metadata is not None
            for entry in pod.spec.resourceClaims or ()
        }
        managed: LabelSelector = {MANAGED_BY: MANAGER}
        for one in self._client.list(ResourceClaimTemplate, namespace="*", labels=managed, chunk_size=500):
            metadata = one.metadata
            if metadata is None or metadata.name is None or metadata.namespace is None:
                continue
            if (metadata.namespace, metadata.name) in used or self._used_since(metadata, older_than):
                continue
            yield f"{metadata.namespace}/{metadata.name}"
            if not dry_run:
                self._delete(metadata)

    def _create_or_touch(self, wanted: ResourceClaimTemplate, spec: dict[str, Any], what: str) -> None:
        assert wanted.metadata is not None
        name, namespace = str(wanted.metadata.name), str(wanted.metadata.namespace)
        try:
            self._create(wanted)
        except ApiError as error:
            if error.status.code != HTTPStatus.CONFLICT:
                raise
        else:
            return
        found = self._client.get(ResourceClaimTemplate, name, namespace=namespace)
        if found.spec is None or _essence(found.spec.to_dict()) != _essence(spec):
            raise CgpuError(
                f"{what}: another one has this name; remove it: kubectl delete -n {namespace} {name}"
            )
        if found.metadata is not None and not self._used_since(found.metadata, TOUCH_AFTER):
            used = {"metadata": {"annotations": wanted.metadata.annotations}}
            self._client.patch(
                ResourceClaimTemplate, name, used, namespace=namespace, patch_type=PatchType.MERGE
            )

    def _create(self, wanted: ResourceClaimTemplate) -> None:
        # A template whose amounts the API server drops would ask for a whole device, so it must not be there.
        if not self._amounts_count:
            if not _has_amounts(self._client.create(wanted, dry_run=True)):
                raise CgpuError(NO_AMOUNTS)
            self._amounts_count = True
        self._client.create(wanted)

    def _used_since(self, metadata: ObjectMeta, span: timedelta) -> bool:
        text = (metadata.annotations or {}).get(LAST_USED, "")
        try:
            used = datetime.strptime(text, FORMAT).replace(tzinfo=UTC)
        except ValueError:
            return False
        return self._now() - used < span

    def _delete(self, metadata: ObjectMeta) -> None:
        """Remove a template, unless a pod was admitted with it meanwhile: that changes its version."""
        options = {"preconditions": {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}}
        path = (
            f"apis/resource.k8s.io/v1/namespaces/{metadata.namespace}/resourceclaimtemplates/{metadata.name}"
        )
        response = self._http.request("DELETE", path, json=options)
        if response.status_code not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise CgpuError(f"ResourceClaimTemplate {metadata.name}: not removed ({response.status_code})")

    def _published(self) -> Iterator[int]:
        for one in self._client.list(ResourceSlice, fields={"spec.driver": DRIVER}, chunk_size=500):
            for device in one.spec.devices or ():
                size = parse_quantity((device.capacity or {}).get(MEMORY, {}).get("value"))
                if size is not None:
                    yield int(size) // MIB


def _has_amounts(kept: ResourceClaimTemplate) -> bool:
    requests = _requests(kept.to_dict()["spec"])
    return all(_amounts(option) for request in requests for option in _options(request))


def _essence(spec: dict[str, Any]) -> Any:
    """Return what counts of a spec: without what the API server fills in, amounts as bytes."""
    return [
        [
            (
                option.get("deviceClassName"),
                option.get("count") or 1,
                [one["cel"]["expression"] for one in option.get("selectors") or ()],
                {k: parse_quantity(str(v)) for k, v in _amounts(option).items()},
            )
            for option in _options(request)
        ]
        for request in _requests(spec)
    ]


def _requests(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spec["spec"]["devices"]["requests"]
    return found


def _options(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or []


def _amounts(option: dict[str, Any]) -> dict[str, Any]:
    return (option.get("capacity") or {}).get("requests") or {}
