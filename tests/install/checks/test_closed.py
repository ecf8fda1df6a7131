# SPDX-License-Identifier: Apache-2.0
"""Whether doctor sees that a container can have more of a GPU than it was given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgpu.config.effective import Effective
from cgpu.install.checks.configuration import CLOSE, closed
from tests.install.machine import node_report, tool

BOUNDED = Effective(allow_environment=False, allow_disable=False)


@pytest.mark.parametrize(
    ("config", "verdict", "word"),
    [
        (None, "skipped", "cannot be read"),
        (Effective(), "warning", "allow_environment"),
        (BOUNDED, "warning", "default_memsize: 0"),
        (BOUNDED.replace(default_memsize=1), "ok", "has a slice"),
        (Effective(shared_node=True), "ok", "has a slice"),
        (Effective(shared_node=True, allow_privileged=True), "warning", "allow_privileged"),
        (Effective(shared_node=True, enforce=False), "warning", "enforce: false"),
        (Effective(default_memsize=1, allow_environment=False), "warning", "allow_disable"),
    ],
)
def test_ways(tmp_path: Path, config: Effective | None, verdict: str, word: str) -> None:
    """Each way past a slice is named, and a node that has none is closed."""
    (found,) = closed(node_report(tmp_path, wanted=config))
    assert (found.verdict, word in found.text) == (verdict, True)


def test_an_open_node_is_told_how_to_close_it(tmp_path: Path) -> None:
    """What counts is what is in force, and the command closes everything."""
    now = node_report(tmp_path, wanted=Effective(shared_node=True), in_force=Effective())
    (found,) = closed(now)
    assert found.verdict == "warning"
    assert found.fix.endswith(CLOSE)


def test_a_shared_node_with_a_way_left_is_not_told_to_share(tmp_path: Path) -> None:
    """Where shared_node is true the finding says that a way is left, and does not ask for it again."""
    (found,) = closed(node_report(tmp_path, wanted=Effective(shared_node=True, allow_privileged=True)))
    assert found.text.startswith("shared_node is true, and yet privileged containers")
    assert CLOSE not in found.fix


def test_podman_that_copies_annotations(tmp_path: Path) -> None:
    """Where all annotations are trusted, a podman that copies those of images leaves the node open."""
    config = Effective(shared_node=True, trust_annotations="always")
    versions = (("4.3.1", "warning"), (None, "warning"), ("4.6.0", "ok"), ("5.0.0-rc1", "ok"))
    for version, wanted in versions:
        now = node_report(tmp_path, wanted=config)
        software = replace(now.node.software, engines=(tool("podman", version),))
        (found,) = closed(replace(now, node=replace(now.node, software=software)))
        assert found.verdict == wanted
        assert ("copies annotations of images" in found.text) == (wanted == "warning")
