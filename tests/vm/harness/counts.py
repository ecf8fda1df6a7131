# SPDX-License-Identifier: Apache-2.0
"""Repetitions of a test: few in a normal run, many with CGPU_VM_FULL=1."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")
FULL = "CGPU_VM_FULL"


def count(ci: T, full: T) -> T:
    return full if os.environ.get(FULL) == "1" else ci


CPUS = count(1, 2)  # of a machine, unless the tests in a file are about what happens at the same time
