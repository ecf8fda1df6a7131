# SPDX-License-Identifier: Apache-2.0
"""Versions of the driver by signed files: which rows can be, and whose files count."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.kmod.abi.generate import check_layout, check_structs, number_names, numbers_at, order_of
from cgpu.kmod.abi.rows import files
from cgpu.kmod.abi.rows.__main__ import between
from cgpu.kmod.abi.rows.row import line_of
from tests.abi.signer import Signer
from tests.check_driver.tables import TABLE
from tests.integration.commands import call
from tests.refusal import has_parts

NEW = "595.50.01"
BASE = "595.45.04"
SAMPLE, ENGINE = "NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE", "NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE"
REGION = "NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO"
SAME = {"version": NEW, "base": BASE}
STRUCT = "NVOS46_PARAMETERS"


def words_of(row: object) -> list[str]:
    return line_of(json.dumps(row).encode(), TABLE)[1].split(" ")


def with_structs(given: object) -> dict[str, object]:
    return {**SAME, "structs": given}


def with_struct(**given: object) -> dict[str, object]:
    return with_structs({STRUCT: given})


def test_a_row_has_the_numbers_of_its_base() -> None:
    """The line names version and build, and has each number of the table's struct."""
    assert words_of(SAME) == [NEW, str(order_of(TABLE)), *map(str, numbers_at(TABLE, BASE))]


def test_a_row_changes_what_it_names() -> None:
    """Size, offset and behaviour come from the row, all else from the base."""
    row = {**with_struct(size=72, fields={"status": 60}), "behaviours": {"heap_knows_egm": True}}
    names = number_names(TABLE)
    found = dict(zip(names, map(int, words_of(row)[2:]), strict=True))
    before = dict(zip(names, numbers_at(TABLE, BASE), strict=True))
    changed = {f"{STRUCT}.bytes": 72, f"{STRUCT}.status": 60, "heap_knows_egm": 1}
    assert {name: found[name] for name in names if found[name] != before[name]} == changed


WRONG: list[tuple[object, str]] = [
    ([], "the file: a list"),
    ({"version": NEW}, "base: None"),
    ({**SAME, "version": 595}, "version: 595"),
    ({**SAME, "version": "595.50.01\n"}, "version: 595.50.01"),
    ({**SAME, "version": "580.142"}, "580.142 is in the table"),
    ({**SAME, "version": "580.142.00"}, "580.142.00 is in the table"),
    ({**SAME, "version": "515.43.03"}, "515.43.03 after 595.45.04"),
    ({**SAME, "base": "595.45.05"}, "595.50.01 after 595.45.05"),
    ({**SAME, "more": 1}, "no other names"),
    ({**SAME, "structs": {"NVOS99": {}}}, "structs"),
    ({**SAME, "structs": []}, "structs: a list"),
    ({**SAME, "base": "515.76", "structs": {"RS_ACCESS_MASKS": {}}}, "structs"),
    (with_struct(bytes=72), STRUCT),
    (with_struct(size=0), "size 0"),
    (with_struct(size=-8), "size -8"),
    (with_struct(size=True), "size True"),
    (with_struct(size=64.0), "size 64.0"),
    (with_struct(size=65535), "size 65535"),
    (with_struct(size=129), "at most 64 bytes more than 64"),
    (with_struct(size=56), f"{STRUCT}.status: 4 bytes at 56"),
    (with_struct(fields={"status": 61}), f"{STRUCT}.status: 4 bytes at 61"),
    (with_struct(fields={"status": "8"}), f"{STRUCT}.status: 4 bytes at 8"),
    (with_struct(fields={"status": -1}), f"{STRUCT}.status: 4 bytes at -1"),
    (with_struct(fields={"status": 0}), f"{STRUCT}.status: lies before"),
    (with_struct(fields={"statusses": 0}), STRUCT),
    # The last sample's engine would be read 64 bytes past the ring.
    (
        with_structs({SAMPLE: {"fields": {"gr": 648}}, ENGINE: {"size": 192}}),
        f"{SAMPLE}.gr: 192 bytes at 648",
    ),
    (with_structs({SAMPLE: {"size": 777}}), "SAMPLES_V2_PARAMS.samples: 55944 bytes at 16"),
    (with_structs({REGION: {"size": 60}}), "FB_REGION_INFO_PARAMS.fbRegion: 960 bytes at 8"),
    (with_structs({"RS_ACCESS_MASK": {"size": 16}}), "sharePolicy.accessMask: 16 bytes at 12"),
    ({**SAME, "behaviours": {"is_new": True}}, "behaviours"),
    ({**SAME, "behaviours": {"heap_knows_egm": 1}}, "heap_knows_egm: 1"),
]


@pytest.mark.parametrize(("row", "part"), WRONG)
def test_wrong_rows(row: object, part: str) -> None:
    """A row that no driver can have, or that the table has, is refused by name, value and expectation."""
    with pytest.raises(CgpuError) as refused:
        words_of(row)
    assert part in str(refused.value)


def test_structs_within_others() -> None:
    """A struct grows where those around it have room; each that no call takes alone lies in another."""
    mask, policy = "RS_ACCESS_MASK", "NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS"
    fields = {"sharePolicy.type": 20, "sharePolicy.action": 22, "status": 24}
    grown = {mask: {"size": 8}, "NVOS57_PARAMETERS": {"size": 28, "fields": fields}}
    fields = {"sharePolicy.type": 12, "sharePolicy.action": 14}
    words_of(with_structs({**grown, policy: {"size": 16, "fields": fields}}))
    inner = {name for struct in TABLE["structs"].values() for name in struct.get("nested", {}).values()}
    alone = ("_PARAMS", "_PARAMETERS", "_t", "_with_fd")
    assert {name for name in TABLE["structs"] if not name.endswith(alone)} <= inner


@pytest.mark.parametrize("text", ["", "{", '{"base": "a", "base": "b"}', "[" * 100_000, "1" * 5000, "\0"])
def test_texts_that_are_no_row(text: str) -> None:
    """A text that is no object of JSON, with each name once, is refused."""
    with pytest.raises(CgpuError):
        line_of(text.encode(), TABLE)


numbers = st.one_of(st.integers(), st.booleans(), st.none(), st.floats(), st.text(max_size=4))
layouts = st.fixed_dictionaries(
    {},
    optional={
        "size": numbers | st.integers(0, 200),
        "fields": st.dictionaries(
            st.sampled_from(["status", "hClient", "flags", "x"]), numbers | st.integers(0, 80)
        ),
    },
)
names = st.sampled_from([STRUCT, "NVOS00_PARAMETERS", "NVOS1"])
made = st.fixed_dictionaries(
    {"version": st.just(NEW), "base": st.sampled_from([*TABLE["tags"][-30:], "1"])},
    optional={
        "structs": st.dictionaries(names, layouts) | numbers,
        "behaviours": st.dictionaries(st.sampled_from([*TABLE["behaviours"], "x"]), numbers),
    },
)


@settings(max_examples=300)
@given(st.binary() | made.map(lambda row: json.dumps(row).encode()))
def test_any_bytes(text: bytes) -> None:
    """Whatever a file has, it is refused, or each number of its line is one of 16 bits and in its struct."""
    try:
        version, line = line_of(text, TABLE)
    except CgpuError:
        return
    words = line.split(" ")
    assert (version, len(words)) == (NEW, 2 + len(number_names(TABLE)))
    assert all(0 <= int(word) <= 0xFFFF for word in words[2:])
    sizes = dict(zip(number_names(TABLE), map(int, words[2:]), strict=True))
    for name, number in sizes.items():
        size = sizes.get(name.partition(".")[0] + ".bytes")
        assert number == 0xFFFF or size is None or number <= size


def test_the_table_passes_the_same_check() -> None:
    """Each layout of the table is checked as a row's is; one that fails is refused."""
    with pytest.raises(ValueError, match="size 65535, expected 1 to 65534"):
        check_layout("X", {"size": 0xFFFF, "fields": {}})
    with pytest.raises(ValueError, match=r"X.a: 4 bytes at 6"):
        check_layout("X", {"size": 8, "fields": {"a": [6, 4]}})
    wrong = {**TABLE, "structs": {**TABLE["structs"]}}
    wrong["structs"][ENGINE] = {"layouts": [{**TABLE["structs"][ENGINE]["layouts"][0], "size": 112}]}
    with pytest.raises(ValueError, match=f"{SAMPLE}.fb: expected a multiple of the 112 bytes of {ENGINE}"):
        check_structs(wrong)


@pytest.mark.parametrize(
    ("version", "base"), [("535.113.01", "535.104.12"), ("560.28.03", "555.58.02"), ("580.142", "580.126.20")]
)
def test_the_printed_row_makes_the_version(version: str, base: str) -> None:
    """The row that is printed of the table's own difference makes the version's numbers out of its base's."""
    row = between(TABLE, version, base)
    shorter = {**TABLE, "tags": [tag for tag in TABLE["tags"] if tag != version]}
    _, made = line_of(json.dumps(row).encode(), shorter)
    assert [int(word) for word in made.split(" ")[2:]] == numbers_at(TABLE, version)


def test_the_command_that_prints() -> None:
    """The command prints JSON; a difference that no row can say, or a version of no table, is one line."""
    command = [sys.executable, "-m", "cgpu.kmod.abi.rows"]
    assert json.loads(call([*command, "595.44.03", "595.44.02"]).stdout)["version"] == "595.44.03"
    for words, part in ((("590.44.01", "580.142"), "has other fields"), (("1", "2"), "usage"), ((), "usage")):
        done = call([*command, *words])
        assert done.returncode == 1
        assert part in done.stderr.splitlines()[-1]


# --- whose files count ---


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer(tmp_path)


def only_problem(node: Path) -> str:
    found = files.read(node)
    assert found.rows == ()
    (problem,) = found.problems
    return problem


def test_a_signed_file_counts(signer: Signer) -> None:
    """Its row is found by the version, however that is written; other files' rows stay beside it."""
    path = signer.give(SAME)
    signer.give({"version": "600.01", "base": BASE}, "other.json")
    found = files.read(signer.node)
    assert found.problems == ()
    row, none = found.of(NEW), found.of("600.02")
    assert row is not None
    assert (row.file, none, found.of("600.01.00") is not None) == (str(path), None, True)
    assert found.text().count("\n") == 1
    assert (found.of("600.1"), found.of(""), found.of(None)) == (None, None, None)


def test_a_node_without_files(tmp_path: Path) -> None:
    """Where there is no folder there are neither rows nor problems."""
    assert files.read(tmp_path) == files.Rows()


def test_no_key(tmp_path: Path) -> None:
    """Without any key no row counts."""
    Signer(tmp_path, known=False).give(SAME)
    assert has_parts(
        only_problem(tmp_path), str(tmp_path), "row.json", "none of 0 keys", "driver-keys.d/NAME.pem"
    )


def test_the_key_of_another(signer: Signer) -> None:
    """A file signed by somebody whose key the node does not have gives no row."""
    Signer(signer.node, "stranger", known=False).give(SAME)
    assert has_parts(
        only_problem(signer.node), str(signer.node), "row.json", "none of 1 keys", "driver-keys.d/NAME.pem"
    )


def changed_text(signer: Signer, path: Path) -> None:
    path.write_text(path.read_text().replace("50.01", "50.02"))


def changed_signature(signer: Signer, path: Path) -> None:
    signature = path.with_name("row.json.sig")
    signature.write_bytes(bytes([signature.read_bytes()[0] ^ 1]) + signature.read_bytes()[1:])


def other_signature(signer: Signer, path: Path) -> None:
    other = signer.give({**SAME, "version": "595.50.02"}, "z.json")
    other.unlink()
    other.with_name("z.json.sig").rename(path.with_name("row.json.sig"))


def no_signature(signer: Signer, path: Path) -> None:
    path.with_name("row.json.sig").unlink()


def open_to_all(signer: Signer, path: Path) -> None:
    path.chmod(0o646)


def open_to_group(signer: Signer, path: Path) -> None:
    path.with_name("row.json.sig").chmod(0o660)


def of_another(signer: Signer, path: Path) -> None:
    os.chown(path, 1234, 0)


def link(signer: Signer, path: Path) -> None:
    path.rename(signer.node / "row")
    path.symlink_to(signer.node / "row")


def pipe(signer: Signer, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(signer: Signer, path: Path) -> None:
    path.unlink()
    path.mkdir()


def huge(signer: Signer, path: Path) -> None:
    path.write_text(path.read_text() + " " * files.MAX_BYTES)
    signer.sign(path)


def foreign_folder(signer: Signer, path: Path) -> None:
    signer.rows.chmod(0o777)


def linked_folder(signer: Signer, path: Path) -> None:
    signer.rows.rename(signer.node / "rows")
    signer.rows.symlink_to(signer.node / "rows")


def no_row(signer: Signer, path: Path) -> None:
    signer.give("{}")


SPOILED: list[tuple[Callable[[Signer, Path], None], str]] = [
    (changed_text, "none of 1 keys"),
    (changed_signature, "none of 1 keys"),
    (other_signature, "none of 1 keys"),
    (no_signature, "row.json.sig: No such file"),
    (open_to_all, "chmod go-w"),
    (open_to_group, "row.json.sig: -rw-rw----"),
    (of_another, "of user 1234"),
    (link, "row.json: Too many levels of symbolic links"),
    (pipe, "row.json: prw"),
    (folder, "row.json: drwx"),
    (huge, "row.json: File too large"),
    (foreign_folder, "drivers.d: drwxrwxrwx"),
    (linked_folder, "drivers.d: "),
    (no_row, "row.json: version: None"),
]


@pytest.mark.root
@pytest.mark.parametrize(("spoil", "part"), SPOILED)
def test_spoiled_files(signer: Signer, spoil: Callable[[Signer, Path], None], part: str) -> None:
    """A file that another could have written, or that nobody known has signed, gives no row, and one line."""
    spoil(signer, signer.give(SAME))
    assert part in only_problem(signer.node)


@pytest.mark.root
def test_keys_of_others(signer: Signer) -> None:
    """A key that others can write, or of another kind, signs nothing; the other keys still count."""
    path = signer.give(SAME)
    other = Signer(signer.node, "other")
    other.key.chmod(0o666)
    Signer(signer.node, "rsa", "rsa").give({**SAME, "version": "595.50.02"}, "rsa.json")
    found = files.read(signer.node)
    assert [row.file for row in found.rows] == [str(path)]
    parts = ("other.pem: -rw-rw-rw-", "rsa.pem: expected an Ed25519 key", "rsa.json: none of 1 keys")
    for part, problem in zip(parts, found.problems, strict=True):
        assert part in problem


def test_two_files_of_one_version(signer: Signer) -> None:
    """The first by name counts, and the second is named."""
    signer.give(SAME)
    signer.give({**SAME, "base": "595.44.03"}, "second.json")
    found = files.read(signer.node)
    assert len(found.rows) == 1
    assert has_parts(found.problems[0], str(signer.node), "second.json", f"{NEW} is in", "row.json, too")


def test_too_many_files(signer: Signer) -> None:
    """A folder with more files than its bound is not read."""
    for number in range(files.MAX_FILES + 1):
        (signer.rows / f"{number}.json").touch()
    assert has_parts(only_problem(signer.node), str(signer.node), "drivers.d", f"{files.MAX_FILES + 1} files")


@pytest.mark.parametrize("program", ["/nowhere/openssl", "/bin/false", "/bin/true"])
def test_another_openssl(signer: Signer, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Without openssl, or with a program that is none, nothing is signed."""
    signer.give(SAME)
    monkeypatch.setattr(files, "OPENSSL", program)
    assert "row.json: none of 1 keys" in only_problem(signer.node) or program == "/nowhere/openssl"


def test_no_file_in_memory(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel gives no file in memory, as with vm.memfd_noexec=2, there is one line and no row."""

    def refuse(_name: str) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    signer.give(SAME)
    monkeypatch.setattr(os, "memfd_create", refuse)
    assert "Permission denied" in only_problem(signer.node)


def test_openssl_learns_nothing_of_the_environment(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings in the environment do not reach it."""
    monkeypatch.setenv("OPENSSL_CONF", "/nowhere")
    monkeypatch.setenv("LD_PRELOAD", "")
    signer.give(SAME)
    assert files.read(signer.node).problems == ()
