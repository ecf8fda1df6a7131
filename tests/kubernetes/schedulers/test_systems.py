# SPDX-License-Identifier: Apache-2.0
"""Random pods of three systems side by side, on a node for each: engines, agents and the API server are real.

The test writes as the accounts of the three schedulers, and says of pods what a kubelet would. Each ledger
has to be what the pods that live were given, to the MiB, whatever was killed meanwhile.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from lightkube import ApiError, Client
from lightkube.resources.core_v1 import Event, Pod

from tests.integration.commands import eventually
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.counts import dice
from tests.kubernetes.harness.other_node import Entry, OtherNode, other_node

PODS = 200
ALIVE = 10  # on a node; each has two containers at most, and a card 20 places
T4 = 15109
GIB_OF_T4 = 15
SYSTEMS = ("hami", "volcano", "gpushare")
SETTLES_S = 60
pytestmark = pytest.mark.timeout(600)

# The parts of a pod: index of the card and amount, in the system's unit, for each container.
Parts = Sequence[tuple[int, int]]


@dataclass
class System:
    """A system's scheduler, as its account, and its node."""

    name: str
    client: Client
    node: OtherNode
    cards: Sequence[str]
    pods: dict[str, set[Entry]] = field(default_factory=dict)

    def annotations(self, parts: Parts, node: str) -> dict[str, str]:
        """Return what the scheduler writes. Cores are a weight of 1, of which a card has 20."""
        if self.name == "gpushare":
            index, total = parts[0][0], sum(amount for _, amount in parts)
            said = {"IDX": str(index), "DEV": str(GIB_OF_T4), "POD": str(total), "ASSIGNED": "false"}
            return {f"ALIYUN_COM_GPU_MEM_{key}": value for key, value in said.items()}
        entries = [f"{self.cards[index]},NVIDIA,{mib},{mib % 10}:" for index, mib in parts]
        if self.name == "hami":
            text = "".join(f"{one};" for one in entries)
            return {"hami.io/vgpu-devices-allocated": text, "hami.io/vgpu-node": node}
        return {"volcano.sh/vgpu-ids-new": ";".join(entries), "volcano.sh/vgpu-node": node}

    def limits(self, amount: int) -> dict[str, str]:
        """Return what a container asks for."""
        by_system = {"hami": "nvidia.com/gpumem", "volcano": "volcano.sh/vgpu-memory"}
        return {by_system.get(self.name, "aliyun.com/gpu-mem"): str(amount)}

    def entries(self, uid: str, parts: Parts) -> set[Entry]:
        """Return what the ledger has to have for a pod."""
        mib = [T4 * one // GIB_OF_T4 if self.name == "gpushare" else one for _, one in parts]
        return {
            (str(uuid.uuid5(uuid.UUID(uid), f"opencgpu.io/share/{number}")), self.cards[index], mib[number])
            for number, (index, _) in enumerate(parts)
        }

    def fits(self, wanted: set[Entry], beside: set[Entry]) -> bool:
        taken = Counter[str]()
        for _, card, mib in wanted | beside:
            taken[card] += mib
        return all(mib <= T4 for mib in taken.values())

    def agrees(self) -> bool:
        """Return whether each pod has all or none of its parts, nobody has more, and none waits that fits.

        Which of two pods has the room that a third one leaves is a matter of chance.
        """
        ledger = self.node.ledger()
        waiting = [one for one in self.pods.values() if not one & ledger]
        return (
            ledger <= set().union(*self.pods.values())
            and all(one <= ledger for one in self.pods.values() if one not in waiting)
            and not any(self.fits(one, ledger) for one in waiting)
        )

    def await_agreement(self) -> None:
        what = f"the ledger of {self.node.name} is what its pods have"
        eventually(self.agrees, what, SETTLES_S, lambda: (self.node.ledger(), self.pods))

    def await_end(self) -> None:
        eventually(lambda: not self.node.ledger(), f"{self.name}: nothing is reserved")
        eventually(lambda: not self.node.left(), f"{self.name}: no file is left")


def parts_by_chance(chance: random.Random, system: System) -> Parts:
    """Return parts of a pod; those of ten pods are at times more than two cards have."""
    number = chance.choice((1, 1, 2))
    unit = T4 // GIB_OF_T4 if system.name == "gpushare" else 1
    most = max(1, 3500 // unit)
    first = chance.randrange(len(system.cards))
    same_card = system.name == "gpushare"
    cards = [first if same_card else chance.randrange(len(system.cards)) for _ in range(number)]
    return [(card, chance.randint(1, most)) for card in cards]


class Play:
    """The random history. Each pod is made once, and ends in one of a kubelet's ways."""

    def __init__(self, cluster: Cluster, namespace: str, systems: Sequence[System], folder: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.systems = systems
        self.folder = folder
        self.chance = dice()
        self.made = 0
        self.forged = 0

    def make(self, system: System, parts: Parts, node: str, **metadata: Any) -> str:
        """Make a pod on a node by its user's wish, or with the scheduler's annotations; return its name."""
        name = f"p{self.made}"
        self.made += 1
        listed = [
            {
                "name": f"c{number}",
                "image": "none.example/none:1",
                "resources": {"limits": system.limits(amount)},
            }
            for number, (_, amount) in enumerate(parts)
        ]
        spec = {
            "schedulerName": scheduler_of(system.name),
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": listed,
        }
        document = {"metadata": {"name": name, "namespace": self.namespace, **metadata}, "spec": spec}
        client = system.client if metadata else self.cluster.api
        client.create(cast("Pod", Pod.from_dict(document)))
        return name

    def place(self, system: System) -> None:
        """Have a system's scheduler place a pod: mostly where there is room, at times too much."""
        parts = parts_by_chance(self.chance, system)
        node = system.node.name
        wanted = system.annotations(parts, node)
        if self.chance.random() < 0.5:
            name = self.make(system, parts, node, annotations=wanted)
        else:
            # The pod is on its node before anything is decided, and its user is faster than the scheduler.
            name = self.make(system, parts, node)
            self.forge(system, name, system.annotations([(card, amount + 1) for card, amount in parts], node))
            system.client.patch(Pod, name, {"metadata": {"annotations": wanted}}, namespace=self.namespace)
        found = self.cluster.api.get(Pod, name, namespace=self.namespace)
        assert found.metadata is not None
        system.pods[name] = system.entries(str(found.metadata.uid), parts)

    def place_elsewhere(self, system: System) -> None:
        """Have a scheduler decide for a pod on another system's node: nobody there reads it."""
        other = self.chance.choice([one for one in self.systems if one is not system])
        parts = parts_by_chance(self.chance, system)
        name = self.make(
            system, parts, other.node.name, annotations=system.annotations(parts, other.node.name)
        )
        self.end(name, gone=True)

    def forge(self, system: System, name: str, annotations: Mapping[str, str]) -> None:
        """Write a decision as the user, and as another system's scheduler: both are refused."""
        others = [one.client for one in self.systems if one is not system]
        for client in (self.cluster.api, self.chance.choice(others)):
            with pytest.raises(ApiError, match="may write annotations by which the scheduler"):
                client.patch(
                    Pod, name, {"metadata": {"annotations": dict(annotations)}}, namespace=self.namespace
                )
            self.forged += 1

    def end(self, name: str, *, gone: bool) -> None:
        """End a pod: it has run to its end, or it is removed, as by force."""
        if gone:
            self.cluster.api.delete(Pod, name, namespace=self.namespace, grace_period=0)
        else:
            ended = {"status": {"phase": self.chance.choice(("Succeeded", "Failed"))}}
            self.cluster.api.patch(Pod.Status, name, ended, namespace=self.namespace)
        for system in self.systems:
            system.pods.pop(name, None)

    def step(self) -> None:
        """Do one thing by chance."""
        system = self.chance.choice(self.systems)
        lives = list(system.pods)
        if lives and (len(lives) >= ALIVE or self.chance.random() < 0.25):
            self.end(self.chance.choice(lives), gone=self.chance.random() < 0.5)
        elif self.chance.random() < 0.05:
            self.place_elsewhere(system)
        else:
            self.place(system)
        if self.chance.random() < 0.03:
            system.node.agent.kill()
            system.node.agent.start()
        elif self.chance.random() < 0.01:
            system.node.kill_engine()

    def settle(self) -> None:
        for system in self.systems:
            system.await_agreement()


def scheduler_of(system: str) -> str:
    return f"{system}-scheduler"


def account_of(system: str) -> str:
    return f"system:serviceaccount:kube-system:{scheduler_of(system)}"


@pytest.fixture
def play(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Play]:
    values = {one: {"schedulerName": scheduler_of(one), "accounts": [account_of(one)]} for one in SYSTEMS}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"schedulers": values}))
    options = ["--values", str(tmp_path / "values.yaml"), "--set", "admission.enabled=false"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(chart.with_other_schedulers(cluster, options))
        systems = []
        for one in SYSTEMS:
            node = stack.enter_context(other_node(cluster, one, scheduler_of(one)))
            cards = [gpu.uuid for gpu in node.tree.gpus()]
            systems.append(System(one, account(cluster, one), node, cards))
        yield Play(cluster, namespace, systems, tmp_path)


def account(cluster: Cluster, system: str) -> Client:
    """Return a client of a scheduler's account, which may write all pods."""
    name = scheduler_of(system)
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, "kube-system")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    cluster.apply({**binding, "metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    cluster.service_account(name, "kube-system")
    return cluster.client(f"kube-system-{name}")


def test_systems_side_by_side(play: Play) -> None:
    """Of 200 random pods each has what its scheduler wrote, nothing is given twice, and nothing is left.

    Agents and engines are killed meanwhile, users and other systems' schedulers forge, schedulers give too
    much: that is refused until there is room.
    """
    while play.made < PODS:
        play.step()
        if play.chance.random() < 0.05:
            play.settle()
    play.settle()
    assert play.forged > PODS / 4
    said = play.cluster.api.list(Event, namespace=play.namespace, fields={"reason": "ShareRefused"})
    assert all("MiB were requested" in str(one.message) for one in said)
    for system in play.systems:
        for name in list(system.pods):
            play.end(name, gone=True)
        system.await_end()
