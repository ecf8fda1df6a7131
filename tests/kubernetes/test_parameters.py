# SPDX-License-Identifier: Apache-2.0
"""The parameters of claims."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.kubernetes.parameters import parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"weigth": 2}, "there is no field weigth; expected weight, .*; did you mean weight"),
        ({"weight": 0}, "weight: 0: expected a whole number from 1 to 25"),
        ({"weight": True}, "weight: True: expected a whole number"),
        ({"weight": "2"}, "weight: 2: expected a whole number"),
        ({"weight": None}, "weight: None: expected a whole number"),
        ({"highPriority": 1}, "highPriority: 1: expected true or false"),
        ({"policy": 9}, "policy: 9: expected a whole number from 0"),
        ({"kind": "Share"}, "kind: Share: expected ShareParameters"),
        ({"apiVersion": "v1"}, "apiVersion: v1: expected gpu.opencgpu.io/v1"),
    ],
)
def test_parameters_refused(fields: dict[str, Any], said: str) -> None:
    """One line names the field, its value and what is expected."""
    with pytest.raises(CgpuError, match=said):
        parse({"apiVersion": "gpu.opencgpu.io/v1", "kind": "ShareParameters", **fields}, of_class=True)


@given(VALUES, VALUES)
def test_parameters_never_crash(document: object, value: object) -> None:
    """Anything that is not parameters is refused, and nothing else happens."""
    known = {"apiVersion": "gpu.opencgpu.io/v1", "kind": "ShareParameters", "weight": value}
    for one in (document, known):
        try:
            found = parse(one, of_class=True)
        except CgpuError:
            continue
        assert found.weight is None or 1 <= found.weight <= 25
