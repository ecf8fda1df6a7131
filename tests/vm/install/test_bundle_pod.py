# SPDX-License-Identifier: Apache-2.0
"""A pod starts the engine on a node whose cgroups are all of version 2, which this machine's may not be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.images import ROOT
from tests.packages import bundle
from tests.vm.harness.machine import Machine

pytestmark = [pytest.mark.slow, pytest.mark.own_disk, pytest.mark.timeout(1800)]

FILE = "tests/install/packaging/test_bundle_pod.py"
SCRIPT = """
[ -e /sys/fs/cgroup/cgroup.controllers ]
modprobe fuse 2>/dev/null || true
cd "$1"
exec .venv/bin/python -m pytest -q -p no:cacheprovider "$2"
"""


def test_cgroup_v2(boot: Callable[..., Machine]) -> None:
    """The test of the bundle's pod passes there: no other ends a pod by a cgroup with all controllers."""
    bundle()
    machine = boot(cgroup="v2", memory=4096)
    done = machine.shell(SCRIPT, ROOT, FILE, timeout=1500, check=False)
    assert "1 passed" in done.text, done.text
