# SPDX-License-Identifier: Apache-2.0
"""The webhook's Secret, and its authority in the webhook configurations, which the API server trusts."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import TypeVar

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.resources.admissionregistration_v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from lightkube.resources.core_v1 import Secret

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission.certificate import Certificate, bundle, make, renew

TRIES = 5
Found = TypeVar("Found")
CONFIGURATIONS = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)


@dataclass(frozen=True, slots=True)
class Trust:
    """Where the Secret is, the names of the server, and the webhook configurations' name."""

    namespace: str
    secret: str
    names: tuple[str, ...]
    configuration: str


def certificate(client: Client, trust: Trust, now: datetime) -> Certificate:
    """Return the certificate that all replicas share, made or renewed where that is due. Raises CgpuError."""
    return _retried(lambda: _shared(client, trust, now), f"Secret {trust.namespace}/{trust.secret}")


def publish(client: Client, trust: Trust, authority: bytes, now: datetime) -> None:
    """Have the API server trust the authority. Raises CgpuError."""
    for kind in CONFIGURATIONS:
        what = f"{kind.__name__} {trust.configuration}"
        _retried(partial(_trusted, client, kind, trust.configuration, authority, now), what)


def _shared(client: Client, trust: Trust, now: datetime) -> Certificate:
    # The chart makes it, without data, and removes it.
    found = client.get(Secret, trust.secret, namespace=trust.namespace)
    data = {key: base64.b64decode(value) for key, value in (found.data or {}).items()}
    kept = Certificate.from_data(data) if data else None
    if kept is not None and not kept.is_due(now):
        return kept
    made = make(trust.names, now) if kept is None else renew(kept, trust.names, now)
    found.data = {key: base64.b64encode(value).decode() for key, value in made.to_data().items()}
    # With the version that was read: another replica may have been faster.
    client.replace(found)
    return made


def _trusted(
    client: Client,
    kind: type[MutatingWebhookConfiguration | ValidatingWebhookConfiguration],
    name: str,
    authority: bytes,
    now: datetime,
) -> None:
    found = client.get(kind, name)
    changed = False
    for one in found.webhooks or ():
        before = base64.b64decode(one.clientConfig.caBundle or "")
        wanted = bundle(authority, before, now)
        if before != wanted:
            one.clientConfig.caBundle = base64.b64encode(wanted).decode()
            changed = True
    if changed:
        client.replace(found)


def _retried(step: Callable[[], Found], what: str) -> Found:
    """Do a step again when another replica was faster. Raises CgpuError."""
    for left in reversed(range(TRIES)):
        try:
            return step()
        except ApiError as error:
            if error.status.code != HTTPStatus.CONFLICT or not left:
                raise CgpuError(f"{what}: the API server says: {error.status.message}") from error
        except httpx2.HTTPError as error:
            raise CgpuError(f"{what}: no answer from the API server ({type(error).__name__})") from error
    raise AssertionError
