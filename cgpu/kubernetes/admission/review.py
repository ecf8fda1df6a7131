# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview (admission.k8s.io/v1): what the API server asks, and the answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from cgpu.errors import CgpuError, show
from cgpu.kubernetes import parameters
from cgpu.kubernetes.admission.rewrite import Rewritten, rewrite
from cgpu.kubernetes.admission.templates import Templates
from cgpu.kubernetes.names import DRIVER

Answer = dict[str, Any]


def pods(request: Mapping[str, Any], templates: Templates) -> Rewritten:
    """Return what to change of a pod, after its templates were made. Raises CgpuError."""
    found = rewrite(request.get("object") or {}, templates.sizes)
    if not request.get("dryRun"):
        for name, spec in found.templates.items():
            templates.ensure(str(request.get("namespace")), name, spec)
    return found


def claims(request: Mapping[str, Any]) -> None:
    """Check the parameters of a ResourceClaim, a template of them or a DeviceClass. Raises CgpuError."""
    spec = (request.get("object") or {}).get("spec") or {}
    kind = (request.get("kind") or {}).get("kind")
    if kind == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    for configuration in (spec if kind == "DeviceClass" else spec.get("devices") or {}).get("config") or ():
        opaque = configuration.get("opaque") or {}
        if opaque.get("driver") == DRIVER:
            parameters.parse(opaque.get("parameters"))


def answer(raw: bytes, judge: Callable[[Mapping[str, Any]], Rewritten | None]) -> Answer:
    """Return the review with its answer. Raises ValueError for what is no review.

    judge: returns the changes, None for none; its CgpuError refuses the object with that line.
    """
    review = json.loads(raw)
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise ValueError("expected an AdmissionReview with a request")  # noqa: TRY004 - as of other bodies
    response: Answer = {"uid": request["uid"], "allowed": True}
    try:
        found = judge(request)
    except CgpuError as error:
        response["allowed"] = False
        response["status"] = {"code": 422, "reason": "Invalid", "message": f"opencgpu: {error}"}
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        # The API server has checked the object; what it let through and this code cannot read is refused.
        response["allowed"] = False
        message = f"opencgpu: the object cannot be read ({show(type(error).__name__)})"
        response["status"] = {"code": 422, "reason": "Invalid", "message": message}
    else:
        if found is not None and found.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(found.patch).encode()).decode()
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
