# SPDX-License-Identifier: Apache-2.0
"""The agent's own work: publish the cards, watch their health, make node and records agree."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.kubernetes.node.api import Api
from cgpu.kubernetes.node.health import Health, observe
from cgpu.kubernetes.node.plugin import HealthReport, Plugin
from cgpu.kubernetes.node.pods import Pods
from cgpu.kubernetes.node.prepare import Claims
from cgpu.kubernetes.node.publish import NoSharingError, Publisher


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds.

    observe: between two looks at the cards. retry: after a fault. refresh: of what no watch tells. answer:
    between two looks for containers that wait for a share.
    """

    observe: float = 2.0
    answer: float = 0.5
    retry: float = 5.0
    refresh: float = 60.0


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of an agent."""

    api: Api
    tree: Tree
    claims: Claims
    plugin: Plugin
    publisher: Publisher
    report: HealthReport
    pods: Pods


class Agent:
    """The agent of one node."""

    def __init__(self, parts: Parts, log: Callable[[str], None], settings: Settings | None = None) -> None:
        """Use these parts. Nothing is started yet."""
        self.stop = threading.Event()
        self._api = parts.api
        self._tree = parts.tree
        self._claims = parts.claims
        self._plugin = parts.plugin
        self._publisher = parts.publisher
        self._report = parts.report
        self._pods = parts.pods
        self._choice_due = self._retry_due = 0.0
        self._settings = settings or Settings()
        self._log = log
        self._slice_changed = threading.Event()
        self._said = ""
        self._lacking: frozenset[str] = frozenset()

    def run(self) -> None:
        """Serve until stop is set. Raises OSError when the sockets cannot be made."""
        self._reconcile()
        self._plugin.start()
        threading.Thread(target=self._watch, daemon=True, name="watch").start()
        threading.Thread(target=self._answer, daemon=True, name="answer").start()
        threading.Thread(target=self._follow, daemon=True, name="follow").start()
        try:
            self._loop()
        finally:
            self._plugin.stop()

    def _loop(self) -> None:
        health: Sequence[Health] | None = None  # until the engine has answered for the first time
        published: Sequence[Health] | None = None
        due = time.monotonic() + self._settings.refresh
        while not self.stop.is_set():
            before, health = health, self._observe(health)
            late = time.monotonic() >= due
            if self._has_lost_shares() or late or _is_back(before, health):
                self._reconcile()
                due = time.monotonic() + self._settings.refresh
            self._look_at_pods()
            pause = self._settings.observe
            if health is not None:
                changed = late or self._slice_changed.is_set()
                if changed or published != health:
                    self._slice_changed.clear()
                    published, pause = self._publish(health, forget=changed)
                self._report.set(health)
            self.stop.wait(pause)

    def _observe(self, before: Sequence[Health] | None) -> Sequence[Health] | None:
        try:
            return observe(self._tree, before)
        except CgpuError as error:
            self._say_once(str(error))
            return before

    def _publish(self, health: Sequence[Health], *, forget: bool) -> tuple[Sequence[Health] | None, float]:
        """Return what is published, and how long to wait. forget: whether others may have changed it."""
        if forget:
            self._publisher.forget()
        try:
            self._publisher.publish(health)
        except NoSharingError as error:
            self._say_once(str(error))
            return None, self._settings.refresh
        except CgpuError as error:
            self._say_once(str(error))
            return None, self._settings.retry
        self._said = ""
        return health, self._settings.observe

    def _has_lost_shares(self) -> bool:
        """Tell whether the engine lacks other shares than at the last look, as after a quick start of it."""
        try:
            before, self._lacking = self._lacking, self._claims.lacking()
        except (CgpuError, OSError):
            return False  # said of the cards
        return not self._lacking <= before

    def _reconcile(self) -> None:
        try:
            self._claims.reconcile(self._log)
        except (CgpuError, OSError) as error:
            self._log(f"claims of this node: {error}")

    def _watch(self) -> None:
        while not self.stop.is_set():
            # The API server reports no changes from before this watch, so look once.
            self._slice_changed.set()
            try:
                for _ in self._api.watch_slices():
                    self._slice_changed.set()
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever an answer has in it
                self._say_once(f"ResourceSlices cannot be watched: {error}")
            self.stop.wait(self._settings.retry)

    def _look_at_pods(self) -> None:
        try:
            if time.monotonic() >= self._choice_due:
                self._pods.choose(self._log)
                self._choice_due = time.monotonic() + self._settings.refresh
            if time.monotonic() >= self._retry_due:
                self._retry_due = time.monotonic() + self._settings.retry
                self._pods.retry()
        except (CgpuError, OSError) as error:
            self._say_once(f"pods of another scheduler: {error}")

    def _follow(self) -> None:
        while self._pods.may_decide() and not self.stop.is_set():
            try:
                self._pods.follow()
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a pod has in it
                self._say_once(f"pods of another scheduler: {error}")
            self.stop.wait(self._settings.retry)

    def _answer(self) -> None:
        while not self.stop.is_set():
            pause = self._settings.answer
            try:
                self._claims.answer(self._say_once)
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever a file has in it
                self._say_once(f"containers that wait for shares: {error}")
                pause = self._settings.retry
            self.stop.wait(pause)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._log(text)


def _is_back(before: Sequence[Health] | None, now: Sequence[Health] | None) -> bool:
    """Tell whether the engine has come, or come back, perhaps without what it knew."""
    if before is None or now is None:
        return now is not None
    down = {one.card.uuid for one in before if one.condition == "engine-down"}
    return any(one.card.uuid in down and one.condition == "well" for one in now)
