# SPDX-License-Identifier: Apache-2.0
"""GPUs that a container names by device nodes, device rules, mounts or annotations, without a variable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request import device_nodes
from cgpu.request.request import is_silent
from cgpu.request.resolve import Allocation
from cgpu.request.spec import read
from tests.client.support import T4, cards
from tests.refusal import refused
from tests.request.support import ENV, allocate, is_by_default, spec, wants

WITH_DEFAULT = Effective(default_memsize=1 << 30)
SHARED_NODE = Effective(shared_node=True)
DENY_ALL: dict[str, object] = {"allow": False, "access": "rwm"}
ALLOW_ALL: dict[str, object] = {"allow": True, "access": "rwm"}
ALLOW_DEV_NULL: dict[str, object] = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
ALLOW_MKNOD: dict[str, object] = {"allow": True, "type": "c", "access": "m"}
VOLUME = "/var/run//nvidia-container-devices/0"
ROOT = Path(__file__).resolve().parents[2]


def node(minor: object, major: object = 195, kind: str = "c") -> dict[str, object]:
    return {"path": f"/dev/node{minor}", "type": kind, "major": major, "minor": minor}


def rule(
    minor: object = None, major: object = 195, access: str = "rw", *, allow: bool = True
) -> dict[str, object]:
    return {"allow": allow, "type": "c", "major": major, "minor": minor, "access": access}


def container(devices: object = (), rules: object = (DENY_ALL,), **members: object) -> dict[str, object]:
    """Return the specification of a container with these nodes and rules; NVIDIA_VISIBLE_DEVICES is void."""
    nodes = list(devices) if isinstance(devices, tuple) else devices
    allowed = list(rules) if isinstance(rules, tuple) else rules
    linux = {"devices": nodes, "resources": {"devices": allowed}}
    return {**spec({"NVIDIA_VISIBLE_DEVICES": "void"}), "linux": linux, **members}


def sliced_gpus(document: dict[str, object], config: Effective = WITH_DEFAULT, count: int = 3) -> list[int]:
    """Return the indexes of the GPUs on which the container gets a slice."""
    allocation: Allocation | None = allocate(document, cards(*[T4] * count), config)
    return [grant[0] for grant in allocation.grants] if allocation is not None else []


@pytest.fixture(autouse=True)
def proc_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a /proc/devices in which the driver has registered dynamic major numbers."""
    path = tmp_path / "devices"
    path.write_text(
        "Character devices:\n 1 mem\n195 nvidia\n"
        "510 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n 8 nvidia\n"
    )
    monkeypatch.setattr(paths, "DEVICES", str(path))


def test_device_numbers() -> None:
    """device_nodes.py and the launcher have the device numbers of kmod/abi/nvidia.json."""
    nodes = json.loads((ROOT / "kmod/abi/nvidia.json").read_text())["nodes"]
    assert nodes["nvidia_major"] == device_nodes.MAJOR
    assert nodes["gpu_minor_max"] == device_nodes.LAST_CARD_MINOR
    source = (ROOT / "runtime_config/launcher/scan.c").read_text()
    assert f"#define MAJOR_NVIDIA {device_nodes.MAJOR}\n" in source
    # The launcher takes smaller numbers for harmless.
    assert min(device_nodes.DRM_MAJOR, device_nodes.FIRST_DYNAMIC) > device_nodes.MAJOR


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (container((node(1),)), [1]),
        (container((node(2), node(0), node(255))), [0, 2]),
        (container((node(255),)), [0, 1, 2]),
        (container((node(0, 511),)), [0, 1, 2]),
        (container((node(1, 510, "u"),)), [0, 1, 2]),
        (container((), (DENY_ALL, rule(1))), [1]),
        (container((), (DENY_ALL, rule())), [0, 1, 2]),
        (container((), (DENY_ALL, rule(-1, 195, "w"))), [0, 1, 2]),
        (container((), (DENY_ALL, ALLOW_ALL)), [0, 1, 2]),
        (container((), (ALLOW_ALL,)), [0, 1, 2]),
        (container((node(1),), (ALLOW_ALL,)), [0, 1, 2]),
        (container((), (DENY_ALL, {**ALLOW_ALL, "type": "a", "major": -1, "minor": -1})), [0, 1, 2]),
        (container((), (DENY_ALL, {"allow": True})), [0, 1, 2]),
        (container(annotations={"cdi.k8s.io/x": "nvidia.com/gpu=0"}), [0, 1, 2]),
        (container(mounts=[{"source": "/dev/null", "destination": VOLUME}]), [0, 1, 2]),
    ],
)
def test_what_names_a_gpu(document: dict[str, object], expected: list[int]) -> None:
    """Each way to open a device node of the driver names a GPU: the card of that node, or all cards."""
    assert sliced_gpus(document) == expected
    assert is_by_default(document)
    assert allocate(document, cards(T4), Effective()) is None
    with pytest.raises(CgpuError, match="a GPU without an amount, and this node has no default"):
        wants(document, SHARED_NODE)


@pytest.mark.parametrize(
    "document",
    [
        container(),
        container(None, None),
        container((node(3, 1), node(0, 8), node(0, 195, "b"), node(0, 195, "p"))),
        container((), (DENY_ALL, ALLOW_DEV_NULL, ALLOW_MKNOD)),
        container((), (ALLOW_ALL, DENY_ALL)),
        container((), (DENY_ALL, rule(0, 195, "m"), rule(0, 195, allow=False))),
        container((), (DENY_ALL, {**ALLOW_ALL, "type": "b"})),
        container((node(128, 226),), (DENY_ALL, rule(128, 226))),
        container(annotations={"cdi.k8s.io/x": "intel.com/gpu=0"}),
        container(mounts=[{"type": "bind", "source": "/dev", "destination": "/dev"}]),
    ],
)
def test_what_names_no_gpu(document: dict[str, object]) -> None:
    """Other devices, rules that a later rule revokes, and mounts that no rule allows to open name no GPU."""
    assert is_silent(read(document, Effective()))
    assert allocate(document, cards(T4), WITH_DEFAULT) is None
    assert not wants(document, SHARED_NODE)


def test_files_of_simulated_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount of them names all GPUs, by whichever path, and is refused on a shared node."""
    cards_ = tmp_path / "sim"
    monkeypatch.setattr(paths, "SIM", str(cards_))
    (tmp_path / "link").symlink_to(cards_)
    documents = [container(mounts=[{"source": str(tmp_path / name)}]) for name in ("sim/nvidia0", "link")]
    others = [container(mounts=[{"source": source}]) for source in (str(tmp_path), f"{cards_}2", "sim", "/")]
    assert not any(wants(document, SHARED_NODE) for document in documents + others)
    cards_.mkdir()
    for document in documents:
        assert sliced_gpus(document) == [0, 1, 2]
        assert not wants(document, Effective())
        with pytest.raises(
            CgpuError, match=r"^mount=.*: a GPU without an amount, and this node has no default"
        ):
            wants(document, SHARED_NODE)
    assert not any(wants(document, SHARED_NODE) for document in others)


def test_a_drm_node_of_an_nvidia_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DRM device node names a GPU only when the card's driver is NVIDIA's."""
    (tmp_path / "drivers" / "nvidia").mkdir(parents=True)
    (tmp_path / "drivers" / "i915").mkdir()
    for name, driver in (("226:128", "nvidia"), ("226:0", "nvidia"), ("226:129", "i915")):
        (tmp_path / "char" / name / "device").mkdir(parents=True)
        (tmp_path / "char" / name / "device" / "driver").symlink_to(tmp_path / "drivers" / driver)
    monkeypatch.setattr(device_nodes, "SYSFS", str(tmp_path / "char"))
    for minor in (128, 0):
        assert sliced_gpus(container((node(minor, 226),))) == [0, 1, 2]
    assert sliced_gpus(container((), (DENY_ALL, rule(None, 226)))) == [0, 1, 2]
    assert sliced_gpus(container((node(129, 226),))) == []


def test_which_card_a_node_names() -> None:
    """The node's card gets the amount of the variables, after cards that these name; privilege names none."""
    linux = container((node(1),))["linux"]
    assert sliced_gpus(spec(ENV, linux=linux), Effective()) == [1]
    # The engine refuses the card of the node.
    assert sliced_gpus(spec({"NVIDIA_VISIBLE_DEVICES": "2"}, linux=linux)) == [2]
    with refused("device=/dev/node3: the engine has no GPU of minor 3"):
        sliced_gpus(container((node(3),)))
    with refused("this node has 3 GPUs; choose with OPENCGPU_GPUS=0"):
        sliced_gpus(spec(ENV, linux=container((), (ALLOW_ALL,))["linux"]), Effective())


def test_allow_privileged() -> None:
    """With allow_privileged, containers that name a GPU only by privilege are not sliced."""
    allowed = WITH_DEFAULT.replace(allow_privileged=True)
    assert sliced_gpus(container((node(0),), (ALLOW_ALL,)), allowed) == []
    assert sliced_gpus(container((node(0),)), allowed) == [0]
    named = spec({"NVIDIA_VISIBLE_DEVICES": "0"}, linux=container((), (ALLOW_ALL,))["linux"])
    assert sliced_gpus(named, allowed) == [0]
    # A container with privilege alone starts before an engine has read the configuration: it may be the
    # installer.
    assert is_silent(read(container((), (ALLOW_ALL,)), Effective()))
    assert not is_silent(read(container((node(0),)), Effective()))


@pytest.mark.parametrize("hook_point", ["prestart", "createRuntime"])
def test_old_images(hook_point: str) -> None:
    """NVIDIA's runtime, and its hook, give an image that has CUDA_VERSION alone all GPUs; others none."""
    nvidia_runtime = WITH_DEFAULT.replace(low_level_runtime="/usr/bin/nvidia-container-runtime")
    old = {"CUDA_VERSION": "8.0"}
    assert sliced_gpus(spec(old, linux={"x": 1}), nvidia_runtime) == [0, 1, 2]
    assert sliced_gpus(spec(old, linux={"x": 1}), WITH_DEFAULT) == []
    for more in ({"NVIDIA_REQUIRE_CUDA": "cuda>=8"}, {"NVIDIA_VISIBLE_DEVICES": ""}):
        assert sliced_gpus(spec({**old, **more}, linux={"x": 1}), nvidia_runtime) == []
    # NVIDIA's runtime adds the hook and then calls our runtime.
    hooks = {hook_point: [{"path": "/bin/x"}, {"path": "/usr/bin/nvidia-container-runtime-hook"}]}
    assert sliced_gpus(spec(old, hooks=hooks)) == [0, 1, 2]
    with refused("CUDA_VERSION=set: a GPU without an amount"):
        wants(spec(old, hooks=hooks), SHARED_NODE)
    assert sliced_gpus(spec({**old, "NVIDIA_VISIBLE_DEVICES": "void"}, hooks=hooks)) == []
    assert sliced_gpus(spec({}, hooks=hooks)) == []
    assert sliced_gpus(spec(old, hooks={hook_point: [{"path": "/bin/x"}, {}]})) == []
