# SPDX-License-Identifier: Apache-2.0
"""The agent's own work, with an engine and an API server that come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.kubernetes.names import SCHEDULER_LABEL
from cgpu.kubernetes.node.agent import Agent, Parts, Settings
from cgpu.kubernetes.node.api import Api, ApiServerError
from cgpu.kubernetes.node.main import read_schedulers
from cgpu.kubernetes.node.plugin import HealthReport, Plugin
from cgpu.kubernetes.node.pods import Pods
from cgpu.kubernetes.node.prepare import Claims
from cgpu.kubernetes.node.publish import Publisher
from tests.integration.commands import eventually
from tests.kubernetes.node.fakes import FakeApi, FakeEngine
from tests.kubernetes.node.objects import NODE, T4

FAST = Settings(observe=0.01, retry=0.01, refresh=0.2)
SELDOM = Settings(observe=0.01, retry=0.01, refresh=3600)


class WatchedApi(FakeApi):
    """An API server whose watch breaks at once, with an unexpected fault."""

    def watch_slices(self) -> Iterator[None]:
        raise ValueError("no JSON")


class Quiet:
    """Claims and a plugin that count."""

    reconciled = 0

    lost: frozenset[str] = frozenset()

    def answer(self, _log: Callable[[str], None]) -> None:
        pass

    def lacking(self) -> frozenset[str]:
        return self.lost

    def reconcile(self, _log: Callable[[str], None]) -> None:
        self.reconciled += 1

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    followed = 0
    retried = 0
    chosen = 0

    def may_decide(self) -> bool:
        return True

    def follow(self) -> None:
        self.followed += 1
        raise ValueError("no JSON")

    def choose(self, _log: Callable[[str], None]) -> None:
        self.chosen += 1
        if self.chosen < 3:
            raise ApiServerError("no answer")

    def retry(self) -> None:
        self.retried += 1


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine([T4])


@pytest.fixture
def api() -> WatchedApi:
    return WatchedApi()


@pytest.fixture
def quiet() -> Quiet:
    return Quiet()


@pytest.fixture
def running(
    engine: FakeEngine, api: WatchedApi, quiet: Quiet, request: pytest.FixtureRequest
) -> Iterator[Callable[[], None]]:
    """Yield what starts an agent; it ends with the test."""
    report = HealthReport(NODE)
    publisher = Publisher(cast("Api", api), NODE, "card", "cgpud", lambda _: None)
    claims, plugin, tree = cast("Claims", quiet), cast("Plugin", quiet), cast("Tree", engine)
    parts = Parts(cast("Api", api), tree, claims, plugin, publisher, report, cast("Pods", quiet))
    agent = Agent(parts, lambda _: None, getattr(request, "param", FAST))
    thread = threading.Thread(target=agent.run)
    yield thread.start
    agent.stop.set()
    thread.join()


def test_what_others_remove_comes_back(api: WatchedApi, running: Callable[[], None]) -> None:
    """A ResourceSlice that the kubelet has removed is there again, also where no watch tells."""
    running()
    for _ in range(3):
        eventually(lambda: api.slices, "the slice is there")
        api.slices.clear()


def test_nothing_is_published_before_the_engine_answers(
    api: WatchedApi, engine: FakeEngine, quiet: Quiet, running: Callable[[], None]
) -> None:
    """Until the engine answers, the published slice stays; when it comes, claims are checked."""
    engine.down = True
    running()
    before = quiet.reconciled
    threading.Event().wait(0.1)
    assert api.writes == 0
    engine.down = False
    eventually(lambda: api.slices, "the slice is there")
    assert quiet.reconciled > before


@pytest.mark.parametrize("running", [SELDOM], indirect=True)
def test_an_engine_that_has_lost_shares(quiet: Quiet, api: WatchedApi, running: Callable[[], None]) -> None:
    """An engine has lost shares again at once; where it cannot have them, it is asked once."""
    running()
    eventually(lambda: api.slices, "the slice is there")
    before = quiet.reconciled
    quiet.lost = frozenset({"a"})
    eventually(lambda: quiet.reconciled == before + 1, "claims are checked")
    quiet.lost = frozenset({"a", "b"})
    eventually(lambda: quiet.reconciled == before + 2, "claims are checked")
    threading.Event().wait(0.1)
    assert quiet.reconciled == before + 2


@pytest.mark.parametrize("running", [SELDOM], indirect=True)
def test_pods_of_another_scheduler(quiet: Quiet, running: Callable[[], None]) -> None:
    """A watch of pods that breaks begins anew; none is given back before the node's label was read."""
    running()
    eventually(lambda: quiet.followed > 2, "the watch begins anew")
    eventually(lambda: quiet.retried > 2, "what was refused is tried again")
    assert quiet.chosen == 3


def test_the_label_of_another_scheduler(api: WatchedApi, quiet: Quiet, running: Callable[[], None]) -> None:
    """A node for whose pods another scheduler decides publishes no GPU for Kubernetes' own."""
    running()
    eventually(lambda: api.slices, "the slice is there")
    api.labels = {SCHEDULER_LABEL: "hami"}
    eventually(lambda: not api.slices, "the slice is gone")


def test_a_taint_needs_no_event(api: WatchedApi, engine: FakeEngine, running: Callable[[], None]) -> None:
    """The card of an engine that is down takes no new pods, also where events are refused."""

    def refuse(*_: object, **__: object) -> None:
        raise ApiServerError("event: quota")

    api.event = refuse  # type: ignore[method-assign]
    running()
    eventually(lambda: api.slices, "the slice is there")
    engine.down = True
    eventually(lambda: taints(api), "the card has a taint")


def taints(api: WatchedApi) -> list[str]:
    devices = [card for one in api.slices.values() for card in one.spec.devices or ()]
    return [taint.key for card in devices for taint in card.taints or ()]


def test_names_of_schedulers() -> None:
    """Each system that may decide has its scheduler's name; what is none of them is refused."""
    assert read_schedulers(["hami=hami-scheduler", "gpushare=default-scheduler"]) == {
        "hami": "hami-scheduler",
        "gpushare": "default-scheduler",
    }
    for word in ("hami", "hami=", "kai=kai-scheduler", ""):
        with pytest.raises(CgpuError, match="expected one of hami, volcano, gpushare, koordinator, then ="):
            read_schedulers([word])
