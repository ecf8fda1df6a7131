# SPDX-License-Identifier: Apache-2.0
"""Names that users, manifests and all parts for Kubernetes share."""

from __future__ import annotations

DRIVER = "gpu.opencgpu.io"
DEVICE_CLASS = DRIVER
RUNTIME_CLASS = "cgpu"

# Capacities of a device.
MEMORY = "memory"
WEIGHT = "weight"

# Attributes of a device: how the node gives out its cards, and which of how many this one is. A node with
# more than MAX_TURNS cards has no turns. The placement is a label of the node's ResourceSlice, too.
PLACEMENT = "placement"
TURN, TURNS = "turn", "turns"
MAX_TURNS = 16
SLICE_PLACEMENT = "opencgpu.io/placement"

# Parameters of a claim (resource.k8s.io, OpaqueDeviceConfiguration).
PARAMETERS_API = "gpu.opencgpu.io/v1"
PARAMETERS_KIND = "ShareParameters"

# Keys of device taints.
TAINT_ENGINE = f"{DRIVER}/engine-down"
TAINT_LOST = f"{DRIVER}/lost"
TAINT_FALLEN = f"{DRIVER}/fallen-off-the-bus"

# Message to users of a cluster that cannot give out parts of a device.
GATE_OFF = (
    "the feature gate DRAConsumableCapacity is off (on by default from Kubernetes 1.36; in 1.35 set it for "
    "kube-apiserver, kube-scheduler and kubelet)"
)

# Labels of nodes, as Alibaba's clusters have them.
SCHEDULE_LABEL = "ack.node.gpu.schedule"
PLACEMENT_LABEL = "ack.node.gpu.placement"
# Label of a node for whose pods another system's scheduler decides (cgpu/kubernetes/node/decided.py).
SCHEDULER_LABEL = "opencgpu.io/scheduler"

# Address of a node's agent: namespace and labels of its pod, name of its port, page, version.
NAMESPACE = "opencgpu"
AGENT_LABELS = {"app.kubernetes.io/part-of": "opencgpu", "app.kubernetes.io/component": "node"}
STATUS_PORT = "status"
USAGE_PAGE = "/v1/usage"
USAGE_VERSION = 1
