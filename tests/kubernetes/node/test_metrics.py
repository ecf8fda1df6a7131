# SPDX-License-Identifier: Apache-2.0
"""The agent's metrics: a share's container has the names that Kubernetes gave it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse_text

from cgpu.client.tree import Tree
from cgpu.kubernetes.node import main
from cgpu.kubernetes.node.allocation import AllocatedShare
from cgpu.kubernetes.node.container_names import container_names, pod_uid
from cgpu.kubernetes.node.main import _pages
from cgpu.kubernetes.node.records import ClaimName, Record, Records
from cgpu.kubernetes.node.sockets import Sockets
from cgpu.slice import Slice
from tests.exporter.trees import FakeTree, gpu_line, slice_line
from tests.grants import OTHERS

POD = "22222222-0000-4000-8000-000000000000"
OTHER_POD = "33333333-0000-4000-8000-000000000000"
SHARE, SECOND = (f"{digit}0000000-0000-4000-8000-000000000000" for digit in "ab")
CLAIM = ClaimName("team", "six", "11111111-0000-4000-8000-000000000000")
CONTAINER = "0123456789ab" + "0" * 52
BY_SYSTEMD = f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{POD.replace('-', '_')}.slice"


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """Records of a claim with two shares, for a pod with containers one after the other."""
    found = Records(tmp_path / "claims")
    shares = tuple(
        AllocatedShare(share, request, "gpu-a", "GPU-0", Slice(1 << 20).values())
        for request, share in (("gpu", SHARE), ("next", SECOND))
    )
    pods: dict[str, dict[str, tuple[str, ...]]] = {
        POD: {"gpu": ("main",), "next": ("setup", "main")},
        OTHER_POD: {"gpu": ("main",)},
    }
    found.write(Record(CLAIM, shares, pods, "card", {POD: "web-0"}))
    return found


@pytest.fixture
def fake(tmp_path: Path) -> FakeTree:
    made = FakeTree(tmp_path / "tree")
    made.gpu(0, gpu_line("GPU-0"), slice_line(CONTAINER, used=10 << 20))
    return made


def uses(fake: FakeTree, share: str, group: str) -> Tree:
    folder = fake.path / "0" / CONTAINER[:12]
    folder.mkdir()
    (folder / "owner").write_text(f"{CONTAINER} {group}\n")
    (fake.path / "0" / "reserved").write_text(f"{share} 1048576 {OTHERS} {CONTAINER}\n")
    return Tree(str(fake.path))


# By what the container is called: its share, its control group, and its name.
NAMED = {
    "systemd": (SHARE, f"{BY_SYSTEMD}/cri-containerd-{CONTAINER}.scope", "team/web-0/main"),
    "cgroupfs": (SHARE, f"/kubepods/burstable/pod{POD}/{CONTAINER}", "team/web-0/main"),
    "older hierarchy": (SHARE, f"pids:/kubepods/pod{POD}/{CONTAINER}", "team/web-0/main"),
    "init containers": (SECOND, f"/kubepods/pod{POD}/{CONTAINER}", "team/web-0/setup,main"),
    "nameless": (SHARE, f"/kubepods/pod{OTHER_POD}/{CONTAINER}", None),
    "of another claim": (SHARE, f"/kubepods/pod{SHARE}/{CONTAINER}", None),
    "docker": (SHARE, f"/docker/{CONTAINER}", None),
    "unknown share": ("c" + SHARE[1:], f"/kubepods/pod{POD}/{CONTAINER}", None),
}


@pytest.mark.parametrize(("share", "group", "name"), NAMED.values(), ids=NAMED)
def test_names(fake: FakeTree, records: Records, share: str, group: str, name: str | None) -> None:
    """The pod is that of the control group, the container that of the record."""
    named = {} if name is None else {CONTAINER: name}
    assert container_names(uses(fake, share, group), records) == named


@pytest.mark.parametrize("words", [(), ("--dcgm",)], ids=["off", "on"])
def test_names_of_dcgm_exporter(
    fake: FakeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The agent has them only if it is told to, with the node's name: a pod has a host name of its own."""
    started = []
    monkeypatch.setattr(main, "EngineTree", lambda: Tree(str(fake.path)))
    monkeypatch.setattr(main, "configuration", lambda _: None)
    monkeypatch.setattr(main, "Client", lambda **_: None)
    monkeypatch.setattr(main, "StatusServer", lambda _address, _port, pages, _say: started.append(pages))
    options = ["--node", "node-a", "--kubelet", str(tmp_path), "--status-port", "8080", *words]
    main.build(main.parser().parse_args(options))
    (pages,) = started
    families = {one.name: one for one in parse_text(pages["/metrics"]("").body.decode())}
    of_dcgm = families.get("DCGM_FI_DEV_FB_TOTAL")
    assert (of_dcgm is not None) == bool(words)
    if of_dcgm is not None:
        (sample,) = of_dcgm.samples
        assert (sample.value, sample.labels["Hostname"]) == (15109, "node-a")


def test_without_an_engine(records: Records, tmp_path: Path) -> None:
    """The page says that it is down."""
    tree = Tree(str(tmp_path / "nothing"))
    assert container_names(tree, records) == {}
    text = _pages("node-a", tree, records, Sockets.of(tmp_path, ""))["/metrics"]("").body.decode()
    assert "opencgpu_up 0.0" in text


@given(st.text(alphabet="/pod-_.slice0123456789abcdef", max_size=120))
def test_any_group(group: str) -> None:
    """Any group name gives a pod's UID or none."""
    uid = pod_uid(group)
    assert uid is None or (len(uid) == 36 and uid in group.replace("_", "-"))
