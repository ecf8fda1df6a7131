# SPDX-License-Identifier: Apache-2.0
"""The tree as a file system: it behaves as procfs does."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess

import pytest

from tests.daemon.harness import MIB, Daemon, long_id

pytestmark = pytest.mark.root


def shell(daemon: Daemon, line: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line inside the tree."""
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=daemon.tree, capture_output=True, text=True, check=False
    )


def test_cat_and_echo(daemon: Daemon) -> None:
    """A node is read with cat and written with echo, with > and with >>."""
    for arrow in (">", ">>"):
        assert shell(daemon, f"echo 3 {arrow} 0/policy && cat 0/policy").stdout == "3\n"
        assert shell(daemon, f"echo 1 {arrow} 0/policy && cat 0/policy").stdout == "1\n"


def test_bad_write_is_an_error_of_write(daemon: Daemon) -> None:
    """A value out of range fails with EINVAL from write itself and changes nothing."""
    fd = os.open(daemon.tree / "0" / "policy", os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(OSError, match="Invalid argument"):
        os.write(fd, b"9\n")
    os.close(fd)
    assert daemon.read("0/policy") == "1\n"


def test_several_writes_on_one_descriptor(daemon: Daemon) -> None:
    """Each write stands for itself, wherever the offset has got to."""
    fd = os.open(daemon.tree / "0" / "policy", os.O_WRONLY)
    for value in (b"2\n", b"4\n", b"1\n"):
        os.write(fd, value)
    os.close(fd)
    assert daemon.read("0/policy") == "1\n"


def test_partial_reads_fit_together(daemon: Daemon) -> None:
    """Byte by byte gives the same as at once; a read from the start sees what is new."""
    fd = os.open(daemon.tree / "0" / "max_inst", os.O_RDONLY)
    assert b"".join(iter(lambda: os.read(fd, 1), b"")) == b"20\n"
    daemon.write("0/max_inst", "21\n")
    try:
        assert os.pread(fd, 64, 0) == b"21\n"
        assert os.pread(fd, 64, 2) == b"\n"
        assert os.pread(fd, 64, 99) == b""
    finally:
        daemon.write("0/max_inst", "20\n")
        os.close(fd)


def test_list_and_modes(daemon: Daemon) -> None:
    """Directories list their nodes; nobody but root gets in; only what can be written has a write bit."""
    assert {"0", "1", "default_memsize", "engine", "inst_ctl", "major", "version"} <= set(
        os.listdir(daemon.tree)
    )
    assert stat.S_IMODE(daemon.tree.stat().st_mode) == 0o700
    for node, mode in (("inst_ctl", 0o600), ("0/policy", 0o644), ("version", 0o444), ("0/uuid", 0o444)):
        info = (daemon.tree / node).stat()
        assert stat.S_IMODE(info.st_mode) == mode
        assert (info.st_uid, info.st_gid, info.st_size) == (0, 0, 0)
    assert "inst_ctl" in shell(daemon, "ls -l").stdout


def test_no_such_node(daemon: Daemon) -> None:
    """Nodes cannot be made, moved or removed."""
    for line in (
        "cat nothing",
        "echo 1 > nothing",
        "mkdir new",
        "rm version",
        "mv version other",
        "ln -s a b",
    ):
        assert shell(daemon, line).returncode != 0


def test_inst_ctl_is_not_for_reading(daemon: Daemon) -> None:
    """Reading inst_ctl is EBADF."""
    fd = os.open(daemon.tree / "inst_ctl", os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.read(fd, 1)
    os.close(fd)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("create", errno.EINVAL),
        (f"create id={long_id(7)} pid={{pid}} gpu=9:{MIB}", errno.ENOENT),
        (f"create id={long_id(7)} pid={{pid}} gpu=0:{1 << 40}", errno.ENOMEM),
        (f"create id={long_id(7)} pid=4194304 gpu=0:{MIB}", errno.ESRCH),
        ("x" * 4097, errno.EINVAL),
    ],
)
def test_errors_of_registration(daemon: Daemon, line: str, code: int) -> None:
    """A registration that cannot be made says why through errno, and leaves nothing."""
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        daemon.write("inst_ctl", line.format(pid=os.getpid()))
    assert daemon.instances() == []


def test_directory_of_a_gone_container(daemon: Daemon) -> None:
    """A descriptor that was open when its container went gives ENOENT, also when another takes its place."""
    daemon.write("inst_ctl", f"create id={long_id(7)} pid={os.getpid()} gpu=0:{MIB}")
    fd = os.open(daemon.tree / "0" / long_id(7)[:12] / "memsize", os.O_RDONLY)
    assert os.pread(fd, 64, 0) == b"1048576\n"
    daemon.write("inst_ctl", f"destroy id={long_id(7)}")
    daemon.write("inst_ctl", f"create id={long_id(7)} pid={os.getpid()} gpu=0:{MIB}")
    with pytest.raises(FileNotFoundError):
        os.pread(fd, 64, 0)
    os.close(fd)
    daemon.write("inst_ctl", f"destroy id={long_id(7)}")


def test_without_capability(daemon: Daemon) -> None:
    """Root without CAP_SYS_ADMIN, and root of another user namespace, may read and not write."""
    drop = ["/usr/bin/setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "/bin/sh"]
    outside = ["/usr/bin/unshare", "--user", "--map-root-user", "/bin/sh"]
    for start in (drop, outside):
        done = subprocess.run(
            [*start, "-c", "echo 2 > 0/policy"], cwd=daemon.tree, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert "Operation not permitted" in done.stderr or "Permission denied" in done.stderr
    assert daemon.read("0/policy") == "1\n"


def test_facts_of_the_card(daemon: Daemon) -> None:
    """Name, size and identity of a card can be read."""
    assert daemon.read("0/name") == "Tesla T4\n"
    assert int(daemon.read("0/memtotal")) == 15109 * MIB
    assert daemon.read("0/uuid").startswith("GPU-")
    assert daemon.read("engine").startswith("cgpud ")
    assert daemon.read("major") == "0\n"
