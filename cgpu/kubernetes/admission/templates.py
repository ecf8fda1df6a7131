# SPDX-License-Identifier: Apache-2.0
"""The ResourceClaimTemplates that admission makes: one for each shape and namespace, collected when unused.

Kubernetes makes the claims of them, with the pod as owner; admission makes none that could be left over. A
namespace has a bounded number of them, whether users ask by many shapes, or an attacker by made-up reviews.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import islice
from typing import Any, cast

import httpx2
from lightkube import Client
from lightkube.core.client import LabelSelector
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.resource_v1 import ResourceClaimTemplateSpec
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaimTemplate
from lightkube.types import PatchType
from lightkube.utils.quantity import parse_quantity

from cgpu.errors import CgpuError, show
from cgpu.kubernetes.admission.cards import Cards
from cgpu.kubernetes.admission.shape import MANAGED_BY, MANAGER
from cgpu.kubernetes.admission.turns import Turns
from cgpu.kubernetes.names import GATE_OFF

LAST_USED = "opencgpu.io/last-used"
TOUCH_AFTER = timedelta(hours=1)
# A template says to the hour when a pod was last given it, and that pod may still be on its way.
LEAST_UNUSED = timedelta(hours=2)
MOST = 256  # templates of a namespace; a pod has up to 64 of its own
FULL_S = 10.0  # how long a full namespace is remembered: each question lists what it has
STRIPES = 16
NO_AMOUNTS = f"a part of a GPU cannot be given, since this cluster gives out whole devices alone: {GATE_OFF}"
FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class Templates:
    """The templates of a cluster."""

    def __init__(
        self,
        client: Client,
        http: httpx2.Client,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        most: int = MOST,
    ) -> None:
        """Use a client. http: for what lightkube cannot say: a removal with preconditions. now: for tests.

        most: templates that a namespace may have of admission.
        """
        self.client = client
        self.cards = Cards(client)
        self.turns = Turns()
        self._http = http
        self._now = now
        self._amounts_count = False  # until the API server has been seen to keep one
        self._most = most
        # One thread at a time makes templates of a namespace, so that none is made after the last one.
        self._making = tuple(threading.Lock() for _ in range(STRIPES))
        self._full: dict[str, tuple[float, frozenset[str]]] = {}

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

    def collect(self, older_than: timedelta, *, dry_run: bool = False) -> Iterator[str]:
        """Remove templates that no pod names and no pod was given for so long; yield their names.

        Where a namespace has more than half of what it may have, they go as soon as no pod can be on its way.
        """
        used = {
            (pod.metadata.namespace, entry.resourceClaimTemplateName)
            for pod in self.client.list(Pod, namespace="*", chunk_size=500)
            if pod.spec is not None and pod.metadata is not None
            for entry in pod.spec.resourceClaims or ()
        }
        managed: LabelSelector = {MANAGED_BY: MANAGER}
        listed = self.client.list(ResourceClaimTemplate, namespace="*", labels=managed, chunk_size=500)
        found = [one.metadata for one in listed if one.metadata is not None]
        numbers = Counter(metadata.namespace for metadata in found)
        for metadata in found:
            crowded = 2 * numbers[metadata.namespace] > self._most
            span = min(older_than, LEAST_UNUSED) if crowded else older_than
            if (metadata.namespace, metadata.name) in used or self._used_since(metadata, span):
                continue
            yield f"{metadata.namespace}/{metadata.name}"
            if not dry_run:
                self._delete(metadata)

    def _create_or_touch(self, wanted: ResourceClaimTemplate, spec: dict[str, Any], what: str) -> None:
        assert wanted.metadata is not None
        name, namespace = str(wanted.metadata.name), str(wanted.metadata.namespace)
        self._refuse_remembered(namespace, name)
        found = self._find(name, namespace)
        if found is None:
            try:
                with self._making[hash(namespace) % STRIPES]:
                    self._refuse_full(namespace)
                    self._create(wanted)
            except ApiError as error:
                if error.status.code != HTTPStatus.CONFLICT:
                    raise
            else:
                return
            found = self.client.get(ResourceClaimTemplate, name, namespace=namespace)
        if found.spec is None or _essence(found.spec.to_dict()) != _essence(spec):
            raise CgpuError(
                f"{what}: another one has this name; remove it: kubectl delete -n {namespace} {name}"
            )
        if found.metadata is not None and not self._used_since(found.metadata, TOUCH_AFTER):
            used = {"metadata": {"annotations": wanted.metadata.annotations}}
            self.client.patch(
                ResourceClaimTemplate, name, used, namespace=namespace, patch_type=PatchType.MERGE
            )

    def _find(self, name: str, namespace: str) -> ResourceClaimTemplate | None:
        try:
            return self.client.get(ResourceClaimTemplate, name, namespace=namespace)
        except ApiError as error:
            if error.status.code != HTTPStatus.NOT_FOUND:
                raise
            return None

    def _refuse_remembered(self, namespace: str, name: str) -> None:
        """Raise CgpuError for a new template of a namespace that was full a moment ago."""
        read, names = self._full.get(namespace, (0.0, frozenset()))
        if names and time.monotonic() - read > FULL_S:
            self._full.pop(namespace, None)
        elif names and name not in names:
            self._refuse_one_more(namespace)

    def _refuse_full(self, namespace: str) -> None:
        """Raise CgpuError where a namespace has as many templates as it may have."""
        managed: LabelSelector = {MANAGED_BY: MANAGER}
        listed = self.client.list(
            ResourceClaimTemplate, namespace=namespace, labels=managed, chunk_size=self._most
        )
        names = frozenset(str(one.metadata.name) for one in islice(listed, self._most) if one.metadata)
        if len(names) >= self._most:
            self._full[namespace] = (time.monotonic(), names)
            self._refuse_one_more(namespace)

    def _refuse_one_more(self, namespace: str) -> None:
        raise CgpuError(
            f"namespace {show(namespace)} has templates of {self._most} shapes; expected one of these, or to "
            "wait: those that no pod has used for two hours are removed"
        )

    def _create(self, wanted: ResourceClaimTemplate) -> None:
        # A template whose amounts the API server drops would ask for a whole device, so it must not be there.
        if not self._amounts_count:
            if not _has_amounts(self.client.create(wanted, dry_run=True)):
                raise CgpuError(NO_AMOUNTS)
            self._amounts_count = True
        self.client.create(wanted)

    def _used_since(self, metadata: ObjectMeta, span: timedelta) -> bool:
        text = (metadata.annotations or {}).get(LAST_USED, "")
        try:
            used = datetime.strptime(text, FORMAT).replace(tzinfo=UTC)
        except ValueError:
            return False
        # A date to come is not admission's: its writer would keep the template.
        return abs(self._now() - used) < span

    def _delete(self, metadata: ObjectMeta) -> None:
        """Remove a template, unless a pod was admitted with it meanwhile: that changes its version."""
        options = {"preconditions": {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}}
        path = (
            f"apis/resource.k8s.io/v1/namespaces/{metadata.namespace}/resourceclaimtemplates/{metadata.name}"
        )
        response = self._http.request("DELETE", path, json=options)
        if response.status_code not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise CgpuError(f"ResourceClaimTemplate {metadata.name}: not removed ({response.status_code})")


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
