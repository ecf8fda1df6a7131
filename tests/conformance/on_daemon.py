# SPDX-License-Identifier: Apache-2.0
"""Carries the suite's cases out on a daemon of the tests."""

from __future__ import annotations

import subprocess

from tests.conformance.steps import Case
from tests.conformance.suite import Answers, Place, answers, command
from tests.daemon.harness import SLICED, Daemon


def carried_out(daemon: Daemon, cases: list[Case]) -> Answers:
    """Carry out all cases in one executor."""
    before = ("/usr/bin/python3", "-I", str(SLICED), str(daemon.run / "seccomp.sock"), "{id}")
    place = Place(str(daemon.tree), str(daemon.run / "sim"), cgroups=False, before=before)
    done = subprocess.run(command(), input=place.plan(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return answers(done.stdout)
