# SPDX-License-Identifier: Apache-2.0
"""Extent of a test: a part in a normal run, all of it with CGPU_KUBERNETES_FULL=1; and seeds."""

from __future__ import annotations

import os
import random
import sys
from typing import TypeVar

T = TypeVar("T")
FULL = "CGPU_KUBERNETES_FULL"
SEED = "CGPU_KUBERNETES_SEED"


def count(ci: T, full: T) -> T:
    return full if os.environ.get(FULL) == "1" else ci


def dice() -> random.Random:
    """Return a source of chance. A test that fails shows how to have the same again."""
    seed = os.environ.get(SEED) or str(random.SystemRandom().randrange(1 << 32))
    sys.stdout.write(f"{SEED}={seed}\n")
    return random.Random(seed)  # noqa: S311 # nothing is secret
