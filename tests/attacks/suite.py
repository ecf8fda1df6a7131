# SPDX-License-Identifier: Apache-2.0
"""All attacks, as tests that are given an arena."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.attacks import (
    deep_bind,
    docker_in_docker,
    exported_memory,
    filled_hole,
    foreign_files,
    fork_bomb,
    handed_files,
    kept_descriptor,
    kept_mapping,
    later_session,
    leak_after_failed_dup,
    leak_after_kill,
    memory_objects,
    other_program,
    own_loader,
    restarted_calls,
    static_binary,
    unjudged_classes,
    unjudged_controls,
    unset_environment,
)
from tests.attacks.attack import Attack

FILES = (
    unjudged_controls,
    unjudged_classes,
    unset_environment,
    own_loader,
    static_binary,
    deep_bind,
    docker_in_docker,
    later_session,
    memory_objects,
    exported_memory,
    leak_after_kill,
    leak_after_failed_dup,
    kept_descriptor,
    handed_files,
    kept_mapping,
    filled_hole,
    restarted_calls,
    other_program,
    foreign_files,
    fork_bomb,
)


def marks(attack: Attack) -> list[pytest.MarkDecorator]:
    """Return the marks of an attack's test."""
    return [pytest.mark.enforcement] if attack.limit else []


def attacks(
    engine: str,
    without: ModuleType | None = None,
    marks: Callable[[Attack], list[pytest.MarkDecorator]] = marks,
) -> list[object]:
    """Return the attacks that can be tried on an engine, as parameters of a test."""
    files = [file for file in FILES if file is not without]
    found = [one for file in files for one in vars(file).values() if isinstance(one, Attack)]
    return [pytest.param(one, id=one.name, marks=marks(one)) for one in found if engine in one.engines]
