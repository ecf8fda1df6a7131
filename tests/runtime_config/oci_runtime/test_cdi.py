# SPDX-License-Identifier: Apache-2.0
"""The engine's description of GPUs is put into a spec without a trace of what was there before."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.runtime_config.oci_runtime.cdi import Description, apply, load
from tests.runtime_config.support import UUID, JsonObject, cdi_document, description, mount, spec

DEVICE = {"path": "/dev/nvidia0", "type": "c", "major": 1, "minor": 3}
NULL = {**DEVICE, "hostPath": "/dev/null", "permissions": "rw"}
MOUNTS: JsonObject = {"mounts": [mount("a")]}
ACCESS = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}


def applied(document: JsonObject, *edits: JsonObject) -> JsonObject:
    edited = copy.deepcopy(document)
    apply(edited, copy.deepcopy(list(edits)))
    return edited


def test_files_are_mounted() -> None:
    """A card that is a file is mounted where a program looks for it, after the spec's own mounts."""
    edited = applied(spec(), *description().edits([UUID]))
    bound = {"type": "bind", "options": ["bind", "rw"]}
    wanted = [
        {"destination": f"/dev/{name}", "source": f"/run/cgpu/sim/{name}", **bound}
        for name in ("nvidiactl", "nvidia0")
    ]
    assert edited["mounts"] == [{"destination": "/proc", "type": "proc", "source": "proc"}, *wanted]


def test_device_nodes_come_with_their_access_rule() -> None:
    """A real card's node has the numbers of the description; the cgroup lets it be used, not made."""
    edited = applied(spec(), {"deviceNodes": [NULL]})
    assert edited["linux"]["devices"] == [DEVICE]
    assert edited["linux"]["resources"] == {"devices": [ACCESS]}


@pytest.mark.parametrize("path", ["/dev/nvidia0", "/dev//nvidia0", "/dev/x/../nvidia0"])
def test_a_populated_dev_is_replaced_not_doubled(path: str) -> None:
    """The list of a privileged container that has the node already has it once."""
    old = {"path": path, "type": "c", "major": 9, "minor": 9}
    privileged = spec(
        linux={"devices": [old, {"path": "/dev/a"}, old], "resources": {"devices": [{"allow": True}]}}
    )
    edited = applied(privileged, {"deviceNodes": [NULL]})
    assert edited["linux"]["devices"] == [DEVICE, {"path": "/dev/a"}]
    assert edited["linux"]["resources"] == {"devices": [{"allow": True}, ACCESS]}


def test_a_mount_takes_the_place_of_a_node() -> None:
    """A file mounted at a path and a node at the same path would collide: the last one given stays."""
    with_node = spec(linux={"devices": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}]})
    edited = applied(with_node, {"mounts": [mount("nvidia0")]})
    assert edited["linux"]["devices"] == []
    back = applied(edited, {"deviceNodes": [NULL]})
    assert back["linux"]["devices"] == [DEVICE]
    assert back["mounts"] == spec()["mounts"]


@pytest.mark.parametrize(
    ("document", "edit", "message"),
    [
        (spec(), {"netDevices": []}, "containerEdits.netDevices: expected one of deviceNodes, mounts"),
        (
            spec(),
            {"mounts": [{"hostPath": "x", "containerPath": "/x"}]},
            "hostPath: x: expected an absolute path",
        ),
        (spec(), {"mounts": ["x"]}, "mounts: x: expected objects"),
        (spec(), {"deviceNodes": [{"path": "/dev/x", "type": "c"}]}, "/dev/x: expected type, major, minor"),
        (spec(linux={"devices": {}}), {"deviceNodes": [NULL]}, "devices: an object: expected a list"),
        (spec(mounts=[{"destination": "/dev/", "type": "bind"}]), MOUNTS, "over its /dev"),
        (spec(mounts=[{"destination": "/dev", "options": ["rbind"]}]), MOUNTS, "over its /dev"),
    ],
)
def test_what_cannot_be_applied_is_refused(document: JsonObject, edit: JsonObject, message: str) -> None:
    """A description or spec that cannot be joined refuses the container by name."""
    with pytest.raises(CgpuError, match=re.escape(message)):
        applied(document, edit)


def test_an_unknown_device_is_refused() -> None:
    """A GPU that the description lacks is named."""
    with pytest.raises(CgpuError, match="has no device GPU-x"):
        description().edits(["GPU-x"])


def test_reading(tmp_path: Path) -> None:
    """The description is read from its file; none is no error, a foreign or broken one is."""
    path = tmp_path / "cdi.json"
    assert load(str(path)) is None
    path.write_text(json.dumps(cdi_document(vendor=True)))
    found = load(str(path))
    assert isinstance(found, Description)
    assert found.vendor_toolkit
    for text, message in (
        ("{}", "not a CDI"),
        ('{"kind": "nvidia.com/gpu"}', "not a CDI"),
        ("{", "Expecting"),
    ):
        path.write_text(text)
        with pytest.raises(CgpuError, match=message):
            load(str(path))
