# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview (admission.k8s.io/v1): the API server's question, and the answer."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from cgpu.errors import CgpuError, show
from cgpu.kubernetes import parameters
from cgpu.kubernetes.admission.quotas import refuse_uncounted
from cgpu.kubernetes.admission.rewrite import Rewritten, Settings, rewrite
from cgpu.kubernetes.admission.templates import Templates
from cgpu.kubernetes.names import DRIVER
from cgpu.service_log import WARNING, Say

Answer = dict[str, Any]
MAX_NAME = 253
# The API server cuts longer ones, and drops them beyond 4 KiB together (admission.k8s.io/v1).
MAX_WARNING, MAX_WARNINGS = 256, 16
API = "admission.k8s.io/v1"
POD = {"group": "", "version": "v1", "kind": "Pod"}
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# Name of each kind of object in a log line.
FIELDS = {
    "Pod": "pod",
    "ResourceClaim": "claim",
    "ResourceClaimTemplate": "template",
    "DeviceClass": "class",
}


def pods(request: Mapping[str, Any], templates: Templates, settings: Settings) -> Rewritten:
    """Return what to change of a pod, after its templates were made. Raises CgpuError."""
    namespace = _namespace_of_new_pod(request)
    pod = request.get("object") or {}

    def prefer() -> str:
        return templates.turns.preferred(pod.get("metadata") or {}, namespace, templates.cards.spread())

    found = rewrite(pod, templates.cards, settings, prefer)
    if found.dropped:
        refuse_uncounted(templates.client, namespace, found.dropped)
    if not request.get("dryRun"):
        for name, spec in found.templates.items():
            templates.ensure(namespace, name, spec)
    return found


def _namespace_of_new_pod(request: Mapping[str, Any]) -> str:
    """Return where a pod is to be made. Raises CgpuError for a request that the API server would not send."""
    namespace = request.get("namespace")
    document = request.get("object")
    metadata = (document.get("metadata") or {}) if isinstance(document, dict) else {}
    if (
        request.get("kind") != POD
        or request.get("operation") != "CREATE"
        or request.get("subResource")
        or not isinstance(namespace, str)
        or not NAMESPACE.fullmatch(namespace)
        or metadata.get("namespace", namespace) != namespace
    ):
        raise CgpuError("expected a Pod that is created in a namespace, as webhooks of the chart ask for")
    return namespace


def claims(request: Mapping[str, Any]) -> None:
    """Check the parameters of a ResourceClaim, a template of them or a DeviceClass. Raises CgpuError."""
    spec = (request.get("object") or {}).get("spec") or {}
    kind = (request.get("kind") or {}).get("kind")
    if kind == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    for configuration in (spec if kind == "DeviceClass" else spec.get("devices") or {}).get("config") or ():
        opaque = configuration.get("opaque") or {}
        if opaque.get("driver") == DRIVER:
            parameters.parse(opaque.get("parameters"), of_class=kind == "DeviceClass")


def answer(raw: bytes, judge: Callable[[Mapping[str, Any]], Rewritten | None], say: Say) -> Answer:
    """Return the review with its answer. Raises ValueError for what is no review.

    judge: returns the changes, None for none; its CgpuError refuses the object with that line, which is also
    a line of the log.
    """
    review = json.loads(raw)
    request = _request(review)
    response: Answer = {"uid": request["uid"], "allowed": True}
    try:
        found = judge(request)
    except CgpuError as error:
        response |= _refused(request, str(error), say)
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        # The API server has checked the object; an object that it let through and this code cannot read is
        # refused.
        response |= _refused(request, f"the object cannot be read ({show(type(error).__name__)})", say)
    else:
        if found is not None and found.warnings:
            response["warnings"] = [
                f"opencgpu: {line}"[:MAX_WARNING] for line in found.warnings[:MAX_WARNINGS]
            ]
        if found is not None and found.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(found.patch).encode()).decode()
    return {"apiVersion": API, "kind": "AdmissionReview", "response": response}


def _request(review: object) -> Mapping[str, Any]:
    """Return what a review asks. Raises ValueError for one that the API server would not send."""
    found = review if isinstance(review, dict) else {}
    request = found.get("request")
    said = request if isinstance(request, dict) else {}
    user = said.get("userInfo")
    if (
        (found.get("apiVersion"), found.get("kind")) != (API, "AdmissionReview")
        or not isinstance(said.get("uid"), str)
        or not isinstance(user, dict)
        or not user.get("username")
    ):
        raise ValueError("expected an AdmissionReview with a request, as the API server sends it")
    return said


def _refused(request: Mapping[str, Any], why: str, say: Say) -> Answer:
    fields = _names(request)
    named = " ".join(f"{key} {show(name)}" for key, name in fields.items())
    say(f"{named or 'object'}: refused: {why}", WARNING, fields)
    status = {"code": 422, "reason": "Invalid", "message": f"opencgpu: {why}"}
    return {"allowed": False, "status": status}


def _names(request: Mapping[str, Any]) -> dict[str, str]:
    """Return namespace and name of an object, with what it is as the name's key."""
    document, kind = request.get("object"), request.get("kind")
    metadata = document.get("metadata") if isinstance(document, dict) else None
    said = metadata if isinstance(metadata, dict) else {}
    # A pod of a Deployment gets the rest of its name later.
    name = said.get("name") or said.get("generateName") or ""
    key = FIELDS.get(str(kind.get("kind")) if isinstance(kind, dict) else "", "object")
    found = {"namespace": request.get("namespace") or "", key: name}
    return {key: value[:MAX_NAME] for key, value in found.items() if value and isinstance(value, str)}
