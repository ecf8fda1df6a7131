# SPDX-License-Identifier: Apache-2.0
"""The wrapper on a node whose engine is the kernel module: no listener, nodes by number, settings applied."""

from __future__ import annotations

import os
import stat

import pytest

from tests.runtime_config.oci_runtime.served import LEFT, Served
from tests.runtime_config.oci_runtime.wrapper import FIRST, Wrapper, refusal
from tests.runtime_config.support import ASKING, UUID, program, spec


@pytest.fixture
def module() -> bool:
    """Have the module loaded, with a driver whose numbers the kernel chose."""
    return True


def nodes(wrapper: Wrapper) -> list[tuple[object, ...]]:
    devices = wrapper.edited()["linux"].get("devices", [])
    return [tuple(device[name] for name in ("path", "type", "major", "minor")) for device in devices]


def test_nothing_of_the_daemon_is_needed(wrapper: Wrapper) -> None:
    """The profile stays as it is, without listener, socket, or a description that a daemon has left."""
    (wrapper.run_directory / "cdi.json").write_text("{}")
    edited = wrapper.start(*ASKING, FIRST)
    assert "seccomp" not in edited["linux"]
    assert edited["hooks"]["prestart"][0]["args"][-1] == "create id=c1 gpu=0:6336544768:1:0"


@pytest.mark.root
def test_a_server_does_all_of_it(bare: Served) -> None:
    """With the module too a server prepares a slice whole, once the card's nodes by number are there."""
    with bare.server():
        assert bare.create() == LEFT
        for major, minor in ((195, 255), (511, 0), (511, 1), (195, 0)):
            os.mknod(bare.numbers / f"{major}:{minor}", stat.S_IFCHR | 0o600, os.makedev(major, minor))
        edited = bare.start(*ASKING, FIRST)
    assert edited["hooks"]["prestart"][0]["args"][-1] == "create id=c1 gpu=0:6336544768:1:0"
    assert nodes(bare)[0] == ("/dev/nvidiactl", "c", 195, 255)
    assert bare.started()[-1] == "c1"


def test_nodes_are_given_by_number(wrapper: Wrapper) -> None:
    """A container gets control, UVM and its cards' nodes, by the tree's and the kernel's numbers."""
    (wrapper.tree / "1" / "minor").write_text("7\n")
    edited = wrapper.start(*ASKING, "NVIDIA_VISIBLE_DEVICES=1")
    assert nodes(wrapper) == [
        ("/dev/nvidiactl", "c", 195, 255),
        ("/dev/nvidia-uvm", "c", 511, 0),
        ("/dev/nvidia-uvm-tools", "c", 511, 1),
        ("/dev/nvidia7", "c", 195, 7),
    ]
    rules = edited["linux"]["resources"]["devices"]
    assert [(rule["major"], rule["minor"]) for rule in rules] == [(195, 255), (511, 0), (511, 1), (195, 7)]
    assert {(rule["allow"], rule["access"]) for rule in rules} == {(True, "rw")}


def test_the_vendors_runtime_provides_the_nodes(wrapper: Wrapper) -> None:
    """Below nvidia-container-runtime only the names of the cards are set."""
    vendor = program(wrapper.base / "nvidia-container-runtime")
    edited = wrapper.settings(low_level_runtime=str(vendor)).start(*ASKING, FIRST)
    assert nodes(wrapper) == []
    assert f"NVIDIA_VISIBLE_DEVICES={UUID}" in edited["process"]["env"]


@pytest.mark.parametrize("devices", ["", "Character devices:\nBlock devices:\n  8 nvidia-uvm\n"])
def test_a_missing_part_of_the_driver(wrapper: Wrapper, devices: str) -> None:
    """Without UVM a slice is refused with the command that loads it."""
    wrapper.devices.write_text(devices)
    message = f"{wrapper.devices}: has no nvidia-uvm, without which CUDA does not work: modprobe nvidia-uvm"
    assert refusal(wrapper) == message


def test_a_driver_without_numbers(wrapper: Wrapper) -> None:
    """Without a major number no node is invented."""
    (wrapper.tree / "major").write_text("0\n")
    assert refusal(wrapper) == f"{wrapper.tree}/major: 0: the NVIDIA driver is not loaded: modprobe nvidia"


@pytest.mark.parametrize("configured", [None, "N\n"])
def test_a_configuration_that_was_not_applied(wrapper: Wrapper, configured: str | None) -> None:
    """Settings count from when the module has them: until then a container that names a GPU is refused."""
    source = wrapper.base / "config.yaml"
    source.write_text("default_memsize: 1073741824\n")
    if configured is not None:
        (wrapper.base / "configured").write_text(configured)
    wrapper.bundle(spec(FIRST))
    message = f"{source}: not applied since cgpu_km was loaded: cgpu-config-apply"
    assert refusal(wrapper) == message
    wrapper.start()
    (wrapper.base / "configured").write_text("Y\n")
    wrapper.start(*ASKING, FIRST)
