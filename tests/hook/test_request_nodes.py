# SPDX-License-Identifier: Apache-2.0
"""GPUs that a container has by its nodes, rules, mounts and annotations, without a variable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request import device_nodes
from cgpu.request.resolve import Allocation
from cgpu.request.spec import read
from tests.hook.support import ENV, T4, allocate, cards, spec, wants

DEFAULT = Effective(default_memsize=1 << 30)
SHARED = Effective(shared_node=True)
DENY: dict[str, object] = {"allow": False, "access": "rwm"}
ALL: dict[str, object] = {"allow": True, "access": "rwm"}
NULL: dict[str, object] = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
MAKE: dict[str, object] = {"allow": True, "type": "c", "access": "m"}
ROOT = Path(__file__).resolve().parents[2]


def node(minor: object, major: object = 195, kind: str = "c") -> dict[str, object]:
    """Return an entry of linux.devices."""
    return {"path": f"/dev/node{minor}", "type": kind, "major": major, "minor": minor}


def rule(
    minor: object = None, major: object = 195, access: str = "rw", *, allow: bool = True
) -> dict[str, object]:
    """Return a rule of the device cgroup."""
    return {"allow": allow, "type": "c", "major": major, "minor": minor, "access": access}


def given(devices: object = (), rules: object = (DENY,), **members: object) -> dict[str, object]:
    """Return the specification of a container with these nodes and rules, and `void` for a name."""
    listed = list(devices) if isinstance(devices, tuple) else devices
    allowed = list(rules) if isinstance(rules, tuple) else rules
    linux = {"devices": listed, "resources": {"devices": allowed}}
    return {**spec({"NVIDIA_VISIBLE_DEVICES": "void"}), "linux": linux, **members}


def indexes(document: dict[str, object], config: Effective = DEFAULT, count: int = 3) -> list[int]:
    """Return the GPUs of which the default makes slices."""
    request: Allocation | None = allocate(document, cards(*[T4] * count), config)
    return [grant[0] for grant in request.grants] if request is not None else []


@pytest.fixture(autouse=True)
def majors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a driver with nodes of its own majors."""
    path = tmp_path / "devices"
    path.write_text(
        "Character devices:\n 1 mem\n195 nvidia\n"
        "510 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n 8 nvidia\n"
    )
    monkeypatch.setattr(paths, "DEVICES", str(path))


def test_numbers() -> None:
    """The numbers here and in the launcher are those of the driver's headers."""
    nodes = json.loads((ROOT / "kmod/abi/nvidia.json").read_text())["nodes"]
    assert nodes["nvidia_major"] == device_nodes.MAJOR
    assert nodes["gpu_minor_max"] == device_nodes.LAST_CARD_MINOR
    source = (ROOT / "runtime_config/launcher/bundle.c").read_text()
    assert f"#define MAJOR_NVIDIA {device_nodes.MAJOR}\n" in source
    assert f"#define MAJOR_DRM {device_nodes.DRM_MAJOR}\n" in source


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (given((node(1),)), [1]),
        (given((node(2), node(0), node(255))), [0, 2]),
        (given((node(255),)), [0, 1, 2]),
        (given((node(0, 511),)), [0, 1, 2]),
        (given((node(1, 510, "u"),)), [0, 1, 2]),
        (given((), (DENY, rule(1))), [1]),
        (given((), (DENY, rule())), [0, 1, 2]),
        (given((), (DENY, rule(-1, 195, "w"))), [0, 1, 2]),
        (given((), (DENY, ALL)), [0, 1, 2]),
        (given((), (ALL,)), [0, 1, 2]),
        (given((node(1),), (ALL,)), [0, 1, 2]),
        (given((), (DENY, {**ALL, "type": "a", "major": -1, "minor": -1})), [0, 1, 2]),
        (given((), (DENY, {"allow": True})), [0, 1, 2]),
        (given(annotations={"cdi.k8s.io/x": "nvidia.com/gpu=0"}), [0, 1, 2]),
        (
            given(mounts=[{"source": "/dev/null", "destination": "/var/run//nvidia-container-devices/0"}]),
            [0, 1, 2],
        ),
    ],
)
def test_what_names_a_gpu(document: dict[str, object], expected: list[int]) -> None:
    """Each way to have a node of the driver opened counts as a name, of that card or of all."""
    assert indexes(document) == expected
    assert read(document, Effective()).defers(Effective())
    assert allocate(document, cards(T4), Effective()) is None
    with pytest.raises(CgpuError, match="a GPU without an amount, and this node has no default"):
        wants(document, SHARED)


@pytest.mark.parametrize(
    "document",
    [
        given(),
        given(None, None),
        given((node(3, 1), node(0, 8), node(0, 195, "b"), node(0, 195, "p"))),
        given((), (DENY, NULL, MAKE)),
        given((), (ALL, DENY)),
        given((), (DENY, rule(0, 195, "m"), rule(0, 195, allow=False))),
        given((), (DENY, {**ALL, "type": "b"})),
        given((node(128, 226),), (DENY, rule(128, 226))),
        given(annotations={"cdi.k8s.io/x": "intel.com/gpu=0"}),
        given(mounts=[{"type": "bind", "source": "/dev", "destination": "/dev"}]),
    ],
)
def test_what_names_none(document: dict[str, object]) -> None:
    """Other devices, rules that are taken back, and mounts that no rule lets be opened name no GPU."""
    assert read(document, Effective()).is_silent()
    assert allocate(document, cards(T4), DEFAULT) is None
    assert not wants(document, SHARED)


@pytest.mark.parametrize("listed", ["226:128", "226:0"])
def test_a_drm_node_of_an_nvidia_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    """A node of the DRM counts where the NVIDIA driver has its card, and no other."""
    (tmp_path / "drivers" / "nvidia").mkdir(parents=True)
    (tmp_path / "drivers" / "i915").mkdir()
    for name, driver in (("226:128", "nvidia"), ("226:0", "nvidia"), ("226:129", "i915")):
        (tmp_path / "char" / name / "device").mkdir(parents=True)
        (tmp_path / "char" / name / "device" / "driver").symlink_to(tmp_path / "drivers" / driver)
    monkeypatch.setattr(device_nodes, "SYSFS", str(tmp_path / "char"))
    minor = int(listed.partition(":")[2])
    assert indexes(given((node(minor, 226),))) == [0, 1, 2]
    assert indexes(given((), (DENY, rule(None, 226)))) == [0, 1, 2]
    assert indexes(given((node(129, 226),))) == []


def test_a_node_of_an_unknown_card() -> None:
    """A node of a card that the engine does not have is refused."""
    with pytest.raises(
        CgpuError, match=r"^device=/dev/node3: the engine has no GPU of minor 3: see cgpu-smi$"
    ):
        indexes(given((node(3),)))


def test_an_amount_goes_to_the_card_of_the_node() -> None:
    """With an amount and no name, the node says which card is meant; privilege alone does not."""
    document = {**given((node(1),)), "process": {"env": [f"{name}={value}" for name, value in ENV.items()]}}
    assert indexes(document, Effective()) == [1]
    wide = {**document, "linux": given((), (ALL,))["linux"]}
    with pytest.raises(CgpuError, match="none of the 3 GPUs is named"):
        indexes(wide, Effective())


def test_a_variable_comes_before_nodes() -> None:
    """Where the vendor's variable names a GPU, nodes of others are no slices: the engine refuses them."""
    document = {**given((node(1),)), "process": {"env": ["NVIDIA_VISIBLE_DEVICES=2"]}}
    assert indexes(document) == [2]


def test_privileged_may_be_left_alone() -> None:
    """allow_privileged leaves containers alone that name a GPU by their rights only."""
    allowed = DEFAULT.replace(allow_privileged=True)
    assert indexes(given((node(0),), (ALL,)), allowed) == []
    assert indexes(given((node(0),)), allowed) == [0]
    named = {**given((), (ALL,)), "process": {"env": ["NVIDIA_VISIBLE_DEVICES=0"]}}
    assert indexes(named, allowed) == [0]


def test_privilege_alone_is_silent() -> None:
    """A privileged container starts before an engine has read the configuration: it may be the installer."""
    assert read(given((), (ALL,)), Effective()).is_silent()
    assert not read(given((node(0),)), Effective()).is_silent()


def test_old_images_below_nvidias_runtime() -> None:
    """An old image without the vendor's variable has all GPUs from NVIDIA's runtime, and from no other."""
    below = DEFAULT.replace(low_level_runtime="/usr/bin/nvidia-container-runtime")
    document = spec({"CUDA_VERSION": "8.0"}, linux={})
    assert indexes(spec({"CUDA_VERSION": "8.0"}, linux={"x": 1}), below) == [0, 1, 2]
    assert indexes(document, DEFAULT) == []
    for more in ({"NVIDIA_REQUIRE_CUDA": "cuda>=8"}, {"NVIDIA_VISIBLE_DEVICES": ""}):
        assert indexes(spec({"CUDA_VERSION": "8.0", **more}, linux={"x": 1}), below) == []


@pytest.mark.parametrize("stage", ["prestart", "createRuntime"])
def test_old_images_with_nvidias_hook(stage: str) -> None:
    """NVIDIA's hook gives what its runtime does, which puts it there and goes on to ours."""
    hooks: dict[str, object] = {
        stage: [{"path": "/bin/x"}, {"path": "/usr/bin/nvidia-container-runtime-hook"}]
    }
    document = spec({"CUDA_VERSION": "8.0"}, hooks=hooks)
    assert indexes(document) == [0, 1, 2]
    with pytest.raises(CgpuError, match="CUDA_VERSION=set: a GPU without an amount"):
        wants(document, SHARED)
    assert indexes(spec({"CUDA_VERSION": "8.0", "NVIDIA_VISIBLE_DEVICES": "void"}, hooks=hooks)) == []
    assert indexes(spec({}, hooks=hooks)) == []
    assert indexes(spec({"CUDA_VERSION": "8.0"}, hooks={stage: [{"path": "/bin/x"}, {}]})) == []


@pytest.mark.parametrize(
    ("members", "line"),
    [
        ({"linux": 1}, "config.json: linux: 1: expected an object"),
        ({"linux": {"devices": 1}}, "config.json: linux.devices: 1: expected a list of objects"),
        ({"linux": {"devices": [1]}}, "config.json: linux.devices: 1: expected a list of objects"),
        ({"linux": {"resources": {"devices": {}, "x": 1}}}, None),
        ({"mounts": {"a": 1}}, "config.json: mounts: an object: expected a list of objects"),
    ],
)
def test_wrong_types(members: dict[str, object], line: str | None) -> None:
    """A member of the wrong type refuses the container."""
    with pytest.raises(CgpuError) as caught:
        read({**spec(), **members}, Effective()).is_silent()
    if line is not None:
        assert str(caught.value) == line
