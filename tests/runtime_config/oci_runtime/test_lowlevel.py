# SPDX-License-Identifier: Apache-2.0
"""Choosing the low-level runtime in Python, as the launcher does, and handing over to it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.errors import LINE_START, CgpuError
from cgpu.runtime_config.oci_runtime.lowlevel import (
    AGAIN,
    BELOW,
    KEPT,
    LOW_LEVEL,
    NAME,
    find,
    is_marked,
    keep_links,
    seccomp_flags,
)
from tests.runtime_config.oci_runtime.wrapper import Wrapper
from tests.runtime_config.support import SOURCES, program, spec


def test_the_order(tmp_path: Path) -> None:
    """The vendor's runtime, then runc, then crun, each in the order of the directories; none is an error."""
    with pytest.raises(CgpuError, match="nvidia-container-runtime, runc, crun; apt-get install runc"):
        find(None, plain=False, search=(str(tmp_path),))
    first, second = tmp_path / "1", tmp_path / "2"
    search = (str(first), str(second))
    crun, runc = str(program(first / "crun")), str(program(second / "runc"))
    assert find(None, plain=False, search=search) == runc
    vendor = str(program(second / "nvidia-container-runtime"))
    assert find(None, plain=False, search=search) == vendor
    assert find(None, plain=True, search=search) == runc
    assert find(vendor, plain=True, search=search) == runc
    assert find(crun, plain=True, search=search) == crun
    assert find(vendor + ".cdi", plain=True, search=search) == runc


def test_never_itself(tmp_path: Path) -> None:
    """A copy of the launcher under either of its names is passed over, and refused where it is named."""
    for name in (NAME, LOW_LEVEL):
        copy = str(program(tmp_path / "copy" / name))
        (tmp_path / "1").mkdir(exist_ok=True)
        (tmp_path / "1/runc").unlink(missing_ok=True)
        (tmp_path / "1/runc").symlink_to(copy)
        crun = str(program(tmp_path / "2" / "crun"))
        assert find(None, plain=True, search=(str(tmp_path / "1"), str(tmp_path / "2"))) == crun
        with pytest.raises(CgpuError, match="a program other than this one"):
            find(copy, plain=False)


def test_links(tmp_path: Path) -> None:
    """The engine's links lead to what is found, follow the configuration, and go where nothing is found."""
    vendor, runc = program(tmp_path / "bin" / "nvidia-container-runtime"), program(tmp_path / "bin" / "runc")
    link, plain = tmp_path / "link", tmp_path / "link.plain"
    search = (str(tmp_path / "bin"),)

    def links(configured: Path | None) -> list[Path | None]:
        keep_links(None if configured is None else str(configured), str(link), str(plain), search)
        return [path.readlink() if path.is_symlink() else None for path in (link, plain)]

    assert links(None) == [vendor, runc]
    assert links(runc) == [runc, runc]
    assert links(vendor) == [vendor, runc]
    assert links(tmp_path / "gone") == [None, None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


@pytest.mark.parametrize("configured", ["runc", "/etc/passwd", "/etc", "/does/not/exist"])
def test_a_configured_runtime_must_be_a_program(configured: str) -> None:
    """A relative name, a directory and what cannot be executed are refused."""
    with pytest.raises(CgpuError, match=f"low_level_runtime: {configured}"):
        find(configured, plain=False)


def test_launcher_and_python_share_their_constants() -> None:
    """Constants that the launcher and Python share have the same value in both."""
    header = (SOURCES / "launcher.h").read_text()
    assert f'CGPU_LINK_PATH "{paths.LOW_LEVEL}"' in header
    end = paths.LOW_LEVEL_PLAIN.removeprefix(paths.LOW_LEVEL)
    assert f'CGPU_PLAIN_LINK_PATH CGPU_LINK_PATH "{end}"' in header
    assert f'CGPU_SIM_PATH "{paths.SIM}"' in header
    assert f'CGPU_BUNDLED "{paths.BUNDLED}"' in header
    assert f'LAUNCHER_NAME "{NAME}"' in header
    assert f'LAUNCHER_LOW_LEVEL LAUNCHER_NAME "{LOW_LEVEL.removeprefix(NAME)}"' in header
    assert f'LAUNCHER_BELOW "{BELOW}"' in header
    assert f'LAUNCHER_AGAIN "{AGAIN}"' in header
    assert f'LAUNCHER_KEPT "{KEPT}"' in header
    assert f'LAUNCHER_LINE_START "{LINE_START}"' in header


def test_lasting_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a bundle is named by the link to the version in force, where that is this one."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
    (tmp_path / "current").symlink_to("1")
    monkeypatch.setattr(paths, "BUNDLE", f"{tmp_path}/1")
    assert paths.lasting(f"{tmp_path}/1/bin/cgpud") == f"{tmp_path}/current/bin/cgpud"
    assert paths.lasting("/usr/bin/cgpud") == "/usr/bin/cgpud"
    monkeypatch.setattr(paths, "BUNDLE", f"{tmp_path}/2")
    assert paths.lasting(f"{tmp_path}/2/bin/cgpud") == f"{tmp_path}/2/bin/cgpud"


def test_the_environment_is_given_back(alone: Wrapper) -> None:
    """The low-level runtime gets the loader's variables back under their names, and all others unchanged."""
    alone.runtime(f"env -0 >{alone.base}/env\n").bundle(spec())
    given = {"PATH": os.environ["PATH"], KEPT + "LD_BIND_NOW": "1", "NOTIFY_SOCKET": "/n", BELOW: "7"}
    subprocess.run(alone.command("create", "-b", str(alone.place), "c1"), env=given, check=True, timeout=60)
    seen = dict(entry.split("=", 1) for entry in (alone.base / "env").read_text().rstrip("\0").split("\0"))
    assert (seen["LD_BIND_NOW"], seen["NOTIFY_SOCKET"], KEPT + "LD_BIND_NOW" in seen) == ("1", "/n", False)
    assert BELOW not in seen


def test_a_mark_counts_in_its_own_process() -> None:
    """Called out of the vendor's list: only by the mark that this process was given."""
    assert is_marked({BELOW: str(os.getpid())}, BELOW)
    assert not is_marked({BELOW: "1"}, BELOW)
    assert not is_marked({}, BELOW)


def test_the_script_finds_its_package() -> None:
    """The script that the launcher starts works from any directory and hands over to a runtime."""
    script = str(SOURCES.parent / "oci_runtime" / "launch.py")
    command = ["/usr/bin/python3", "-IS", script, "", ".", "", "", "text", "", "--version"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, timeout=60)
    assert "runc" in done.stdout or "crun" in done.stdout, done.stderr


def test_a_runtime_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that hangs when asked for its features counts as one without, and is not left behind."""
    monkeypatch.setattr("cgpu.runtime_config.oci_runtime.lowlevel.FEATURES_TIMEOUT_MS", 50)
    path = program(tmp_path / "runc", f"echo $$ >{tmp_path}/pid\nexec sleep 1000")
    assert seccomp_flags(str(path), str(tmp_path / "cache")) == []
    pid = int((tmp_path / "pid").read_text()) if (tmp_path / "pid").exists() else 0
    assert not pid or not Path(f"/proc/{pid}").exists()


def test_a_new_runtime_is_asked_again(tmp_path: Path) -> None:
    """The cached answer belongs to one file: another file of that name is asked anew."""
    path, cache = tmp_path / "runc", tmp_path / "cache"
    answer = '{"linux":{"seccomp":{"supportedFlags":["%s"]}}}'
    for flag in ("A", "LONGER"):
        program(path, f"echo '{answer % flag}'")
        assert seccomp_flags(str(path), str(cache)) == [flag]
    assert seccomp_flags(str(path), str(tmp_path / "no" / "directory")) == ["LONGER"]
