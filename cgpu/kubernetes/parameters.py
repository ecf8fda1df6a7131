# SPDX-License-Identifier: Apache-2.0
"""ShareParameters, in a device class or in a claim, say more of shares than their size.

apiVersion: gpu.opencgpu.io/v1
kind: ShareParameters
weight: 2            # in a class: the most that its claims have, however much of this capacity they consume
highPriority: true   # before all others on the card
policy: 1            # only on a card whose time is divided in this way
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cgpu import suggest
from cgpu.config.schema import schema
from cgpu.errors import CgpuError, show
from cgpu.kubernetes.names import PARAMETERS_API, PARAMETERS_KIND
from cgpu.slice import ATTRIBUTES

MAX_WEIGHT = next(one.most for one in ATTRIBUTES if one.name == "weight")
MAX_POLICY: int = schema()["properties"]["policy"]["maximum"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """None: not said."""

    weight: int | None = None
    high_priority: bool | None = None
    policy: int | None = None

    def over(self, other: Parameters) -> Parameters:
        """Return both, of which this one counts more."""
        said = {name: value for name, value in self._values().items() if value is not None}
        return replace(other, **said)

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("weight", "high_priority", "policy")}


def parse(document: object, *, of_class: bool) -> Parameters:
    """Read the parameters. Raises CgpuError, with one line that names the field and what is expected.

    of_class: an administrator has written them; a claim's come from any user who writes claims in a
    namespace.
    """
    if not isinstance(document, Mapping):
        raise CgpuError(f"parameters of {PARAMETERS_KIND}: {show(document)}: expected an object")
    fields = dict(document)
    for field, expected in (("apiVersion", PARAMETERS_API), ("kind", PARAMETERS_KIND)):
        found = fields.pop(field, None)
        if found != expected:
            raise CgpuError(f"parameters: {field}: {show(found)}: expected {expected}")
    known = ("weight", "highPriority", "policy")
    for field in fields:
        if field not in known:
            meant = suggest.expected(field, known, "")
            raise CgpuError(f"{PARAMETERS_KIND}: there is no field {show(field)}; {meant}")
    if "weight" in fields and not of_class:
        # The scheduler does not count what parameters say, so others would find less than it has given them.
        where = "in the claim's capacity.requests.weight, which Kubernetes counts"
        raise CgpuError(f"{PARAMETERS_KIND}: weight: expected {where}")
    return Parameters(
        _number(fields, "weight", 1, MAX_WEIGHT),
        _flag(fields, "highPriority"),
        _number(fields, "policy", 0, MAX_POLICY),
    )


def _number(fields: Mapping[str, Any], field: str, least: int, most: int) -> int | None:
    value = fields.get(field)
    if value is None and field not in fields:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        wanted = f"expected a whole number from {least} to {most}"
        raise CgpuError(f"{PARAMETERS_KIND}: {field}: {show(value)}: {wanted}")
    return value


def _flag(fields: Mapping[str, Any], field: str) -> bool | None:
    value = fields.get(field)
    if value is None and field not in fields:
        return None
    if not isinstance(value, bool):
        raise CgpuError(f"{PARAMETERS_KIND}: {field}: {show(value)}: expected true or false")
    return value
