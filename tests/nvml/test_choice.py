# SPDX-License-Identifier: Apache-2.0
"""Which memory backend a node gets, and what is said of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.memory_backend import backend
from cgpu.kmod.daemon.memory_backend.backend import Node, check_unified, choose, is_new_enough
from cgpu.kmod.daemon.memory_backend.nvml import library_at
from tests.daemon.harness import ROOT, Daemon
from tests.nvml.harness import LimitedDaemon, build_library

MOUNTS = "30 23 0:26 {root} {place} rw,relatime shared:4 - {kind} none rw\n"
WHOLE = MOUNTS.format(root="/", place="/sys/fs/cgroup", kind="cgroup2")
HYBRID = MOUNTS.format(root="/", place="/sys/fs/cgroup", kind="tmpfs") + MOUNTS.format(
    root="/", place="/sys/fs/cgroup/unified", kind="cgroup2"
)
PART = MOUNTS.format(root="/box", place="/sys/fs/cgroup", kind="cgroup2")
NODE = Node("615.71.09", ("GPU-0", "GPU-1"), simulated=False, library=None)


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        *[(version, True) for version in ("615.71.09", "620.06", "1000.1")],
        *[(version, False) for version in ("610.43.02", "595.45.04", "", "x615.1", "-615.1", "٦١٥.1")],
    ],
)
def test_versions(version: str, answer: bool) -> None:
    """Drivers from 615 on may limit by themselves; what is no version may not."""
    assert is_new_enough(version) is answer


@pytest.mark.parametrize("mountinfo", ["", HYBRID, PART, WHOLE + HYBRID])
def test_other_hierarchies(mountinfo: str) -> None:
    """Version 1, both, a part of version 2, or what lies over it: the driver would look elsewhere."""
    with pytest.raises(CgpuError, match=r"^/sys/fs/cgroup: "):
        check_unified(mountinfo)


def test_unified_hierarchy() -> None:
    """The whole of version 2 at its usual place is accepted, also over something else."""
    check_unified(HYBRID + WHOLE)


@pytest.mark.parametrize(
    ("asked", "before", "possible", "name"),
    [
        ("auto", None, True, "driver"),
        ("auto", None, False, "core"),
        ("driver", None, True, "driver"),
        ("driver", None, False, None),
        ("core", None, True, "core"),
        ("core", None, False, "core"),
        # Containers are registered: nothing changes under them.
        ("auto", "core", True, "core"),
        ("auto", "driver", True, "driver"),
        ("auto", "driver", False, None),
        ("driver", "core", True, "core"),
        ("core", "driver", True, "driver"),
        ("core", "driver", False, None),
    ],
)
def test_choice(
    monkeypatch: pytest.MonkeyPatch, asked: str, before: str | None, possible: bool, name: str | None
) -> None:
    """By what is asked, what containers have, and whether the driver can; None: the daemon does not start."""

    def open_driver(node: Node) -> Any:
        if not possible:
            raise CgpuError("it cannot")
        return object()

    monkeypatch.setattr(backend, "open_driver", open_driver)
    if name is None:
        with pytest.raises(CgpuError, match=r"^memory_backend: driver: it cannot$"):
            choose(asked, before, NODE)
        return
    chosen = choose(asked, before, NODE)
    assert chosen.name == name
    assert (chosen.nvml is not None) == (name == "driver")


@pytest.mark.root
def test_library_of_others(tmp_path: Path) -> None:
    """A library that others may write, or that lies where they may, does not come into the daemon."""
    with pytest.raises(CgpuError, match="No such file"):
        library_at(str(tmp_path / "none"))
    file = tmp_path / "libnvidia-ml.so.1"
    file.write_bytes(b"")
    tmp_path.chmod(0o755)
    assert library_at(str(file)) == file
    file.chmod(0o666)
    with pytest.raises(CgpuError, match="others than root may write it"):
        library_at(str(file))
    file.chmod(0o644)
    tmp_path.chmod(0o777)
    with pytest.raises(CgpuError, match="others than root may write it"):
        library_at(str(file))


@pytest.mark.root
def test_environment_names_no_library(base: Path) -> None:
    """LD_LIBRARY_PATH, which the binding itself would follow, has no say."""
    library = build_library(base / "nvml", base / "table")
    code = (
        "from pathlib import Path; from cgpu.kmod.daemon.memory_backend.nvml import Nvml\n"
        f"try: Nvml(Path('{library}'))\n"
        "except Exception as error: print(error)\n"
        "print([l for l in open('/proc/self/maps') if '/bad/' in l])\n"
    )
    (base / "bad").mkdir()
    build_library(base / "bad", base / "other")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(base / "bad")}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "nvmlInit: Driver Not Loaded (NVML error 9)\n[]\n", done.stderr


ASKED = "memory_backend: driver\n"
ALLOWED = "allow_unknown_driver: true\n"


@pytest.mark.root
@pytest.mark.parametrize(
    ("options", "name", "why"),
    [
        ({"says": "595.45.04"}, "core", r"driver 595\.45\.04 is older than 615"),
        ({"cards": "T4:2", "faults": {"card": 1, "mig": 1}}, "core", ".*MIG mode.*"),
        ({"cards": "T4:2", "faults": {"card": 1, "set_code": 3}}, "core", ".*Not Supported.*"),
        ({"says": "999.99", "config": ALLOWED + ASKED}, "driver", r"driver 999\.99 limits on every card"),
        ({"config": ASKED}, "driver", r"driver 615\.71\.09 limits on every card"),
    ],
    ids=["old driver", "one card in MIG mode", "one card without limits", "allowed driver", "known driver"],
)
def test_backend_and_why(
    make_limited: Callable[..., LimitedDaemon], options: dict[str, Any], name: str, why: str
) -> None:
    """The core limits where one card or the driver cannot, else the driver; the status says why."""
    daemon = make_limited(**options)
    assert daemon.backend() == name
    assert re.fullmatch(why, daemon.status()["memory_backend"]["why"])


@pytest.mark.root
def test_old_library(make_limited: Callable[..., LimitedDaemon]) -> None:
    """Who asks for the driver's limits, and has a library without them, gets one line and no daemon."""
    daemon = make_limited(config=ASKED, flags=("-DOLDER",), starts=False)
    line = f"cgpud: memory_backend: driver: {daemon.library}: has no nvmlDeviceSetMemoryLimits_v1; "
    assert daemon.refusal == line + "drivers from 615 on have it\n"


@pytest.mark.root
def test_unknown_driver_is_refused(make_limited: Callable[..., LimitedDaemon]) -> None:
    """Limits of the driver's own do not make its calls known: allow_unknown_driver decides as ever."""
    daemon = make_limited(config=ASKED, says="999.99", starts=False)
    assert "driver version 999.99 is unknown" in daemon.refusal


@pytest.mark.root
def test_simulated_cards_have_no_library(make_daemon: Callable[..., Daemon]) -> None:
    """Simulated cards never lead to the library of real ones that may be in the machine."""
    daemon = make_daemon()
    assert daemon.read("engine").split()[2] == "core"
