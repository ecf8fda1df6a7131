# SPDX-License-Identifier: Apache-2.0
"""The C tests of cgpud for which qemu-user is no kernel, on a kernel of their processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.test_programs import HELPED, build_programs, list_tests
from tests.vm.harness.machine import Machine

pytestmark = pytest.mark.foreign


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_programs(tmp_path_factory.mktemp("programs"), HELPED)


@pytest.mark.parametrize(("stem", "name"), list_tests(HELPED))
def test_fact(machine: Machine, programs: dict[str, Path], stem: str, name: str) -> None:
    """The fact that a C test is named after holds."""
    machine.run([machine.seen(programs[stem]), name])
