# SPDX-License-Identifier: Apache-2.0
"""cgpu abi as a command: wrong input, and the tables of this tree in their own form."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.kmod.abi.add import HERE, TABLES
from cgpu.kmod.abi.extract import COMMON, headers_of
from cgpu.kmod.abi.main import RECORD, main
from cgpu.kmod.abi.tables import RANGES, fold, load, save, spread
from cgpu.kmod.abi.verify import compare
from tests.abi.conftest import make_clone


@pytest.mark.parametrize("name", [*TABLES, RECORD.name])
def test_the_tables_are_as_save_writes_them(tmp_path: Path, name: str) -> None:
    """A version that is added changes its own lines alone."""
    save(tmp_path / name, load(HERE / name))
    assert (tmp_path / name).read_bytes() == (HERE / name).read_bytes()


@pytest.mark.parametrize("tag", ["590.48.01", "595.45.04", "515.43.04", "550.163.01"])
@pytest.mark.parametrize("name", TABLES)
def test_a_version_taken_out_and_put_in_again_leaves_the_same(name: str, tag: str) -> None:
    """The order in which versions are added does not show."""
    table, tags = load(HERE / name), load(HERE / "nvidia.json")["tags"]
    for section, ranges in RANGES.items():
        for row, content in table.get(section, {}).items():
            known = spread(content[ranges], tags)
            without = fold({one: layout for one, layout in known.items() if one != tag} | {tag: None})
            again = spread(without, [one for one in tags if one != tag]) | {tag: known[tag]}
            assert fold(again) == content[ranges], row


def test_verify_names_what_differs(tmp_path: Path, tables: Path) -> None:
    """A struct of the same size with another field."""
    other = "#pragma once\ntypedef struct { NvU64 hRoot; } FREE_PARAMETERS;\n"
    clone = make_clone(tmp_path / "clone", {"1.10.01": {COMMON: other}})
    with headers_of(clone, "1.10.01") as headers:
        found = compare(clone, headers, [load(tables / name) for name in TABLES])
    assert (found.structs, found.numbers, found.functions, found.absent) == (1, 2, 1, ())
    (line,) = found.wrong
    assert line == (
        "FREE_PARAMETERS: {'size': 8, 'fields': {'hRoot': [0, 4], 'status': [4, 4]}} in the table, "
        "{'size': 8, 'fields': {'hRoot': [0, 8]}} in the sources"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["verify", "{}/nothing"], "expected a clone of NVIDIA/open-gpu-kernel-modules"),
        (["verify", "{}/clone", "1.10.09"], "1.10.09: "),
        (["verify", "{}/clone", "1.10.01", "--compiler", "no-such-cc"], "no-such-cc: cannot be started"),
        (["add", "{}/clone", "1.10.09"], "has no such tag"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """Whatever fails says what was expected."""
    make_clone(tmp_path / "clone", {"1.10.01": {}})
    assert main([word.format(tmp_path) for word in words]) == 1
    line = capsys.readouterr().err
    assert line.startswith("cgpu abi: ")
    assert says in line
    assert line.count("\n") == 1
