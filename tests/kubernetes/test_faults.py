# SPDX-License-Identifier: Apache-2.0
"""kill -9 of every process at every step of preparing and giving back claims: no leak, no promise twice.

The agent is killed before each change that it makes for a claim, or stopped there while another process is
killed and started again. Then everything is killed at random while pods come and go. Containers write what
they saw into files (harness/seen.py), and promises have a witness (harness/witness.py).
"""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Self

import httpx2
import pytest
from lightkube import ApiError
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu.kubernetes.node.units import share_mib
from tests.integration.commands import Server, eventually, must
from tests.kubernetes.harness import seen
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.counts import count, dice
from tests.kubernetes.harness.slices import AGAIN_S, WAIT, Slices, left, reserved
from tests.kubernetes.harness.witness import Witness, witness

T4 = 15109
GIB = 1024
COMPONENTS = ("kubelet", "containerd", "kube-scheduler", "kube-apiserver", "kube-controller-manager", "etcd")
ENGINE = "cgpud"
# A part of the agent's steps each day.
EVERY = count(6, 1)
RANDOM_KILLS = count(8, 60)
pytestmark = pytest.mark.timeout(count(300, 3600))
STEPS: list[str] = []  # of the agent, once they are known
LIVE = 8  # pods at a time, while processes are killed at random
SETTLES_S = 240


@pytest.fixture
def seeing(slices: Slices) -> Iterator[Witness]:
    with witness(slices.cluster.client("admin"), slices.namespace) as found:
        yield found


@dataclass
class Pods:
    """Pods with a claim each, which look at their cards first. restart: their restartPolicy."""

    slices: Slices
    folder: Path
    restart: str = "Never"
    sizes: dict[str, int] = field(default_factory=dict)  # GiB

    def make(self, name: str, gib: int, then: str = WAIT[-1]) -> None:
        """Make a claim and its pod; then: the container's command after its look."""
        self.sizes[name] = gib
        self.slices.claim(name, f"{gib}Gi")
        claims = [{"name": "gpu", "resourceClaimName": name}]
        looks = seen.looking(self.folder, then)
        self.slices.pod(name, {}, restartPolicy=self.restart, resourceClaims=claims, **looks)

    def end(self, name: str, grace: int = 1) -> None:
        self._delete(Pod, name, grace)
        self._delete(ResourceClaim, name)

    def _delete(self, kind: type[Pod | ResourceClaim], name: str, grace: int | None = None) -> None:
        api, namespace = self.slices.cluster.api, self.slices.namespace
        try:
            api.delete(kind, name, namespace=namespace, grace_period=grace)
        except ApiError as error:
            if error.status.code != HTTPStatus.NOT_FOUND:
                raise

    def judged(self) -> dict[str, list[int]]:
        """Return what each pod has seen. No container that ever ran had another amount than its claim's."""
        found: dict[str, list[int]] = {}
        for one in seen.sights(self.folder):
            wanted = share_mib(T4, self.sizes[one.pod] * GIB, "card")
            assert list(one.cards.values()) in ([], [wanted]), one
            found.setdefault(one.pod, []).extend(one.cards.values())
        return found


@pytest.fixture
def pods(slices: Slices, tmp_path: Path) -> Pods:
    folder = tmp_path / "seen"
    folder.mkdir()
    return Pods(slices, folder)


def steps(slices: Slices, pods: Pods, trace: Path) -> list[str]:
    """Return the agent's changes for one claim, first to last, each with its kind and file."""
    if not STEPS:
        agent = slices.stepped(0, signal.SIGKILL, trace)
        pods.make("counted", 2)
        slices.running("counted", AGAIN_S)
        pods.end("counted")
        eventually(lambda: left() == [], "nothing is left", 60)
        agent.stop()
        STEPS.extend(trace.read_text().splitlines())
    return STEPS


def came_in_prepare(slices: Slices, pods: Pods, name: str, came: Callable[[], bool]) -> bool:
    """Make a pod, and delete it where the signal has not come until it runs. came: whether it has."""
    pods.make(name, 3)
    eventually(lambda: came() or is_running(slices, name), f"the agent gets its signal, or {name} runs", 60)
    if came():
        return True
    pods.end(name)
    eventually(came, f"the agent gets its signal while {name} ends", 60)
    return False


def is_running(slices: Slices, name: str) -> bool:
    return slices.cluster.pod_status(name, slices.namespace).phase == "Running"


def ends_well(slices: Slices, pods: Pods, name: str, *, runs: bool) -> None:
    """Have all that was begun end. runs: the pod is still to run."""
    if runs:
        slices.running(name, AGAIN_S)
        assert [size for _, size, _ in reserved()] == [3021]
        pods.end(name)
    eventually(lambda: left() == [], f"nothing is left of {name}", AGAIN_S)
    assert pods.judged()[name] == [3021]


def test_the_agent_is_killed_at_each_step(
    slices: Slices, seeing: Witness, pods: Pods, tmp_path: Path
) -> None:
    """The agent dies before its change of that number; the next has all of the claim, or nothing."""
    chance = dice()
    total = len(steps(slices, pods, tmp_path / "trace"))
    assert total >= 10, STEPS
    for number in range(1 + chance.randrange(EVERY), total + 1, EVERY):
        name = f"killed-{number}"
        stepped = slices.stepped(number, signal.SIGKILL, tmp_path / name)
        in_prepare = came_in_prepare(slices, pods, name, partial(has_ended, stepped))
        slices.agent.start()
        ends_well(slices, pods, name, runs=in_prepare)
        slices.agent.stop()
    slices.agent.start()


def has_ended(process: Server) -> bool:
    return not process.runs


@pytest.mark.parametrize("victim", [*COMPONENTS, ENGINE])
def test_others_are_killed_at_each_step(
    slices: Slices, seeing: Witness, pods: Pods, tmp_path: Path, victim: str
) -> None:
    """The agent is stopped before its change of that number; another process is killed and starts again."""
    chance = dice()
    total = len(steps(slices, pods, tmp_path / "trace"))
    if victim == ENGINE:
        # A container that starts after the agent's last change is refused while there is no engine.
        pods.restart = "OnFailure"
    for number in count([1 + chance.randrange(total)], list(range(1, total + 1))):
        name = f"stopped-{number}"
        stepped = slices.stepped(number, signal.SIGSTOP, tmp_path / name)
        in_prepare = came_in_prepare(slices, pods, name, partial(is_stopped, stepped))
        kill_and_start(slices.cluster, victim)
        stepped.signal(signal.SIGCONT)
        ends_well(slices, pods, name, runs=in_prepare)
        stepped.stop()
    slices.agent.start()


def is_stopped(process: Server) -> bool:
    assert process.runs
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0] == "T"


def kill_and_start(cluster: Cluster, victim: str, pause_s: float = 0) -> None:
    if victim == ENGINE:
        cluster.engine.await_restart(cluster.engine.kill())  # its keeper starts it
        return
    cluster.components[victim].kill()
    time.sleep(pause_s)
    cluster.components[victim].start()


class Churn:
    """Pods that come and go all the time. A request that fails meanwhile is tried again."""

    def __init__(self, pods: Pods, chance: random.Random) -> None:
        self._pods = pods
        self._chance = chance
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._live: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for name in self._live:
            self._end(name, 1)

    def _run(self) -> None:
        numbers = itertools.count()
        while not self._ended.is_set():
            if len(self._live) >= LIVE:
                # 0: by force, before the node knows of it.
                self._end(self._live.pop(self._chance.randrange(LIVE)), self._chance.choice((0, 1)))
            self._make(f"c{next(numbers)}")
            self._ended.wait(self._chance.random())

    def _make(self, name: str) -> None:
        gib, then = self._chance.choice((1, 2, 3, 6)), self._chance.choice((WAIT[-1], "/busybox sleep 1"))
        again(lambda: self._pods.make(name, gib, then))
        self._live.append(name)

    def _end(self, name: str, grace: int) -> None:
        again(lambda: self._pods.end(name, grace))


def again(work: Callable[[], None]) -> None:
    """Do what may fail while the API server is away, until it has been done."""
    while True:
        with suppress(ApiError, httpx2.HTTPError, OSError):
            return work()
        time.sleep(0.2)


def test_kills_at_random(slices: Slices, seeing: Witness, pods: Pods) -> None:
    """Every process is killed at random times while pods are made and deleted, and starts a moment later."""
    chance = dice()
    victims: Mapping[str, Server] = {**slices.cluster.components, "agent": slices.agent}
    with Churn(pods, random.Random(chance.random())):  # noqa: S311 # nothing is secret
        for number in range(RANDOM_KILLS):
            time.sleep(chance.uniform(0, 3))
            victim = [ENGINE, *victims][number % (len(victims) + 1)]
            if victim == "agent":
                slices.agent.kill()
                time.sleep(chance.uniform(0, 2))
                slices.agent.start()
            else:
                kill_and_start(slices.cluster, victim, chance.uniform(0, 2))
    eventually(lambda: left() == [], "nothing is left", SETTLES_S)
    eventually(lambda: containers(slices) == [], "the engines have no container", SETTLES_S)
    assert sum(bool(sizes) for sizes in pods.judged().values()) > RANDOM_KILLS // 2
    # All is as before: the next pod has its share.
    pods.make("last", 6)
    slices.running("last", AGAIN_S)
    assert reserved()[0][1] == 6043
    pods.end("last")


def containers(slices: Slices) -> list[str]:
    """Return what containerd and cgpud have of the pods of this namespace."""
    labelled = f'labels."io.kubernetes.pod.namespace"=={slices.namespace}'
    known = must(["ctr", "--namespace", "k8s.io", "containers", "list", "--quiet", labelled]).stdout.split()
    engine = slices.cluster.engine
    return known + [one for gpu in engine.gpus() for one in engine.instances(gpu)]
