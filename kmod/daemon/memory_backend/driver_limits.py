# SPDX-License-Identifier: Apache-2.0
"""The memory backend "driver": the driver's hard limit on each container's cgroup, kept equal to its slice.

All is done by one thread, in the order in which it is asked for: the library may wait for the driver, and the
driver for a card that hangs. Callers wait a bounded time for the result. What was too late is corrected by
the next sample, which goes by what is registered then.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.memory_backend.backend import CGROUPS
from cgpu.kmod.daemon.memory_backend.nvml import NvmlError

if TYPE_CHECKING:
    from cgpu.kmod.daemon.engine import Container, Engine
    from cgpu.kmod.daemon.memory_backend.nvml import Nvml

log = logging.getLogger(__name__)

WAIT_S = 5.0  # for a limit; the hook that registers has 10 seconds
STUCK_S = 4.5  # of one job: further ones are not waited for
REMOVE_S = 2.0
FIGURES_S = 0.5  # for figures: those before are good enough
STOP_S = 1.0

UNSURE = -1  # a limit may be set, or not: no slice has this one

Key = tuple[int, int]


class LimitError(CgpuError):
    """A limit could not be set. number is the errno for the caller."""

    def __init__(self, number: int, text: str) -> None:
        """Say why."""
        super().__init__(text)
        self.number = number


@dataclass(slots=True)
class Group:
    """A cgroup with limits of ours: bytes by card; None: no limit any more, or none yet."""

    container: str
    directory: str
    hard: dict[int, int | None] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Job:
    action: Callable[[], None]
    done: threading.Event = field(default_factory=threading.Event)
    error: CgpuError | None = None


def directory_of(container: Container) -> str:
    """Return the directory of a container's own cgroup. Raises LimitError when it has none."""
    path = container.cgroup
    if not path.startswith("/") or path == "/" or ".." in path.split("/"):
        shown = path or "without a process"
        raise LimitError(
            errno.EINVAL, f"the driver limits cgroups of version 2 and it has none of its own ({shown})"
        )
    return CGROUPS + path


def registered(engine: Engine) -> dict[Key, Container]:
    """Return all registrations by their keys."""
    return {container.key: container for container in engine.containers()}


def overlap(one: str, other: str) -> bool:
    """Tell whether two directories are the same, or one lies below the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


class DriverLimits:
    """Keeps the driver's limits. Methods may be called from any thread."""

    def __init__(self, engine: Engine, nvml: Nvml, *, enforce: bool) -> None:
        """Begin with what is registered already. enforce False: no limits are set, only figures are taken."""
        self._engine = engine
        self._nvml = nvml
        self.enforce = enforce
        self._uuids = {gpu.index: gpu.uuid for gpu in engine.gpus()}
        self._groups: dict[Key, Group] = {}
        self._said: dict[Key, str] = {}
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._begun: float | None = None  # when the job in hand was
        self._sweeping: _Job | None = None
        self._thread = threading.Thread(target=self._run, name="cgpud-nvml", daemon=True)
        self._thread.start()

    # --- what others ask for ---

    def adopt(self, snapshot: list[dict[str, Any]] | None = None) -> None:
        """Take up what an engine before has registered: its limits are in the driver still.

        snapshot: what it knows of them, while containers wait: the driver is asked later. Raises CgpuError.
        """
        if snapshot is not None:
            self._inherit(snapshot)
            self.sweep()
            return
        with contextlib.suppress(LimitError):
            self._do(self._sweep, WAIT_S)

    def is_idle(self, wait_s: float) -> bool:
        """Tell whether all that was asked for is done, or is soon."""
        try:
            self._do(lambda: None, wait_s)
        except LimitError:
            return False
        return True

    def snapshot(self) -> list[dict[str, Any]]:
        """Return what is known, for the adopt() of the next one. Nothing may be asked for meanwhile."""
        return [
            {"key": key, "hard": list(one.hard.items()), "used": list(one.used.items())}
            for key, one in self._groups.items()
        ]

    def _inherit(self, snapshot: list[dict[str, Any]]) -> None:
        alive = registered(self._engine)
        try:
            known = {tuple(one["key"]): (dict(one["hard"]), dict(one["used"])) for one in snapshot}
            for key in alive.keys() & known.keys():
                hard, used = known[key]
                container = alive[key]
                self._groups[key] = Group(container.id, directory_of(container), hard, used)
                self._engine.limits_sampled(*key, 0, 0, used)
        except (KeyError, TypeError, ValueError) as error:
            raise CgpuError("limits that are handed over are not understood") from error

    def imposed(self, container: Container) -> None:
        """Have the limits of a new registration, on all of its cards or on none. Raises LimitError.

        What of a failure is left in the driver goes with the registration, which is the caller's to remove.
        """
        self._do(lambda: self._begin(container), WAIT_S)

    def resized(self, container: Container) -> None:
        """Have the limits of a container whose slice has changed. Raises LimitError: they are as before."""
        self._do(lambda: self._impose(container), WAIT_S)

    def removed(self) -> None:
        """Take limits away whose containers are gone. What cannot be done now is tried again later."""
        with contextlib.suppress(LimitError):
            self._do(self._sweep, REMOVE_S)

    def take_figures(self, container: Container) -> None:
        """Have the driver's figures of a container at hand, if it tells them soon."""
        with contextlib.suppress(LimitError):
            self._do(lambda: self._settle(container, 0), FIGURES_S)

    def sample(self, number: int, slot: int, generation: int) -> None:
        """Answer a thread of the engine that waits for a sample. Does not wait."""
        if self._is_stuck():
            self._engine.limits_sampled(slot, generation, number, -errno.EIO, {})
            return
        self._jobs.put(_Job(lambda: self._sample(number, slot, generation)))

    def sweep(self) -> None:
        """Put right whatever has changed unseen. Does not wait; one at a time."""
        if self._is_stuck() or (self._sweeping is not None and not self._sweeping.done.is_set()):
            return
        self._sweeping = _Job(self._sweep)
        self._jobs.put(self._sweeping)

    def close(self) -> bool:
        """End the thread. Limits stay, and hold while no engine runs. False: it waits for the driver."""
        self._jobs.put(None)
        self._thread.join(STOP_S)
        return not self._thread.is_alive()

    # --- the thread ---

    def _is_stuck(self) -> bool:
        begun = self._begun
        return begun is not None and time.monotonic() - begun > STUCK_S

    def _do(self, action: Callable[[], None], wait_s: float) -> None:
        if self._is_stuck():
            raise LimitError(errno.EIO, "the driver has not answered for a while")
        job = _Job(action)
        self._jobs.put(job)
        if not job.done.wait(wait_s):
            raise LimitError(errno.EIO, f"the driver does not answer within {wait_s:g} seconds")
        if job.error is not None:
            raise job.error

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._begun = time.monotonic()
            try:
                job.action()
            except CgpuError as error:
                job.error = error
            except Exception as error:
                log.exception("memory limits")
                job.error = LimitError(errno.EIO, str(error))
            finally:
                self._begun = None
                job.done.set()

    def _sweep(self) -> None:
        alive = registered(self._engine)
        for key in [key for key in self._groups if key not in alive]:
            self._clear(key)
        for container in alive.values():
            self._settle(container, 0)

    def _begin(self, container: Container) -> None:
        self._impose(container, fresh=True)
        # Its place may have figures of another container still.
        self._settle(container, 0)

    def _sample(self, number: int, slot: int, generation: int) -> None:
        container = registered(self._engine).get((slot, generation))
        if container is None:
            self._engine.limits_sampled(slot, generation, number, -errno.ENODEV, {})
        else:
            self._settle(container, number)

    def _settle(self, container: Container, sample: int) -> None:
        key = container.key
        used: dict[int, int] = {}
        result = 0
        try:
            self._impose(container)
            directory = self._groups[key].directory
            used = {n: self._nvml.limits(self._uuids[n], directory).used for n in self._groups[key].hard}
            self._groups[key].used = used
            self._said.pop(key, None)
        except (LimitError, NvmlError) as error:
            result = -error.number if isinstance(error, LimitError) else -errno.EIO
            self._say(key, f"container {container.id}: {error}")
        self._engine.limits_sampled(*key, sample, result, used)

    def _say(self, key: Key, line: str) -> None:
        if self._said.get(key) != line:
            self._said[key] = line
            log.error("%s", line)

    # --- limits ---

    def _wanted(self, container: Container) -> dict[int, int | None]:
        """Return the hard limit by card: the slice less managed memory, which the driver does not count."""
        wanted: dict[int, int | None] = {}
        for index in self._uuids:
            instance = self._engine.instance(container, index)
            if instance is not None:
                left = max(instance.memsize - instance.charged, 0)
                wanted[index] = left if self.enforce else None
        return wanted

    def _group(self, container: Container) -> Group:
        key = container.key
        if key in self._groups:
            return self._groups[key]
        directory = directory_of(container)
        if not os.path.isdir(directory):
            raise LimitError(errno.ESRCH, f"{directory}: there is no such cgroup")
        alive = registered(self._engine)
        for other, group in list(self._groups.items()):
            if other not in alive and group.directory == directory:
                del self._groups[other]  # its place has a new owner, who is limited anew
            elif other in alive and overlap(group.directory, directory):
                raise LimitError(errno.EINVAL, f"{directory}: container {group.container} is limited there")
        self._groups[key] = Group(container.id, directory)
        return self._groups[key]

    def _impose(self, container: Container, *, fresh: bool = False) -> None:
        """Set what is not as it should be, on all cards or on none. fresh: its processes do not run yet."""
        group = self._group(container)
        touched: dict[int, int | None] = {}
        try:
            for index, hard in self._wanted(container).items():
                if index not in group.hard or group.hard[index] != hard:
                    touched[index] = group.hard.get(index, UNSURE)
                    self._set(group, index, hard)
        except LimitError:
            for index, known in touched.items():
                self._put_back(group, index, known, fresh=fresh)
            raise

    def _set(self, group: Group, index: int, hard: int | None) -> None:
        """Set a limit and see that it holds. Raises LimitError."""
        uuid = self._uuids[index]
        try:
            self._nvml.set_hard(uuid, group.directory, hard)
            found = self._nvml.limits(uuid, group.directory)
        except NvmlError as error:
            raise LimitError(self._errno_of(group, index, hard), str(error)) from error
        if hard is not None and found.used > hard:
            raise LimitError(
                errno.EBUSY, f"{uuid}: {group.directory} holds {found.used} bytes, more than {hard}"
            )
        if found.soft or not _holds(hard, found.hard):
            says = f"soft {found.soft}, hard {found.hard}"
            raise LimitError(
                errno.EIO, f"{uuid}: hard limit {hard} of {group.directory}: the driver says {says}"
            )
        group.hard[index] = hard

    def _errno_of(self, group: Group, index: int, hard: int | None) -> int:
        with contextlib.suppress(NvmlError):
            if hard is not None and self._nvml.limits(self._uuids[index], group.directory).used > hard:
                return errno.EBUSY
        return errno.EIO

    def _put_back(self, group: Group, index: int, hard: int | None, *, fresh: bool) -> None:
        # What was not known may be the limit that a running container has: it is never taken away.
        group.hard[index] = UNSURE
        if hard == UNSURE and not fresh:
            return
        try:
            self._nvml.set_hard(self._uuids[index], group.directory, None if hard == UNSURE else hard)
        except NvmlError as error:
            log.debug("container %s: %s", group.container, error)
            return
        group.hard[index] = hard

    def _clear(self, key: Key) -> None:
        group = self._groups[key]
        kept = False
        for index, hard in group.hard.items():
            # With the cgroup go its limits.
            if hard is None or not os.path.isdir(group.directory):
                continue
            try:
                self._nvml.set_hard(self._uuids[index], group.directory, None)
                group.hard[index] = None
            except NvmlError as error:
                kept = os.path.isdir(group.directory)
                if kept:
                    self._say(key, f"container {group.container}: {error}")
        if not kept:
            del self._groups[key]
            self._said.pop(key, None)


def _holds(asked: int | None, found: int | None) -> bool:
    """Tell whether a limit is the one asked for; the kernel may round it down to a page of 64 KiB."""
    if asked is None or found is None:
        return asked is found
    return asked - (1 << 16) < found <= asked
