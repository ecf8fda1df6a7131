# SPDX-License-Identifier: Apache-2.0
"""The record: files as they were before, edits of others, and who may have written it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install.places import RECORD
from cgpu.install.store import Store
from cgpu.node_files import FileEdit, below
from tests.install.engines import WHALE
from tests.install.support import snapshot

STEP = "files x"


def write(root: Path, name: str, after: bytes | None, mode: int = 0o644) -> None:
    """Change one file by a step, as a command of its own does."""
    path = root / name
    before = path.read_bytes() if path.exists() else None
    Store.load(root).write(STEP, [FileEdit(path, before, after, mode)])


def undo(root: Path) -> list[str]:
    """Remove the files, end the record; return the folders that stay."""
    store = Store.load(root)
    for path in store.paths_of(STEP):
        place = below(root, path)
        store.write(STEP, [FileEdit(place, place.read_bytes(), None)])
    left = list(store.remove_folders())
    store.delete()
    return left


def test_attributes_stay(root: Path) -> None:
    """Owner, mode and attributes stay with an edit."""
    path = root / WHALE.path
    status, names = path.stat(), os.listxattr(path)
    write(root, WHALE.path, b"first=yes\n")
    edited = path.stat()
    kept = (status.st_uid, status.st_gid, status.st_mode)
    assert (edited.st_uid, edited.st_gid, edited.st_mode) == kept
    assert os.listxattr(path) == names


def test_a_file_is_saved_once(root: Path) -> None:
    """The content before the first change lies under a name made of its path, and stays so."""
    before = (root / WHALE.path).read_bytes()
    write(root, WHALE.path, b"first=yes\n")
    write(root, WHALE.path, b"second=yes\n")
    (saved,) = below(root, f"{RECORD}/before").iterdir()
    assert (saved.name, saved.read_bytes()) == ("etc%2Fwhale%2Fwhale.conf", before)
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(root: Path) -> None:
    """A settings file that is a link is edited where it points to, and the link stays."""
    write(root, "etc/seal.conf", b"edited=yes\n")
    assert (root / "etc/seal.conf").is_symlink()
    assert (root / "etc/storage/seal.real").read_bytes() == b"edited=yes\n"


def test_a_link_out_of_the_root_is_refused(root: Path, tmp_path: Path) -> None:
    """Below a root other than / nothing outside of it is edited."""
    outside = tmp_path / "outside"
    outside.write_text("a=b\n")
    (root / "etc/out").symlink_to(outside)
    with pytest.raises(CgpuError, match="leads out of"):
        write(root, "etc/out", b"c=d\n")
    assert outside.read_text() == "a=b\n"


def test_folders_that_are_in_use_stay(root: Path) -> None:
    """A folder that was made goes when it is empty; with a file of somebody else it stays, and is named."""
    write(root, "etc/new/deep/ours", b"x=y\n", 0o600)
    assert (root / "etc/new/deep/ours").stat().st_mode & 0o777 == 0o600
    (root / "etc/new/theirs").write_text("mine")
    assert undo(root) == ["/etc/new"]
    assert not (root / "etc/new/deep").exists()
    assert (root / "etc/new/theirs").read_text() == "mine"


def test_an_edit_in_the_meantime_is_seen(root: Path) -> None:
    """The store refuses an edit that was planned for another content of the file."""
    with pytest.raises(CgpuError, match="was changed meanwhile"):
        Store.load(root).write(STEP, [FileEdit(root / WHALE.path, b"older=yes\n", b"edited=yes\n")])
    assert not below(root, RECORD).exists()


def test_contents_of_ours(root: Path) -> None:
    """Each content that we have written is known, and none of others."""
    for content in (b"1\n", b"2\n"):
        write(root, "etc/one", content)
    store = Store.load(root)
    assert [store.is_ours("/etc/one", content) for content in (b"1\n", b"2\n", b"3\n")] == [True, True, False]
    assert not store.is_ours("/etc/hosts", b"1\n")


# --- what is no record ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"format": 1', '"format": 2'),
        ('"facts": {}', '"facts": {"runtimes": 7}'),
        ('"command": ""', '"command": "rm"'),
        ('"/etc/first"', '"etc/first"'),
        ('"ours": [', '"ours": 5, "x": ['),
    ],
)
def test_a_record_that_is_not_understood(root: Path, before: str, after: str) -> None:
    """An unknown record stops every command before it begins; the line says where the old contents are."""
    write(root, "etc/first", b"1\n")
    path = below(root, f"{RECORD}/record.json")
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(CgpuError, match=r"is not a record of this version.*install/before: put them back"):
        Store.load(root)


def test_a_fifo_or_huge_file_as_record(root: Path) -> None:
    """A FIFO or a file of 1 TiB in the record's place is refused at once: reading it would not end."""
    place = below(root, f"{RECORD}/record.json")
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    with pytest.raises(CgpuError, match="is not a record of this version"):
        Store.load(root)
    place.unlink()
    place.touch()
    os.truncate(place, 1 << 40)
    with pytest.raises(CgpuError, match="cannot be read"):
        Store.load(root)


@pytest.mark.root
@pytest.mark.parametrize("name", ["", "install", "install/record.json"])
def test_a_record_that_others_may_have_written(root: Path, name: str) -> None:
    """A record and its folders are refused where others own or can write them; the line has the fix.

    Root does what a record says.
    """
    write(root, WHALE.path, b"1\n")
    place = root / "var/lib/cgpu" / name
    mode = place.stat().st_mode
    refused = pytest.raises(
        CgpuError, match=r"others than root may have written.* chown -R root:root /.*/cgpu"
    )
    place.chmod(0o722)
    with refused:
        Store.load(root)
    place.chmod(mode)
    os.chown(place, 1000, 1000)
    with refused:
        Store.load(root)
    os.chown(place, 0, 0)


def test_a_symbolic_link_in_place_of_the_contents(root: Path) -> None:
    """Without a record, sweep() removes the folder with its links, but no file that a link leads to."""
    folder = below(root, RECORD)
    folder.mkdir(parents=True)
    (folder / "before").symlink_to(root / "etc")
    before = snapshot(root / "etc")
    Store.load(root).sweep()
    assert snapshot(root / "etc") == before
    assert not folder.exists()
