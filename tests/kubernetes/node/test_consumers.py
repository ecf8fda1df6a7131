# SPDX-License-Identifier: Apache-2.0
"""Which containers of a pod may use a share."""

from __future__ import annotations

import pytest

from cgpu.kubernetes.node.consumers import AtOnceError, containers
from tests.kubernetes.node.objects import pod

ALL = {"name": "gpu"}
FIRST = {"name": "gpu", "request": "r0"}


def test_containers_by_request() -> None:
    """A reference without a request is one to all of them; init containers count; others have nothing."""
    found = containers(pod({"main": [ALL], "init": [FIRST], "other": []}), "part", ["r0", "r1/small"])
    assert found == {"r0": ("init", "main"), "r1/small": ("main",)}


def test_claim_of_a_template() -> None:
    """Which claim was made of a template says the pod's status."""
    assert containers(pod({"main": [ALL]}, resourceClaimTemplateName="x"), "part", ["r0"]) == {
        "r0": ("main",)
    }
    assert containers(pod({"main": [ALL]}, resourceClaimName="else"), "part", ["r0"]) == {"r0": ()}


@pytest.mark.parametrize("names", [("init1", "init2", "main"), ("init1", "side"), ("init1", "init2")])
def test_one_after_the_other(names: tuple[str, ...]) -> None:
    """Containers that never run beside each other may have one share in turn."""
    assert containers(pod({name: [ALL] for name in names}), "part", ["r0"]) == {"r0": names}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("one", "two"), r"request r0 is named by 2 containers that run at once \(one, two\); expected one"),
        (("init", "one", "two", "three"), r"3 containers that run at once \(one, two, three\)"),
        (("one", "two", "three", "four"), r"4 containers that run at once \(one, two, three and 1 more\)"),
        (("init1", "side", "init2"), r"2 containers that run at once \(side, init2\)"),
        (("side", "main"), r"2 containers that run at once \(side, main\)"),
    ],
)
def test_at_once(names: tuple[str, ...], said: str) -> None:
    """Containers that run beside each other cannot have one share; a line says which they are."""
    with pytest.raises(AtOnceError, match=said):
        containers(pod({name: [ALL] for name in names}), "part", ["r0"])
    apart = {name: [{"name": "gpu", "request": f"r{number}"}] for number, name in enumerate(names)}
    requests = [f"r{number}" for number in range(len(names))]
    assert len(containers(pod(apart), "part", requests)) == len(names)
