# SPDX-License-Identifier: Apache-2.0
"""The agent's calls of the API server. An error of the server becomes one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus

import httpx2
from lightkube import Client
from lightkube.core.client import FieldSelector
from lightkube.core.exceptions import ApiError
from lightkube.models.core_v1 import EventSource, ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Event, Node, Pod
from lightkube.resources.resource_v1 import ResourceClaim, ResourceSlice

from cgpu.errors import CgpuError, show
from cgpu.kubernetes.names import DRIVER
from cgpu.kubernetes.node.records import ClaimName

KINDS = (Event, Node, Pod, ResourceClaim, ResourceSlice)
MAX_MESSAGE = 1024  # bytes of an event's message, by the API server's limit
WATCH_S = 300


class ApiServerError(CgpuError):
    """The API server did not answer, or refused."""


class GoneError(CgpuError):
    """The object is not there any more."""


@contextlib.contextmanager
def _asking(what: str) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status.code == HTTPStatus.NOT_FOUND:
            raise GoneError(f"{what} does not exist") from error
        raise ApiServerError(f"{what}: the API server says: {show(error.status.message or '')}") from error
    except httpx2.HTTPError as error:
        raise ApiServerError(f"{what}: no answer from the API server ({type(error).__name__})") from error
    except (ValueError, RecursionError) as error:
        # A user who may write an object can cause this: by a year that Python has not, or by parameters 1,000
        # deep.
        raise ApiServerError(f"{what}: the API server's answer cannot be read ({error})") from error


class Api:
    """The API server, as far as a node needs it."""

    def __init__(self, client: Client, node: str) -> None:
        """Use a client, for the node of that name."""
        self._client = client
        self._node = node

    def claim(self, wanted: ClaimName) -> ResourceClaim:
        """Return a claim. Raises GoneError when it is gone or another one has its name, ApiServerError."""
        with _asking(str(wanted)):
            found = self._client.get(ResourceClaim, wanted.name, namespace=wanted.namespace)
        if found.metadata is None or found.metadata.uid != wanted.uid:
            raise GoneError(f"{wanted} with UID {wanted.uid} does not exist, another one has its name")
        return found

    def pod(self, namespace: str, name: str, uid: str) -> Pod:
        """Return a pod. Raises GoneError, ApiServerError."""
        what = f"pod {show(namespace)}/{show(name)}"
        with _asking(what):
            found = self._client.get(Pod, name, namespace=namespace)
        if found.metadata is None or found.metadata.uid != uid:
            raise GoneError(f"{what} with UID {show(uid)} does not exist")
        return found

    def list_pods(self) -> tuple[list[Pod], str]:
        """Return this node's pods, and the version from which watch_pods() goes on. Raises ApiServerError."""
        with _asking("pods of this node"):
            listed = self._client.list(Pod, namespace="*", fields={"spec.nodeName": self._node})
            return list(listed), listed.resourceVersion

    def watch_pods(self, version: str) -> Iterator[tuple[str, Pod]]:
        """Yield each change of this node's pods since a version: kind and pod. Raises ApiServerError."""
        with _asking("pods of this node"):
            yield from self._client.watch(
                Pod,
                namespace="*",
                fields={"spec.nodeName": self._node},
                server_timeout=WATCH_S,
                resource_version=version,
            )

    def node(self) -> Node:
        """Return this node. Raises GoneError, ApiServerError."""
        with _asking(f"node {show(self._node)}"):
            return self._client.get(Node, self._node)

    def slice(self, name: str) -> ResourceSlice | None:
        """Return a ResourceSlice, None where there is none of that name. Raises ApiServerError."""
        try:
            with _asking(f"ResourceSlice {name}"):
                return self._client.get(ResourceSlice, name)
        except GoneError:
            return None

    def write_slice(self, wanted: ResourceSlice, *, dry_run: bool = False) -> ResourceSlice:
        """Create a ResourceSlice, or replace the one that has its resourceVersion. Raises ApiServerError.

        dry_run: change nothing, and return what the API server would keep.
        """
        assert wanted.metadata is not None
        with _asking(f"ResourceSlice {wanted.metadata.name}"):
            if wanted.metadata.resourceVersion is None:
                return self._client.create(wanted, dry_run=dry_run)
            return self._client.replace(wanted, dry_run=dry_run)

    def delete_slice(self, name: str) -> None:
        """Remove a ResourceSlice if it is there. Raises ApiServerError."""
        with contextlib.suppress(GoneError), _asking(f"ResourceSlice {name}"):
            self._client.delete(ResourceSlice, name)

    def watch_slices(self) -> Iterator[None]:
        """Yield whenever a ResourceSlice of this node has changed or is gone. Raises ApiServerError."""
        with _asking("ResourceSlices"):
            of_node: FieldSelector = {"spec.nodeName": self._node, "spec.driver": DRIVER}
            for _ in self._client.watch(ResourceSlice, fields=of_node, server_timeout=WATCH_S):
                yield

    def event(self, about: ObjectReference, reason: str, message: str, *, warning: bool) -> None:
        """Tell users what has happened to an object. Raises ApiServerError."""
        now = datetime.now(UTC)
        event = Event(
            metadata=ObjectMeta(generateName="opencgpu-", namespace=about.namespace or "default"),
            involvedObject=about,
            reason=reason,
            message=message[:MAX_MESSAGE],
            type="Warning" if warning else "Normal",
            source=EventSource(component=DRIVER, host=self._node),
            firstTimestamp=now,
            lastTimestamp=now,
            count=1,
        )
        with _asking("event"):
            self._client.create(event)
