# SPDX-License-Identifier: Apache-2.0
"""The files of shares: written and read again, and refused where root alone has not written them so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import shares
from cgpu.errors import CgpuError
from cgpu.request.grants import is_share
from cgpu.slice import Slice
from tests.client.support import uuid
from tests.refusal import has_parts, refused
from tests.request.shares import OTHER_SHARE, POD, SHARE, document, put

pytestmark = pytest.mark.root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shares"


def write(folder: Path, text: object) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{SHARE}.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    path.chmod(0o600)
    return path


def assert_refused(folder: Path, why: str, place: Path | None = None) -> None:
    """Expect that the share is refused with the place, that of its file unless told, and why."""
    with refused(f"{place or folder / SHARE}{'' if place else '.json'}: {why}"):
        shares.read(SHARE, str(folder))


def test_what_is_written_is_read(folder: Path) -> None:
    """A share is read as it was written, from a file that is root's alone."""
    put(folder)
    share = shares.read(SHARE, str(folder))
    assert share.to_dict() == document()
    assert (share.claim, share.pods) == (("team-a", "train-gpu-x7", "c-1"), {POD: ("main", "init")})
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert (folder / f"{SHARE}.json").stat().st_mode & 0o7777 == 0o600


def test_life_of_files(folder: Path) -> None:
    """Files are listed, replaced, and removed once and again; other files are no shares."""
    assert shares.listed(str(folder)) == ()
    shares.remove(SHARE, str(folder))
    put(folder)
    put(folder, share=OTHER_SHARE)
    put(folder, weight=3)
    (folder / f".{SHARE}.json.cgpu-new").touch()
    (folder / "x.json").touch()
    assert shares.listed(str(folder)) == (OTHER_SHARE, SHARE)
    assert shares.read(SHARE, str(folder)).slice.weight == 3
    for _ in range(2):
        shares.remove(SHARE, str(folder))
    assert shares.listed(str(folder)) == (OTHER_SHARE,)


def test_no_share(folder: Path) -> None:
    """A share without a file, with or without a folder, is not there."""
    for _ in range(2):
        with pytest.raises(shares.MissingShareError, match="it is not on this node, or its claim has ended"):
            shares.read(SHARE, str(folder))
        folder.mkdir(exist_ok=True)


@pytest.mark.parametrize(
    "share", ["", "..", "../x", SHARE.upper(), SHARE + "\n", f"{SHARE}/..", "\0", "g" * 36]
)
def test_no_id(folder: Path, share: str) -> None:
    """A text that is no id of a share never becomes a path."""
    for call in (shares.read, shares.remove):
        with refused("", "expected a UUID in small letters"):
            call(share, str(folder))


LOOP = "cannot be read (Too many levels of symbolic links)"


def test_link(folder: Path, tmp_path: Path) -> None:
    """A link is not followed, neither of the file nor of the folder."""
    put(folder)
    (folder / f"{SHARE}.json").rename(tmp_path / "elsewhere")
    (folder / f"{SHARE}.json").symlink_to(tmp_path / "elsewhere")
    assert_refused(folder, LOOP)
    (tmp_path / "link").symlink_to(folder)
    with refused("", LOOP):
        shares.read(SHARE, str(tmp_path / "link"))


def test_others_rights(folder: Path) -> None:
    """A file or a folder that others can write, or that is not root's, is refused."""
    put(folder)
    path = folder / f"{SHARE}.json"
    for place in (path, folder):
        mode = place.stat().st_mode & 0o7777
        for wide in (0o020, 0o002):
            place.chmod(mode | wide)
            assert_refused(folder, f"mode {mode | wide:04o} lets others write", place)
        place.chmod(mode)
        os.chown(place, 1000, 0)
        assert_refused(folder, "belongs to user 1000", place)
        os.chown(place, 0, 0)
    shares.read(SHARE, str(folder))


def test_no_file(folder: Path) -> None:
    """A pipe or a folder in the file's place blocks no reader, and a file of more than 64 KiB is not read."""
    folder.mkdir()
    os.mkfifo(folder / f"{SHARE}.json", 0o600)
    assert_refused(folder, "expected a plain file")
    (folder / f"{SHARE}.json").unlink()
    (folder / f"{SHARE}.json").mkdir(0o700)
    assert_refused(folder, "expected a plain file")
    (folder / f"{SHARE}.json").rmdir()
    write(folder, json.dumps(document()) + " " * (1 << 16))
    assert_refused(folder, "too large; expected at most 65536 bytes")


CLAIM = {"namespace": "a", "name": "b", "uid": "c"}
TWICE = "is not JSON (the key {} appears twice in one object)"
OTHER = f"has more or less in it than the file of share {SHARE}"
BAD: list[tuple[object, str]] = [
    ("", "is not JSON (Expecting value: line 1 column 1 (char 0)); expected the file of a share"),
    ("[]", "version: a list: expected 1; "),
    ("[" * 50000, "is not JSON (nested too deep); expected the file of a share"),
    (json.dumps(document())[:-1] + ', "weight": 5}', TWICE.format("weight")),
    (json.dumps(document()).replace('["main"', '["main"], "' + POD + '": ["main"'), TWICE.format(POD)),
    (json.dumps(document(weight=float("nan"))), "is not JSON (NaN is not JSON)"),
    ({}, "version: None: expected 1; "),
    (document(version=2), "version: 2: expected 1; a newer node agent has written it"),
    (document(version=True), "version: True: expected 1; "),
    (document(version=1.0), "version: 1.0: expected 1; "),
    (document(owner="x"), OTHER),
    ({key: value for key, value in document().items() if key != "pods"}, OTHER),
    (document(share=OTHER_SHARE), OTHER),
    (document(gpu="GPU-../x"), "gpu: GPU-../x: expected the UUID of a GPU"),
    (document(gpu=["GPU-1"]), OTHER),
    (document(memsize=0), "memsize: 0: expected a whole number from 1 to 999999999999999"),
    (document(memsize=1.5), "memsize: 1.5: expected a whole number from 1"),
    (document(memsize=True), "memsize: True: expected a whole number from 1"),
    (document(memsize="6043"), "memsize: 6043: expected a whole number from 1"),
    (document(memsize=1 << 200), "memsize: a very large number: expected a whole number from 1"),
    (document(weight=-1), "weight: -1: expected a whole number from 0 to 25"),
    (document(highprio=2), "highprio: 2: expected a whole number from 0 to 1"),
    (document(claim={"namespace": "a", "name": "b"}), OTHER),
    (document(claim={**CLAIM, "x": 1}), OTHER),
    (document(claim={**CLAIM, "namespace": "a\nb"}), "a\\nb: expected a name of Kubernetes"),
    (document(pods=["main"]), OTHER),
    (document(pods={POD: "main"}), OTHER),
    (document(pods={POD: [1]}), OTHER),
    (document(pods={"": ["main"]}), ": expected a name of Kubernetes"),
]


@pytest.mark.parametrize(("text", "why"), BAD)
def test_refused(folder: Path, text: object, why: str) -> None:
    """A file of another form, or with more or less in it, is refused with one line that names it."""
    write(folder, text)
    assert_refused(folder, why)


def test_nothing_wrong_is_written(folder: Path) -> None:
    """A share that could not be read is not written."""
    share = shares.Share(SHARE, ("a", "b", "c"), uuid(0), Slice(0, 1, 0), {})
    with refused(f"{folder}/{SHARE}.json: memsize: 0: expected a whole number from 1 to 999999999999999"):
        shares.write(share, str(folder))
    with refused(f"{folder}/{SHARE}.json: ", "bytes; expected at most 65536"):
        put(folder, pods={f"{number:0200}": ["main" * 20] for number in range(256)})
    assert shares.listed(str(folder)) == ()


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
names = st.text("abc-.09", min_size=1, max_size=12)
good = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from([uuid(0), "GPU-1"]),
        "memsize": st.integers(1, 10**15 - 1),
        "weight": st.integers(0, 25),
        "highprio": st.integers(0, 1),
        "claim": st.fixed_dictionaries({"namespace": names, "name": names, "uid": names}),
        "pods": st.dictionaries(names, st.lists(names, unique=True, max_size=4), max_size=4),
    }
)


@given(good)
def test_every_good_document_is_kept(members: dict[str, Any]) -> None:
    """A document of the right form is read without loss."""
    whole = document(**members)
    assert shares.parse(whole, SHARE, "here").to_dict() == whole


@given(st.dictionaries(st.sampled_from([*document(), "x"]), json_values, max_size=8), json_values)
def test_any_document(members: dict[str, Any], other: object) -> None:
    """Any JSON is a share in all its parts, or refused with one line."""
    for made in ({**document(), **members}, members, other):
        try:
            share = shares.parse(made, SHARE, "here")
        except CgpuError as error:
            said = str(error)
        else:
            assert share.to_dict() == made
            continue
        assert has_parts(said, "here: ")


@given(
    st.text("0123456789abcdefABCDEF-g\n", max_size=40) | st.from_regex(r"[0-9a-f-]{36}\n?", fullmatch=True)
)
def test_ids(text: str) -> None:
    """An id has five groups of small hexadecimal digits, and is nothing else."""
    groups = text.split("-")
    form = [len(group) for group in groups] == [8, 4, 4, 4, 12]
    assert is_share(text) == (form and all(letter in "0123456789abcdef-" for letter in text))
