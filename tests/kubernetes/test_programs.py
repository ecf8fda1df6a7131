# SPDX-License-Identifier: Apache-2.0
"""The versions of what the cluster is built of."""

from __future__ import annotations

import re

import pytest

from tests.kubernetes import modules, programs

REPLACED = re.compile(r"^\t(k8s\.io/\S+) => (k8s\.io/\S+) (v\S+)$", re.MULTILINE)


@pytest.mark.parametrize("file", programs.VERSIONS.values())
def test_libraries_are_of_the_same_release(file: str) -> None:
    """Every library of Kubernetes has the version that belongs to Kubernetes' own."""
    path = modules.SOURCES / file
    text = path.read_text()
    _, minor, patch = programs.version_in(text, programs.MODULE_KUBERNETES)
    replaced = REPLACED.findall(text)
    assert len(replaced) > 25
    assert {(old == new, version) for old, new, version in replaced} == {(True, f"v0.{minor}.{patch}")}
    assert f"k8s.io/kubernetes v1.{minor}.{patch} h1:" in path.with_suffix(".sum").read_text()
