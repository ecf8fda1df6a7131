# SPDX-License-Identifier: Apache-2.0
"""Names of the processes that hold memory of a slice."""

from __future__ import annotations

from dataclasses import replace

from cgpu.files import read_bounded
from cgpu.smi.model import Container, Gpu

PROC = "/proc"
MAX_BYTES = 256


def with_process_names(gpus: tuple[Gpu, ...], proc: str = PROC) -> tuple[Gpu, ...]:
    """Return the GPUs with the name of each process that has one still."""
    return tuple(replace(gpu, containers=tuple(_named(one, proc) for one in gpu.containers)) for gpu in gpus)


def _named(container: Container, proc: str) -> Container:
    processes = (replace(one, name=name(one.pid, proc)) for one in container.processes)
    return replace(container, processes=tuple(processes))


def name(pid: int, proc: str = PROC) -> str | None:
    """Return the name that the kernel has of a process; None where it has ended.

    The command line is not read: it lies in the process's own memory, which can make a reader wait for ever.
    """
    try:
        raw = read_bounded(f"{proc}/{pid}/comm", MAX_BYTES)
    except OSError:
        return None
    return raw.decode("utf-8", "replace").removesuffix("\n") or None
