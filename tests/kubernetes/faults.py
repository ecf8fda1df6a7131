# SPDX-License-Identifier: Apache-2.0
"""Faults of Kubernetes itself."""

import pytest

# allocateDevice() in its allocator_experimental.go compares a claim with what is left of another device than
# the one that it has found, and one request may have one device twice.
ONE_CARD = pytest.mark.fails_on(
    "1.34", "kube-scheduler 1.34 gives out parts of the first GPU of a node alone"
)
# GetResources() of kubelet's DRA manager passes over each resource whose name contains "kubernetes.io/", and
# that of a device class does. Kubernetes 1.36 asks IsDRAExtendedResourceName() there instead.
NO_DEVICE = pytest.mark.fails_on(
    "1.34", "kubelet 1.34 gives a container no device that it asks for by the resource of a device class"
)
