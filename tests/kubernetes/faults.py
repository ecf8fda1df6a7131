# SPDX-License-Identifier: Apache-2.0
"""Faults of Kubernetes itself."""

import pytest

# allocateDevice() in its allocator_experimental.go compares a claim with what is left of another device than
# the one that it has found, and one request may have one device twice.
ONE_CARD = pytest.mark.fails_on(
    "1.34", "kube-scheduler 1.34 gives out parts of the first GPU of a node alone"
)
