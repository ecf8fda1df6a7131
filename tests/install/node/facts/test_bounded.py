# SPDX-License-Identifier: Apache-2.0
"""Questions in a child process, and NVIDIA's library asked by one."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from cgpu.errors import CgpuError
from cgpu.install.node.facts import bounded
from cgpu.install.node.facts.driver import ask_mig, find_library

LIBRARY = """
#include <string.h>
#include <unistd.h>
int nvmlInitWithFlags(unsigned int flags) { if (HANGS) sleep(60); return 0 * flags; }
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int error) { return error ? "failed" : ""; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
	*device = (void *)(long)(bus[6] - '0' + 1);
	return strncmp(bus, "0000:", 5) ? 6 : 0;
}
int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next)
{
	*now = 0;
	*next = device == (void *)2;
	return device == (void *)3 ? 3 : 0;
}
"""


def build(folder: Path, *, hangs: bool) -> Path:
    """Build a library in the place of NVIDIA's library."""
    path = folder / "libnvidia-ml.so.1"
    words = ["gcc", "-x", "c", "-shared", "-fPIC", f"-DHANGS={int(hangs)}", "-o", str(path), "-"]
    subprocess.run(words, input=LIBRARY.encode(), check=True)
    return path


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


def test_answer() -> None:
    """The answer comes back whole, larger than a pipe."""
    assert bounded.ask(lambda: ["x" * (1 << 20), {"a": None}], "it", 30) == ["x" * (1 << 20), {"a": None}]


def test_hangs() -> None:
    """The reader ends the process of a question that does not answer."""
    before, start = children(), time.monotonic()
    with pytest.raises(bounded.NoAnswerError, match=r"the driver: no answer within 0.2 s"):
        bounded.ask(lambda: time.sleep(60), "the driver", 0.2)
    assert time.monotonic() - start < 10
    assert children() == before


def test_foreign_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes, and the child is reaped, where /proc shows the processes of another pid namespace."""

    def unknown(pid: int) -> NoReturn:
        raise psutil.NoSuchProcess(pid)

    forked, fork = [], os.fork

    def recorded() -> int:
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", recorded)
    monkeypatch.setattr(psutil, "Process", unknown)
    assert bounded.ask(lambda: 1, "it", 30) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(forked[0], os.WNOHANG)


def test_refusal_and_fault() -> None:
    """A refusal comes with its line, any other fault with its name; an end without a word is told."""

    def refuse() -> NoReturn:
        raise CgpuError("no such thing")

    with pytest.raises(CgpuError, match=r"^no such thing$"):
        bounded.ask(refuse, "it", 30)
    with pytest.raises(CgpuError, match="ZeroDivisionError"):
        bounded.ask(lambda: 1 // 0, "it", 30)
    with pytest.raises(bounded.NoAnswerError, match="it: ended without an answer"):
        bounded.ask(lambda: os._exit(1), "it", 30)


def test_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without an end is not taken."""
    monkeypatch.setattr(bounded, "MAX_ANSWER", 1 << 16)
    with pytest.raises(bounded.NoAnswerError):
        bounded.ask(lambda: "x" * (1 << 20), "it", 30)


def test_mig(tmp_path: Path) -> None:
    """A card that is about to be cut counts as cut; one that cannot be cut does not."""
    buses = ["0000:00:00.0", "0000:01:00.0", "0000:02:00.0"]
    assert ask_mig(build(tmp_path, hangs=False), buses) == dict(zip(buses, (False, True, False), strict=True))


@pytest.mark.root
def test_library_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that others than root may write, or that lies where they may, is not loaded."""
    monkeypatch.setattr("cgpu.install.node.facts.driver.FOLDERS", (str(tmp_path),))
    with pytest.raises(CgpuError, match=f"is in none of {tmp_path}"):
        find_library()
    file = tmp_path / "libnvidia-ml.so.1"
    file.write_bytes(b"")
    tmp_path.chmod(0o755)
    assert find_library() == file
    file.chmod(0o666)
    with pytest.raises(CgpuError, match="others than root may write it"):
        find_library()
    file.chmod(0o644)
    tmp_path.chmod(0o777)
    with pytest.raises(CgpuError, match="others than root may write it"):
        find_library()


def test_library_fails(tmp_path: Path) -> None:
    """A library that fails is one line; one that is none as well."""
    with pytest.raises(CgpuError, match="libnvidia-ml"):
        ask_mig(build(tmp_path, hangs=False), ["nowhere"])
    (tmp_path / "broken.so").write_text("x")
    with pytest.raises(CgpuError, match=r"broken.so"):
        ask_mig(tmp_path / "broken.so", [])


def test_library_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that hangs does not hold us up."""
    monkeypatch.setattr("cgpu.install.node.facts.driver.NVML_S", 0.3)
    with pytest.raises(bounded.NoAnswerError):
        ask_mig(build(tmp_path, hangs=True), ["0000:00:00.0"])
