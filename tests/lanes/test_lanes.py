# SPDX-License-Identifier: Apache-2.0
"""No test falls between two lanes or runs in both, and a failure in any process of a lane is the lane's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lanes import results
from tests.lanes.__main__ import run_shards
from tests.lanes.report import read_reports, tell
from tests.lanes.run import Result, run_commands
from tests.lanes.table import TABLE as FILE
from tests.lanes.table import LaneError, Shard, Table, read_table
from tests.lanes.turn import choose_shard

TABLE = Table(
    check=(),
    machine=("tests/vm/test_vm.py", "tests/vm/test_few.py::test_one[1]"),
    together=("tests/engines",),
    shards=(
        Shard(
            "slow",
            "slow ones",
            tests=("tests/a", "tests/b/test_b.py::test_long", "tests/c/test_c.py::test_p[1]"),
        ),
        Shard("hand", "by hand", takes_turns=False),
        Shard("other", "others", tests=("tests/a/test_other.py",)),
    ),
)
SUMMARY = read_reports(Path("/nonexistent"))


@pytest.mark.parametrize(
    ("name", "shard", "is_of_test"),
    [
        ("tests/a/deep/test_a.py::test_it", "slow", False),
        ("tests/a/test_other.py::test_it[x]", "other", False),
        ("tests/b/test_b.py::test_long[x::y]", "slow", False),
        ("tests/b/test_b.py::test_longer", None, True),
        ("tests/c/test_c.py::test_p[1]", "slow", False),
        ("tests/c/test_c.py::test_p[2]", None, True),
        ("tests/ab/test_a.py::test_it", None, True),
        ("tests/vm/test_vm.py::test_it", None, True),
        ("tests/vm/test_few.py::test_one[1]", None, True),
        ("tests/vm/test_few.py::test_one[2]", None, False),
    ],
)
def test_shard_of(name: str, shard: str | None, is_of_test: bool) -> None:
    """The nearest name in the table decides. make test runs what nobody names; of tests/vm, what it names."""
    assert (TABLE.shard_of(name), TABLE.is_of_test(name)) == (shard, is_of_test)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[check]", "[check", "Expected"),
        ("takes_turns = false", "nonsense = 1", "nonsense"),
        ('tests = ["tests/nvidia"]', "", "neither"),
        ('"tests/smi"', '"tests/none"', "tests/none: not there"),
        ("=tests/vm/install", "=tests/vm/none", "tests/vm/none: not there"),
        ("test_programs.py::test_fact", "test_programs.py::test_none", "::test_none"),
        ('["tests/nvidia"]', '["tests/docs"]', "tests/docs: named by two shards"),
        (
            '"tests/daemon/sched"]]',
            '"--ignore=tests/daemon/sched"]]',
            "no command of it runs tests/daemon/sched",
        ),
    ],
)
def test_wrong_table_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    """A table that names what is not there, twice or in vain, or has keys that nobody reads, is refused."""
    path = tmp_path / "lanes.toml"
    path.write_text(FILE.read_text().replace(old, new, 1))
    with pytest.raises(LaneError, match=said):
        read_table(path)


def test_turns() -> None:
    """Shards take turns by the number of commits, but for those that are run by hand."""
    assert [choose_shard(TABLE, commits).name for commits in range(3)] == ["slow", "other", "slow"]


def test_reports_of_several_processes(tmp_path: Path) -> None:
    """A test that two processes ran has the worse outcome and both times; the lane tells of it."""
    (tmp_path / "1.json").write_text(
        json.dumps([["tests/a/t.py::one", "failed", 1.0], ["tests/a/t.py::two", "passed", 3.0]])
    )
    (tmp_path / "2.json").write_text(
        json.dumps([["tests/a/t.py::one", "passed", 4.0], ["tests/a/t.py::three", "skipped", 0.0]])
    )
    summary = read_reports(tmp_path)
    assert (summary.passed, summary.failed, summary.skipped) == (1, 1, 1)
    lines = list(tell(summary))
    assert lines[1:3] == ["     5.0  tests/a/t.py::one", "     3.0  tests/a/t.py::two"]
    assert "     8.0  tests/a, 3 tests" in lines
    assert lines[-1] == "failed: tests/a/t.py::one"


def test_a_command_that_fails_is_a_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Commands after one that fails run, too; so do those beside, whose output follows. 77 is "not run"."""
    marks = [f"import pathlib; pathlib.Path({str(tmp_path / name)!r}).touch()" for name in "ab"]
    beside = [sys.executable, "-c", "print('said beside')"]
    result = run_commands(
        [[sys.executable, "-c", f"{marks[0]}; raise SystemExit(1)"], [sys.executable, "-c", marks[1]]],
        [beside],
    )
    assert not result.succeeded
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    assert "said beside" in capfd.readouterr().out
    fine = run_commands([[sys.executable, "-c", ""]], [beside])
    # pytest ends with 3 by a fault of its own.
    ends = [run_commands([[sys.executable, "-c", f"raise SystemExit({status})"]]) for status in (77, 3)]
    found = [
        (one.succeeded, one.is_whole) for one in (fine, *ends, run_commands([["/no/program"]], [beside]))
    ]
    assert found == [(True, True), (True, False), (False, True), (False, True)]
    assert capfd.readouterr().out.endswith("said beside\n")


def test_failures_of_pytest_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The result has what any pytest of a command did, with workers and without, not what tests started.

    Software that is not reached makes it one in part, and a line says why, also where no test may be skipped.
    """
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\nfrom tests.nvidia import conftest\nconftest.HERE = Path(__file__).parent\n"
        "from tests.conftest import pytest_runtest_makereport\n"
        "pytest_collection_modifyitems = conftest.pytest_collection_modifyitems\n"
    )
    (tmp_path / "test_some.py").write_text(
        "import os, sys\ndef test_it(): pass\ndef test_not(): assert 'CGPU_TEST_REPORTS' in os.environ\n"
        "import pytest\n@pytest.mark.xfail\ndef test_known(): assert 0\n"
    )
    (tmp_path / "test_other.py").write_text(
        "from tests.nvidia.archive import NotInArchiveError\ndef test_it(): pass\n"
        "def needs(): raise NotInArchiveError('no archive')\n"
    )
    words = ("-m", "pytest", "-qra", "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path))
    command = ["env", "CGPU_TEST_REQUIRE=all", sys.executable, *words]
    result = run_commands([command, [*command, "-n", "1", "-p", "no:cacheprovider"]])
    assert (result.succeeded, result.is_whole) == (False, False)
    summary = result.summary
    assert (summary.passed, summary.failed, summary.known, summary.skipped) == (1, 1, 1, 1)
    assert capfd.readouterr().out.count(": no archive\n") == 2


def test_result_has_one_row(tmp_path: Path) -> None:
    """A shard that ran has a new row in the place of the old one; the others' rows stay, and one's not run.

    Each shard of the table has a row, also if it never ran, and no other.
    """
    path = tmp_path / "table.md"
    old = results.START + "".join(f"| {name} | old | | | | | | | |\n" for name in ("slow", "other", "gone"))
    path.write_text(old)
    names = [shard.name for shard in TABLE.shards]
    with path.open() as before:
        results.record(names, "slow", "c0", Result(True, True, 61.4, 90.0, SUMMARY), path)
        # The file is another: no reader sees half of it.
        assert before.read() == old
    not_run = [{}, {"tests/a/t.py::one": "skipped"}]
    for outcomes in not_run:
        result = Result(True, False, 1.0, 1.0, replace(SUMMARY, outcomes=outcomes))
        results.record(names, "other", "c0", result, path)
    rows = path.read_text().removeprefix(results.START).splitlines()
    assert [row.split(" | ")[0] for row in rows] == ["| hand", "| other", "| slow"]
    assert "never" in rows[0]
    assert rows[1] == "| other | old | | | | | | | |"
    assert " | c0 | 61 | 90 | 0 | 0 | 0 | 0 |" in rows[2]
    results.record(names, "hand", "c0", Result(False, False, 1.0, 1.0, SUMMARY), path)
    assert "| c0 (a command failed) (in part) |" in path.read_text()


def test_results_are_of_the_commit_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has the commit that was there before the shard ran; an untracked file counts as a change.

    A file that this program has not written so is refused before a shard runs.
    """
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "a")):
        subprocess.run([*git, *words], check=True)
    path = tmp_path / "tests/RESULTS.md"
    path.parent.mkdir()
    new = iter(("tests/test_new.py", "tests/test_other.py"))

    def add_file(_: Shard) -> Result:
        (tmp_path / next(new)).touch()
        return Result(True, True, 1.0, 1.0, SUMMARY)

    monkeypatch.setattr("tests.lanes.git.ROOT", tmp_path)
    monkeypatch.setattr("tests.lanes.run.run_shard", add_file)
    for mark in ("", "+"):
        assert run_shards(TABLE, ["slow"], path) == 0
        assert re.search(rf"\| slow \| [-\d]+ \| \w{{8}}{re.escape(mark)} \|", path.read_text())
    written = path.read_text()
    for old, other in (("known to fail", "known"), ("\n| slow", "\n<<<<<<< HEAD\n| slow"), (" | 0 |", " |")):
        path.write_text(written.replace(old, other))
        with pytest.raises(LaneError, match="tests/RESULTS"):
            run_shards(TABLE, ["slow"], path)


def test_results_name_every_shard() -> None:
    """The results have a row for each shard of the table."""
    assert list(results.read_rows()) == sorted(shard.name for shard in read_table().shards)
