# SPDX-License-Identifier: Apache-2.0
"""Every metric: its name, type, help, and where its value comes from. docs/metrics.md has the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from cgpu.client.stat import EngineStat, GpuStat, SliceStat
from cgpu.slice import BESIDE_MEMORY, Attribute

Kind = Literal["counter", "gauge"]
Values = float | Mapping[str, float] | None
"""One value; one for each value of the row's own label; or none."""
T = TypeVar("T")

NS: Final = 1e9
MIB: Final = 1 << 20
GPU_LABELS: Final = ("gpu", "UUID")
CONTAINER_LABELS: Final = ("container", "pod", "namespace", "name", "id")
SLICE_LABELS: Final = (*CONTAINER_LABELS, *GPU_LABELS)
# As dcgm-exporter has them.
DCGM_LABELS: Final = ("gpu", "UUID", "device", "modelName", "Hostname")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """One metric of something. label: its own label besides those of the thing."""

    name: str
    kind: Kind
    help: str
    value: Callable[[T], Values]
    label: str | None = None


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU at a scrape. policy: the name.

    utilisation: the part of the time in which slices ran; None: not known yet.
    """

    stat: GpuStat
    policy: str
    utilisation: float | None


class SliceView(NamedTuple):
    """A slice at a scrape. share: its weight's promise while all slices of the GPU have work."""

    stat: SliceStat
    share: float | None
    utilisation: float | None


def _conditions(view: GpuView) -> Mapping[str, float]:
    stat = view.stat
    return {
        "unaccounted_memory": stat.drift_lasting,
        "undivided_time": stat.undivided,
        "mig_mode": stat.mig,
        "lost": stat.lost,
    }


UP: Final = "opencgpu_up"
UP_HELP: Final = "Whether the engine answers: 1 or 0."
ENGINE_INFO: Final = "opencgpu_engine_info"
ENGINE_INFO_HELP: Final = "The engine and its version; always 1."
ENGINE_INFO_LABELS: Final = ("engine", "version", "witness")
CALL_DURATION: Final = "opencgpu_engine_call_duration_seconds"
CALL_DURATION_HELP: Final = "How long calls of containers take in the engine, by what became of them."
CALL_DURATION_LABELS: Final = ("outcome",)
GPU_INFO: Final = "opencgpu_gpu_info"
GPU_INFO_HELP: Final = "The model of a GPU; always 1."
GPU_INFO_LABELS: Final = (*GPU_LABELS, "model", "device")

ENGINE: Final[tuple[Row[EngineStat], ...]] = (
    Row(
        "opencgpu_engine_notifications_total",
        "counter",
        "System calls of containers that cgpud was told of.",
        lambda stat: stat.notified,
    ),
    Row(
        "opencgpu_engine_calls_total",
        "counter",
        "Driver calls of containers, by what became of them.",
        lambda stat: {
            "executed": stat.executed,
            "continued": stat.continued,
            "answered": stat.answered,
            "refused": stat.refused,
        },
        "outcome",
    ),
    Row(
        "opencgpu_engine_refused_calls_total",
        "counter",
        "Refused driver calls by reason, without those refused for memory.",
        lambda stat: stat.refused_calls,
        "reason",
    ),
    Row(
        "opencgpu_engine_registrations_total",
        "counter",
        "Containers that were registered.",
        lambda stat: stat.registered,
    ),
    Row(
        "opencgpu_engine_restarts_total",
        "counter",
        "Starts of the engine with a state that was left, upgrades of cgpud among them.",
        lambda stat: stat.restarts,
    ),
    Row(
        "opencgpu_engine_upgrades_total",
        "counter",
        "Times another version of the engine went on with the state.",
        lambda stat: stat.upgrades,
    ),
    Row("opencgpu_engine_reloads_total", "counter", "Changes of the settings.", lambda stat: stat.reloads),
    Row(
        "opencgpu_engine_table_records",
        "gauge",
        "Records in use in a table of the engine.",
        lambda stat: {"containers": stat.containers, "clients": stat.clients, "objects": stat.objects},
        "table",
    ),
    Row(
        "opencgpu_engine_table_records_max",
        "gauge",
        "Records that a table of the engine has room for.",
        lambda stat: {
            "containers": stat.containers_max,
            "clients": stat.clients_max,
            "objects": stat.objects_max,
        },
        "table",
    ),
    Row(
        "opencgpu_engine_calls_in_progress",
        "gauge",
        "Calls of containers that are under way.",
        lambda stat: stat.calls_now,
    ),
    Row("opencgpu_engine_workers", "gauge", "Threads of cgpud that answer calls.", lambda stat: stat.workers),
    Row(
        "opencgpu_engine_workers_max",
        "gauge",
        "Threads that cgpud may have for that.",
        lambda stat: stat.workers_max,
    ),
    Row(
        "opencgpu_engine_queue_length",
        "gauge",
        "Length of a queue of cgpud.",
        lambda stat: stat.queues,
        "queue",
    ),
)

GPU: Final[tuple[Row[GpuView], ...]] = (
    Row("opencgpu_gpu_memory_total_bytes", "gauge", "Memory of the GPU.", lambda view: view.stat.memtotal),
    Row(
        "opencgpu_gpu_memory_free_bytes",
        "gauge",
        "Free memory by the driver's last answer.",
        lambda view: view.stat.memfree,
    ),
    Row(
        "opencgpu_gpu_memory_promised_bytes",
        "gauge",
        "Memory that is promised: limits of slices, and reservations.",
        lambda view: view.stat.promised,
    ),
    Row(
        "opencgpu_gpu_memory_used_bytes",
        "gauge",
        "Memory that is charged to containers, running and removed.",
        lambda view: view.stat.used,
    ),
    Row(
        "opencgpu_gpu_memory_orphaned_bytes",
        "gauge",
        "Memory that clients of removed containers still have.",
        lambda view: view.stat.orphaned,
    ),
    Row(
        "opencgpu_gpu_memory_unaccounted_bytes",
        "gauge",
        "Memory that the GPU lacks beyond what is charged; below 0 an estimate is too high.",
        lambda view: view.stat.drift,
    ),
    Row(
        "opencgpu_gpu_usage_seconds_total",
        "counter",
        "GPU time of all slices, also of those that have ended.",
        lambda view: view.stat.usage / NS,
    ),
    Row(
        "opencgpu_gpu_utilization_ratio",
        "gauge",
        "Part of the time in which slices ran, between two scrapes.",
        lambda view: view.utilisation,
    ),
    Row(
        "opencgpu_gpu_policy",
        "gauge",
        "Number of the scheduling policy in force, with its name.",
        lambda view: {view.policy: view.stat.policy},
        "policy",
    ),
    Row("opencgpu_gpu_places", "gauge", "Places for slices that are taken.", lambda view: view.stat.places),
    Row("opencgpu_gpu_places_max", "gauge", "Places for slices.", lambda view: view.stat.max_inst),
    Row("opencgpu_gpu_weights", "gauge", "Sum of the weights given out.", lambda view: view.stat.weights),
    Row(
        "opencgpu_gpu_passthrough_containers",
        "gauge",
        "Containers that have the GPU whole.",
        lambda view: view.stat.natives,
    ),
    Row(
        "opencgpu_gpu_healthy",
        "gauge",
        "1: none of the conditions of opencgpu_gpu_condition holds.",
        lambda view: float(not any(_conditions(view).values())),
    ),
    Row(
        "opencgpu_gpu_condition",
        "gauge",
        "1: the condition holds, and slices of this GPU are not what they should be.",
        _conditions,
        "condition",
    ),
    Row(
        "opencgpu_gpu_memory_refusals_total",
        "counter",
        "Refused allocations of all slices by reason, also of those that have ended.",
        lambda view: view.stat.refused,
        "reason",
    ),
)


def _attribute(of: Attribute) -> Row[SliceView]:
    """Return the row of an attribute of slices. One that is off has no sample."""

    def value(view: SliceView) -> Values:
        found: int = getattr(view.stat.slice, of.name)
        return found if of.words is None else found or None

    return Row(f"opencgpu_slice_{of.column}", "gauge", f"{of.says.capitalize()}.", value)


SLICE: Final[tuple[Row[SliceView], ...]] = (
    Row(
        "opencgpu_slice_memory_limit_bytes",
        "gauge",
        "Memory limit of a slice.",
        lambda view: view.stat.slice.memsize,
    ),
    Row(
        "opencgpu_slice_memory_used_bytes",
        "gauge",
        "Memory that is charged to a slice.",
        lambda view: view.stat.used,
    ),
    Row(
        "opencgpu_slice_memory_peak_bytes",
        "gauge",
        "Most memory that a slice had since it was registered.",
        lambda view: view.stat.peak,
    ),
    *map(_attribute, BESIDE_MEMORY),
    Row(
        "opencgpu_slice_share_ratio",
        "gauge",
        "Part of the GPU time that the policy gives a slice while all slices have work.",
        lambda view: view.share,
    ),
    Row(
        "opencgpu_slice_usage_seconds_total",
        "counter",
        "GPU time of a slice.",
        lambda view: view.stat.usage / NS,
    ),
    Row(
        "opencgpu_slice_utilization_ratio",
        "gauge",
        "Part of the time in which a slice ran, between two scrapes.",
        lambda view: view.utilisation,
    ),
    Row(
        "opencgpu_slice_throttled_seconds_total",
        "counter",
        "Time in which a slice's share did not let it run.",
        lambda view: view.stat.throttled / NS,
    ),
    Row(
        "opencgpu_slice_memory_refusals_total",
        "counter",
        "Refused allocations of a slice by reason.",
        lambda view: view.stat.refused,
        "reason",
    ),
)

CONTAINER: Final[tuple[Row[SliceStat], ...]] = (
    Row(
        "opencgpu_container_refused_calls_total",
        "counter",
        "Refused driver calls of a container by reason, without those refused for memory.",
        lambda stat: stat.refused_calls,
        "reason",
    ),
)

# Figures of the whole GPU, in dcgm-exporter's units: MiB and percent.
DCGM: Final[tuple[Row[GpuView], ...]] = (
    Row(
        "DCGM_FI_DEV_FB_TOTAL",
        "gauge",
        "Framebuffer memory (in MiB).",
        lambda view: view.stat.memtotal // MIB,
    ),
    Row(
        "DCGM_FI_DEV_FB_USED",
        "gauge",
        "Framebuffer memory used (in MiB).",
        lambda view: (view.stat.memtotal - view.stat.memfree) // MIB,
    ),
    Row(
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "Framebuffer memory free (in MiB).",
        lambda view: view.stat.memfree // MIB,
    ),
    Row(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "GPU utilization (in %), of slices.",
        lambda view: None if view.utilisation is None else round(view.utilisation * 100),
    ),
)
