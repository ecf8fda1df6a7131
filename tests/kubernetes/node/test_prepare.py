# SPDX-License-Identifier: Apache-2.0
"""Preparing and giving back claims, with a fault at every step."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cgpu import share_asks, shares
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError
from cgpu.kubernetes.node import records
from cgpu.kubernetes.node.api import Api
from cgpu.kubernetes.node.prepare import Claims, Folders
from cgpu.kubernetes.node.records import ClaimName, Records
from cgpu.kubernetes.node.units import Unit
from cgpu.sizes import MIB
from tests.grants import grant
from tests.kubernetes.node.fakes import FakeApi, FakeEngine, KilledError, files_below
from tests.kubernetes.node.objects import CLAIM, NODE, POD, SECOND, T4, claim, opaque, pod, result, share_id

NAME = ClaimName("team", "part", CLAIM)
ALL = {"name": "gpu"}
pytestmark = pytest.mark.root


class Node:
    """An agent's claims over fakes, in a folder."""

    def __init__(self, folder: Path, results: list[dict[str, Any]]) -> None:
        self.folder = folder
        self.engine = FakeEngine([T4, SECOND])
        self.api = FakeApi({CLAIM: claim(results)}, {POD: pod({"main": [ALL]})})
        self.start()

    def start(self, unit: Unit = "card") -> None:
        """Have an agent, as after a start."""
        self.claims = Claims(
            cast("Api", self.api),
            cast("Tree", self.engine),
            Records(self.folder / "records"),
            Folders(self.folder / "shares", self.folder / "cdi"),
            NODE,
            Records(self.folder / "records").unit(unit),
        )

    def left(self) -> list[str]:
        return [name for name in files_below(self.folder) if name != "records/lock"]

    def lose_run(self) -> None:
        """Lose what a start of the machine empties: the files below /run, and reservations."""
        for name in self.left():
            if not name.startswith("records"):
                (self.folder / name).unlink()
        self.engine.held = {}

    def join(self, containers: dict[str, list[dict[str, str]]]) -> str:
        """Have another pod with such containers reserve the claim, too; return its UID."""
        later = POD.replace("9", "8")
        self.api.claims[CLAIM] = claim([result(0), result(1, "3Gi", device=SECOND.device)], pods=[POD, later])
        self.api.pods[later] = pod(containers, later)
        return later

    def reconcile(self) -> list[str]:
        said: list[str] = []
        self.claims.reconcile(said.append)
        return said


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, [result(0), result(1, "3Gi", device=SECOND.device)])


def test_prepare(node: Node) -> None:
    """The engine holds the shares; runtime and container engine know them; no container gets a device node.

    Shares that the engine lacks are seen.
    """
    assert [one.device for one in node.claims.prepare(NAME).shares] == [T4.device, SECOND.device]
    assert node.engine.held == {
        share_id(0): grant(0, 6043 * MIB, 1, 0),
        share_id(1): grant(1, 3021 * MIB, 1, 0),
    }
    written = shares.read(share_id(1), str(node.folder / "shares"))
    assert (written.gpu, written.slice.memsize, written.pods) == (SECOND.uuid, 3021 * MIB, {POD: ("main",)})
    described = json.loads((node.folder / f"cdi/opencgpu-share-{CLAIM}.json").read_text())
    assert [one["name"] for one in described["devices"]] == [share_id(0), share_id(1)]
    for one in described["devices"]:
        assert list(one["containerEdits"]) == ["env"]
        variable = f"OPENCGPU_SHARE_{one['name'].upper().replace('-', '_')}={one['name']}"
        assert one["containerEdits"]["env"] == [variable, "NVIDIA_VISIBLE_DEVICES=void"]
    assert node.claims.lacking() == frozenset()
    del node.engine.held[share_id(1)]
    assert node.claims.lacking() == {share_id(1)}


def test_again_and_back(node: Node) -> None:
    """Each call may come twice; nothing is left at the end, also where a container kept a share at first."""
    assert node.claims.prepare(NAME) == node.claims.prepare(NAME)
    node.engine.used = {share_id(1)}
    with pytest.raises(CgpuError, match="a container uses it"):
        node.claims.unprepare(CLAIM)
    assert not any(name.startswith(("shares", "cdi")) for name in node.left())
    node.engine.used = set()
    node.claims.unprepare(CLAIM)
    node.claims.unprepare(CLAIM)
    assert (node.engine.held, node.left()) == ({}, [])


@pytest.mark.parametrize("step", [1, 2])
def test_a_refusal_takes_everything_back(node: Node, step: int) -> None:
    """The engine refuses one of the shares: the claim has none."""
    node.engine.fail_at = (step, CgpuError)
    with pytest.raises(CgpuError, match="fails here"):
        node.claims.prepare(NAME)
    assert (node.engine.held, node.left()) == ({}, [])


@pytest.mark.parametrize("config", [{}, {"allow_claim_priority": True, "shared_node": True}, None])
def test_priority_of_a_claim(
    node: Node, monkeypatch: pytest.MonkeyPatch, config: dict[str, bool] | None
) -> None:
    """The node's configuration decides; where it is closed or cannot be read, nothing is reserved."""
    node.api.claims[CLAIM] = claim([result(0)], [opaque("FromClaim", highPriority=True)])

    def load() -> effective.Effective:
        if config is None:
            raise CgpuError("cannot be read")
        return effective.Effective(**config)

    monkeypatch.setattr(effective, "load", load)
    with pytest.raises(CgpuError, match="allow_claim_priority is false"):
        node.claims.prepare(NAME)
    assert node.engine.held == {}
    config = {"allow_claim_priority": True}
    node.claims.prepare(NAME)
    assert [grant[3] for grant in node.engine.held.values()] == [1]


@pytest.mark.parametrize("step", range(1, 7))
@pytest.mark.parametrize("gone", [False, True])
def test_killed_at_each_step(node: Node, step: int, gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is killed while it prepares: the next one ends with all of the claim, or with nothing."""
    _kill_at(node, step, monkeypatch)
    with pytest.raises(KilledError):
        node.claims.prepare(NAME)
    monkeypatch.undo()
    node.engine.fail_at = None
    if gone:
        node.api.claims = {}
    node.start()
    assert node.reconcile() == []
    if gone:
        assert (node.engine.held, node.left()) == ({}, [])
    else:
        assert len(node.engine.held) in (0, 2)
        assert len(node.claims.prepare(NAME).shares) == 2
        assert (len(node.engine.held), len(node.left())) == (2, 4)


def _kill_at(node: Node, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the agent end at its change of that number, without a chance to take anything back."""
    monkeypatch.setattr(Claims, "_undo", lambda *_: None)
    if step <= 2:
        node.engine.fail_at = (step, KilledError)
        return
    done = 0
    real_write, real_replace = shares.write, Path.mkdir

    def write(*arguments: Any) -> None:
        nonlocal done
        done += 1
        if done == step - 2:
            raise KilledError
        real_write(*arguments)

    def mkdir(path: Path, *arguments: Any, **options: Any) -> None:
        if path.name == "cdi" and step >= 5:
            raise KilledError
        real_replace(path, *arguments, **options)

    monkeypatch.setattr(shares, "write", write)
    monkeypatch.setattr(Path, "mkdir", mkdir)


def test_what_killed_writes_have_left(node: Node) -> None:
    """Files that were never put in place go, those of unknown claims too; files of others stay."""
    node.claims.prepare(NAME)
    before = node.left()
    for name in ("records/.x", "shares/.x", "cdi/.opencgpu-share-x"):
        (node.folder / f"{name}.json.cgpu-new").touch()
    (node.folder / "cdi/.others.json.cgpu-new").touch()
    assert node.reconcile() == []
    assert node.left() == sorted([*before, "cdi/.others.json.cgpu-new"])


def test_what_nobody_recorded(node: Node) -> None:
    """Reservations, share files and CDI files without a record go; a share in use stays, and is named."""
    node.claims.prepare(NAME)
    (node.folder / "records" / f"{CLAIM}.json").unlink()
    node.engine.held["00000009-aaaa-bbbb-cccc-dddddddddddd"] = grant(0, MIB, 1, 0)
    node.engine.used = {share_id(0)}
    node.start()
    assert node.reconcile() == [f"share {share_id(0)}: a container uses it"]
    assert (list(node.engine.held), node.left()) == ([share_id(0)], [])


@pytest.mark.parametrize("gone", [False, True])
def test_a_claim_that_ended_unseen(node: Node, gone: bool) -> None:
    """A claim that is gone, or is kept without an allocation, is given back at the next reconciliation."""
    node.claims.prepare(NAME)
    found = node.api.claims[CLAIM]
    assert found.status is not None
    found.status.allocation = None
    if gone:
        node.api.claims = {}
    assert node.reconcile() == []
    assert (node.engine.held, node.left()) == ({}, [])


def test_another_allocation(node: Node) -> None:
    """A claim that was allocated anew has its new shares, and none of the old ones."""
    node.claims.prepare(NAME)
    node.api.claims[CLAIM] = claim([result(7, "1Gi")])
    node.claims.prepare(NAME)
    assert node.engine.held == {share_id(7): grant(0, 1007 * MIB, 1, 0)}
    assert [name for name in node.left() if name.startswith("shares")] == [f"shares/{share_id(7)}.json"]


def test_a_pod_more(node: Node) -> None:
    """A claim of several pods: one that came later may use the share after the next reconciliation."""
    node.claims.prepare(NAME)
    later = node.join({"one": [ALL]})
    node.reconcile()
    found = shares.read(share_id(0), str(node.folder / "shares"))
    assert found.pods == {POD: ("main",), later: ("one",)}


def test_an_emptied_run_and_a_full_disk(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that says the same is not written again: a full /var keeps nothing from coming back."""
    node.claims.prepare(NAME)
    before = node.left()
    node.lose_run()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Records, "write", full)
    node.start()
    assert node.reconcile() == []
    assert (node.left(), len(node.engine.held)) == (before, 2)


def test_an_emptied_run_without_the_api_server(node: Node) -> None:
    """The records alone bring back what was lost; the missing answer is logged."""
    node.claims.prepare(NAME)
    before = node.left()
    node.lose_run()
    node.api.down = True
    assert node.reconcile() == ["claim team/part: no answer from the API server"]
    assert (node.left(), len(node.engine.held)) == (before, 2)


def test_a_card_in_another_place(node: Node) -> None:
    """After a start of the machine a card may have another index: its shares go by its UUID."""
    node.claims.prepare(NAME)
    node.engine.held = {}
    node.engine.cards = [replace(SECOND, index=0), replace(T4, index=1)]
    node.api.down = True
    node.reconcile()
    assert node.engine.held == {
        share_id(0): grant(1, 6043 * MIB, 1, 0),
        share_id(1): grant(0, 3021 * MIB, 1, 0),
    }


def test_the_kubelet_is_faster(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that is given back while a reconciliation begins is not prepared again."""
    node.claims.prepare(NAME)
    check = Claims._check

    def late(claims: Claims, record: Any) -> None:
        claims.unprepare(record.claim.uid)
        check(claims, record)

    monkeypatch.setattr(Claims, "_check", late)
    assert node.reconcile() == []
    assert (node.engine.held, node.left()) == ({}, [])


def test_a_share_of_another_claim(node: Node) -> None:
    """A claim whose status names another one's share is refused, and the other one keeps it."""
    node.claims.prepare(NAME)
    other = CLAIM.replace("1", "2")
    node.api.claims[other] = claim([result(0)])
    with pytest.raises(CgpuError, match="claim team/part has it already"):
        node.claims.prepare(ClaimName("team", "thief", other))
    assert len(node.engine.held) == 2


def test_records_that_cannot_be_read(node: Node) -> None:
    """Such records are logged; other claims are brought back, and no share of an unread claim is removed.

    A record whose UID is none is such a one.
    """
    node.claims.prepare(NAME)
    document = json.loads((node.folder / "records" / f"{CLAIM}.json").read_text())
    uids: list[Any] = [None, 5, [], "x"]
    for number, uid in enumerate(uids, 6):
        wrong = {**document, "claim": {**document["claim"], "uid": uid}}
        (node.folder / "records" / f"{CLAIM.replace('1', str(number))}.json").write_text(json.dumps(wrong))
    broken, large, unread = (node.folder / "records" / f"{CLAIM.replace('1', one)}.json" for one in "345")
    broken.write_text("{")
    large.write_bytes(b" " * (records.MAX_BYTES + 1))
    unread.mkdir()
    node.engine.held["00000009-aaaa-bbbb-cccc-dddddddddddd"] = grant(0, MIB, 1, 0)
    (node.folder / f"shares/{share_id(0)}.json").unlink()
    node.start()
    said = node.reconcile()
    assert len(said) == 7
    assert sum("no record of this version" in line for line in said) >= 5
    assert (node.folder / f"shares/{share_id(0)}.json").exists()
    assert len(node.engine.held) == 3
    node.claims.unprepare(CLAIM)
    assert len(node.engine.held) == 1


def test_a_claim_too_large_to_record(node: Node) -> None:
    """A pod with very many containers joins a claim: the claim stays as it was, and others go on."""
    node.claims.prepare(NAME)
    before = node.left()
    other = CLAIM.replace("1", "2")
    node.join({f"init-{number:058}": [ALL] for number in range(2500)})
    (said,) = node.reconcile()
    assert "bytes; expected at most" in said
    assert node.left() == before
    node.api.claims[other] = claim([result(9, "1Gi")])
    assert len(node.claims.prepare(ClaimName("team", "other", other)).shares) == 1
    node.claims.unprepare(CLAIM)
    node.start()
    assert list(node.engine.held) == [share_id(9)]


def test_a_fault_that_nobody_expects(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in one claim stops no check of others, and waiting containers have their answer."""
    other = CLAIM.replace("1", "2")
    node.api.claims[other] = claim([result(9, "1Gi")])
    node.claims.prepare(NAME)
    node.claims.prepare(ClaimName("team", "other", other))
    node.lose_run()
    read = FakeApi.claim

    def odd(api: FakeApi, wanted: ClaimName) -> Any:
        if wanted == NAME:
            raise RuntimeError("odd")
        return read(api, wanted)

    monkeypatch.setattr(FakeApi, "claim", odd)
    assert node.reconcile() == ["claim team/part: RuntimeError: odd"]
    assert list(node.engine.held) == [share_id(9)]
    list(share_asks.asked(str(node.folder / "shares")))
    for share in (share_id(0), share_id(9)):
        (node.folder / "shares" / share_asks.FOLDER / f"{share}.{POD}").touch()
    node.claims.answer(lambda _: None)
    assert list(share_asks.asked(str(node.folder / "shares"))) == []


def test_a_foreign_record(node: Node) -> None:
    """A record that is none of this version's is no reason to forget or to give anything."""
    node.claims.prepare(NAME)
    path = node.folder / "records" / f"{CLAIM}.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CgpuError, match=rf"no record of this version .*: rm {path}"):
        node.claims.unprepare(CLAIM)
    assert len(node.engine.held) == 2
    path.unlink()
    node.claims.unprepare(CLAIM)
    assert node.reconcile() == []
    assert (node.engine.held, node.left()) == ({}, [])


def test_a_unit_stays_while_claims_are_there(node: Node) -> None:
    """An agent with another --unit keeps that of the claims, and takes the new one when they have ended."""
    node.claims.prepare(NAME)
    before = dict(node.engine.held)
    node.start("exact")
    assert node.reconcile() == []
    assert node.engine.held == before
    node.claims.unprepare(CLAIM)
    node.start("exact")
    node.claims.prepare(NAME)
    assert [grant[1] for grant in node.engine.held.values()] == [6144 * MIB, 3072 * MIB]


def test_a_record_keeps_its_unit(node: Node) -> None:
    """Also where an agent that began without claims meets one that another agent has prepared since."""
    late = Node(node.folder, [result(0), result(1, "3Gi", device=SECOND.device)])
    late.engine = node.engine
    late.start("exact")
    node.claims.prepare(NAME)
    before = dict(node.engine.held)
    late.claims.prepare(NAME)
    assert node.engine.held == before


def test_an_agent_that_hangs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that keeps the records' lock holds up another one for a bounded time, which then says so."""
    kept = Records(node.folder / "records")
    monkeypatch.setattr(records.Records.locked.__wrapped__, "__defaults__", (0.2,))  # type: ignore[attr-defined]
    with (
        kept.locked(),
        pytest.raises(CgpuError, match=r"lock: another agent .* has kept it for 0.2 s"),
    ):
        node.claims.prepare(NAME)
    assert len(node.claims.prepare(NAME).shares) == 2


def test_a_thread_that_hangs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that is worked on without end holds up another one for a bounded time, too."""
    monkeypatch.setattr("cgpu.kubernetes.node.prepare.LOCK_S", 0.2)
    with node.claims._lock, pytest.raises(CgpuError, match=r"has worked on another claim for 0.2 s"):
        node.claims.prepare(NAME)
    assert len(node.claims.prepare(NAME).shares) == 2


def test_containers_at_once(node: Node) -> None:
    """A pod whose containers would use one share at once gets nothing, with a line that names them."""
    node.api.pods[POD] = pod({"a": [ALL], "b": [ALL]})
    with pytest.raises(CgpuError, match=r"claim team/part: request r0 is named by 2 containers .*\(a, b\)"):
        node.claims.prepare(NAME)
    assert (node.engine.held, node.left()) == ({}, [])


def test_another_pod_with_containers_at_once(node: Node) -> None:
    """Such a pod does not hinder pods of the claim that can be served, and has an event, once."""
    node.join({"a": [ALL], "b": [ALL]})
    node.claims.prepare(NAME)
    node.reconcile()
    assert shares.read(share_id(0), str(node.folder / "shares")).pods == {POD: ("main",)}
    ((reason, message),) = node.api.events
    assert (reason, "(a, b)" in message) == ("ShareInUse", True)


def test_a_pod_without_our_runtime(node: Node) -> None:
    """Its containers have no GPU, by no fault of anything that fails: an event says so, once."""
    spec = node.api.pods[POD].spec
    assert spec is not None
    spec.runtimeClassName = None
    node.claims.prepare(NAME)
    node.claims.prepare(NAME)
    ((reason, message),) = node.api.events
    assert (reason, "runtimeClassName: cgpu; this pod has none" in message) == ("NoRuntimeClass", True)


def test_a_container_that_waits(node: Node) -> None:
    """A pod that joins a claim is known as soon as its container asks; one that is none of it is not."""
    node.claims.prepare(NAME)
    folder = str(node.folder / "shares")
    node.claims.answer(lambda _: None)
    later, foreign = node.join({"one": [ALL]}), POD.replace("9", "7")
    node.api.down = True
    for uid in (later, foreign):
        (node.folder / "shares" / share_asks.FOLDER / f"{share_id(0)}.{uid}").touch()
    said: list[str] = []
    node.claims.answer(said.append)
    assert (len(said), len(list(share_asks.asked(folder)))) == (2, 2)
    node.api.down = False
    node.claims.answer(said.append)
    assert list(share_asks.asked(folder)) == []
    assert shares.read(share_id(0), folder).pods == {POD: ("main",), later: ("one",)}


def test_sharing_without_isolation(node: Node) -> None:
    """Where a label says so, a claim is counted alone: nothing is reserved, and its pod is told so once.

    What was prepared before the label came stays a slice.
    """
    node.api.labels = {"ack.node.gpu.schedule": "share"}
    for _ in range(2):
        found = node.claims.prepare(NAME)
        assert not found.isolated
        assert [share.gpu for share in found.shares] == [T4.uuid, SECOND.uuid]
    assert (node.engine.held, node.left()) == ({}, [])
    ((reason, said),) = node.api.events
    assert (reason, "nothing holds them to what was counted" in said) == ("NotIsolated", True)
    node.claims.unprepare(CLAIM)
    node.api.labels = {}
    node.claims.prepare(NAME)
    node.api.labels = {"ack.node.gpu.schedule": "share"}
    assert node.claims.prepare(NAME).isolated
    assert len(node.engine.held) == 2
