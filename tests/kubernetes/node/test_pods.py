# SPDX-License-Identifier: Apache-2.0
"""Pods for which another scheduler decides: their shares and files, from the first list to the last end."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import cast

import pytest
from lightkube.models.core_v1 import PodStatus
from lightkube.resources.core_v1 import Pod

from cgpu import pod_shares, shares
from cgpu.client.tree import EngineDownError, Tree
from cgpu.kubernetes.names import SCHEDULER_LABEL
from cgpu.kubernetes.node.api import Api, ApiServerError
from cgpu.kubernetes.node.pods import Pods, Store
from cgpu.kubernetes.node.prepare import Claims, Folders
from cgpu.kubernetes.node.records import ClaimName, Record, Records
from cgpu.sizes import MIB
from tests.grants import grant
from tests.kubernetes.node.fakes import FakeApi, FakeEngine, files_below
from tests.kubernetes.node.objects import CLAIM, NODE, POD, SECOND, T4, claim, result
from tests.kubernetes.node.objects import pod as pod_with_claim
from tests.kubernetes.node.test_decided import SCHEDULER, decided_pod

OTHER = POD.replace("9", "8")
pytestmark = pytest.mark.root


def hami(*parts: tuple[str, int, int], uid: str = POD, inits: int = 0) -> Pod:
    """Return a pod of HAMi's whose containers c0, c1 and so on have a part each; inits: the first ones."""
    text = "".join(f"{gpu},NVIDIA,{mib},{cores}:;" for gpu, mib, cores in parts)
    names = tuple(f"c{number}" for number in range(len(parts)))
    found = decided_pod("hami", {"hami.io/vgpu-devices-allocated": text}, names[:inits], names[inits:])
    assert found.metadata is not None
    found.metadata.uid, found.metadata.name = uid, f"pod-{uid}"
    return found


class Node:
    """An agent's pods over fakes, in a folder; the node's label names HAMi."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine = FakeEngine([T4, SECOND])
        self.api = FakeApi(labels={SCHEDULER_LABEL: "hami"})
        self.said: list[str] = []
        self.start()

    def start(self) -> None:
        """Have an agent, as after a start; it has done nothing yet."""
        api, tree, records = (
            cast("Api", self.api),
            cast("Tree", self.engine),
            Records(self.folder / "records"),
        )
        self.claims = Claims(
            api, tree, records, Folders(self.folder / "shares", self.folder / "cdi"), NODE, "card"
        )
        store = Store(tree, records, self.folder / "shares")
        self.pods = Pods(api, self.claims, store, NODE, {"hami": SCHEDULER})

    def run(self, *listed: Pod) -> None:
        """Have the API server list these pods, and the agent make all agree."""
        self.api.pods_of_node = {str(number): pod for number, pod in enumerate(listed)}
        self.pods.choose(self.said.append)
        self.pods.follow()
        self.pods.retry()

    def given(self, pod: str = POD) -> dict[str, list[tuple[str, int, int]]] | str | None:
        """Return GPU, MiB and weight of each share of a pod's containers, as the runtime reads them."""
        place = str(self.folder / "shares")
        found = pod_shares.find(pod, place)
        if found is None or found.refusal:
            return found.refusal if found is not None else None
        read = {name: [shares.read(one, place) for one in ids] for name, ids in found.containers.items()}
        assert all(name in one.pods[pod] for name, all_ in read.items() for one in all_)
        return {
            name: [(one.gpu, one.slice.memsize // MIB, one.slice.weight) for one in all_]
            for name, all_ in read.items()
        }

    def left(self) -> list[str]:
        return [name for name in files_below(self.folder) if name != "records/lock"]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_what_was_decided_is_reserved(node: Node) -> None:
    """Containers have their parts by the pod's file, not by a CDI device; init containers use them before."""
    node.run(hami((T4.uuid, 3000, 30), (T4.uuid, 3000, 30), (SECOND.uuid, 15360, 0), inits=1))
    first, second = [(T4.uuid, 3000, 6)], [(SECOND.uuid, 15109, 1)]
    assert node.given() == {"c0": first, "c1": first, "c2": second}
    assert sorted(node.engine.held.values()) == [grant(0, 3000 * MIB, 6, 0), grant(1, 15109 * MIB, 1, 0)]
    assert not [name for name in node.left() if name.startswith("cdi")]
    node.run(decided_pod("hami", {}))
    assert (node.engine.held, node.left(), node.api.events) == ({}, [], [])


def test_a_pods_life(node: Node) -> None:
    """A pod comes, changes and ends by the watch; what a container still uses is given back later."""
    node.run()
    one, other = hami((T4.uuid, 3000, 0)), hami((T4.uuid, 4000, 0), uid=OTHER)
    node.api.changes = [("ADDED", one), ("ADDED", other), ("MODIFIED", one)]
    node.pods.follow()
    # The list of the API server is what counts after a watch: both are gone from it.
    node.api.changes = [("ADDED", one), ("ADDED", other)]
    node.pods.follow()
    assert len(node.engine.held) == 2
    ended = hami((T4.uuid, 4000, 0), uid=OTHER)
    ended.status = PodStatus(phase="Succeeded")
    node.api.changes = [("ADDED", one), ("ADDED", other), ("MODIFIED", ended), ("DELETED", ended)]
    node.pods.follow()
    assert (node.given(OTHER), node.given()) == (None, {"c0": [(T4.uuid, 3000, 1)]})
    node.engine.used = set(node.engine.held)
    node.api.changes = [("DELETED", one)]
    node.pods.follow()
    assert (len(node.engine.held), node.given()) == (1, None)
    node.engine.used = set()
    node.pods.retry()
    assert (node.engine.held, node.left()) == ({}, [])


def test_an_excess_is_refused(node: Node) -> None:
    """A pod that the engine has no room for gets nothing but an event, once; and all when there is room."""
    node.run(hami((T4.uuid, 15000, 0)), hami((SECOND.uuid, 1, 0), (T4.uuid, 200, 0), uid=OTHER))
    assert len(node.engine.held) == 1
    why = str(node.given(OTHER))
    assert "GPU 0 has too little memory left" in why
    node.pods.retry()
    assert node.api.events == [("ShareRefused", why)]
    node.api.changes = [("ADDED", hami((SECOND.uuid, 1, 0), (T4.uuid, 200, 0), uid=OTHER))]
    node.run()
    assert node.given(OTHER) == {"c0": [(SECOND.uuid, 1, 1)], "c1": [(T4.uuid, 200, 1)]}


def test_a_forged_pod(node: Node) -> None:
    """A pod of another scheduler gets nothing whatever it says, and nothing more by saying it later."""
    forged = hami((T4.uuid, 3000, 0))
    assert forged.spec is not None
    forged.spec.schedulerName = "default-scheduler"
    node.run(forged)
    assert node.engine.held == {}
    assert str(node.given()).startswith("schedulerName: default-scheduler: its annotations are those of")
    assert [reason for reason, _ in node.api.events] == ["ShareRefused"]
    more = hami((T4.uuid, 15000, 0))
    node.run(hami((T4.uuid, 3000, 0)))
    node.engine.used = set(node.engine.held)
    node.api.changes = [("MODIFIED", more)]
    node.pods.follow()
    # Its container runs on with what was reserved, and no other starts.
    assert list(node.engine.held.values()) == [grant(0, 3000 * MIB, 1, 0)]
    assert "a container uses it" in str(node.given())


def test_after_a_start(node: Node) -> None:
    """After a start of agent or machine all agree again; nothing goes while the API server is silent."""
    node.run(hami((T4.uuid, 3000, 0)))
    node.engine.held = {}
    for name in node.left():
        if not name.startswith("records"):
            (node.folder / name).unlink()
    (node.folder / "shares" / "pods").rmdir()
    node.start()
    node.api.down = True
    with pytest.raises(ApiServerError):
        node.pods.choose(node.said.append)
    node.claims.reconcile(node.said.append)
    node.pods.retry()
    assert len(node.engine.held) == 1
    node.api.down = False
    node.pods.choose(node.said.append)
    node.pods.retry()
    assert len(node.engine.held) == 1
    node.run(hami((T4.uuid, 3000, 0)))
    assert node.given() == {"c0": [(T4.uuid, 3000, 1)]}
    assert node.claims.lacking() == frozenset()
    node.start()
    node.run()
    assert (node.engine.held, node.left(), node.said) == ({}, [], [])


def test_an_engine_that_is_down(node: Node) -> None:
    """Nothing is refused for an engine that does not run; pods have their shares once it does."""
    node.engine.down = True
    with pytest.raises(EngineDownError):
        node.run(hami((T4.uuid, 3000, 0)))
    assert (node.given(), node.api.events) == (None, [])
    node.engine.down = False
    node.pods.retry()
    assert node.given() == {"c0": [(T4.uuid, 3000, 1)]}
    # Nothing goes that was there before, however far the agent has come with another pod.
    node.engine.down = True
    node.api.changes = [("ADDED", hami((T4.uuid, 5000, 0), uid=OTHER))]
    with pytest.raises(EngineDownError):
        node.run(hami((T4.uuid, 3000, 0)))
    node.engine.down = False
    node.pods.retry()
    assert node.given() == {"c0": [(T4.uuid, 3000, 1)]}


def test_the_label_decides(node: Node) -> None:
    """Without the label, or with that of a system that is not known, nobody waits, and all is given back.

    Claims of the same node stay what they are.
    """
    node.api.claims = {CLAIM: claim([result(0)])}
    node.api.pods = {POD: pod_with_claim({"main": [{"name": "gpu"}]})}
    node.claims.prepare(ClaimName("team", "part", CLAIM))
    pod = hami((SECOND.uuid, 3000, 0), uid=OTHER)
    for label in ({}, {SCHEDULER_LABEL: "volcano"}):
        node.api.labels = {SCHEDULER_LABEL: "hami"}
        node.run(pod)
        assert (len(node.engine.held), node.given(OTHER)) == (2, {"c0": [(SECOND.uuid, 3000, 1)]})
        node.api.labels = label
        node.run(pod)
        node.claims.reconcile(node.said.append)
        assert not pod_shares.is_on(str(node.folder / "shares"))
        assert len(node.engine.held) == 1
    assert node.said == [f"label {SCHEDULER_LABEL}=volcano: expected hami, as --scheduler says"]


def test_one_that_fails(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk fails for one pod, what others have is not looked at again for its sake."""
    uids = [POD.replace("9", digit) for digit in "1234"]
    node.run(*(hami((T4.uuid, 1000, 0), uid=uid) for uid in uids[:3]))
    looked: list[str] = []
    keep = node.claims.keep

    def fail_once(record: Record) -> None:
        looked.append(record.claim.uid)
        if looked.count(uids[3]) == 1 and record.claim.uid == uids[3]:
            raise OSError(errno.ENOSPC, "the disk is full")
        keep(record)

    monkeypatch.setattr(node.claims, "keep", fail_once)
    node.api.changes = [("ADDED", hami((T4.uuid, 1000, 0), uid=uids[3]))]
    with pytest.raises(OSError, match="full"):
        node.pods.follow()
    node.pods.retry()
    assert looked == [*uids, uids[3]]
    assert len(node.engine.held) == 4


def test_an_engine_without_cards(node: Node) -> None:
    """An engine that is just being started has no cards for a moment: nobody is refused or loses anything."""
    node.run(hami((T4.uuid, 3000, 0)))
    before, node.engine.cards = node.engine.cards, []
    node.api.changes = [("ADDED", hami((SECOND.uuid, 3000, 0), uid=OTHER))]
    with pytest.raises(EngineDownError):
        node.pods.follow()
    assert (len(node.engine.held), node.given(OTHER), node.api.events) == (1, None, [])
    node.engine.cards = before
    node.pods.retry()
    assert node.given() == {"c0": [(T4.uuid, 3000, 1)]}
