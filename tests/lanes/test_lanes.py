# SPDX-License-Identifier: Apache-2.0
"""No test falls between two lanes or runs in both, and a failure in any process of a lane is the lane's."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lanes import results
from tests.lanes.report import read_reports, tell
from tests.lanes.run import Result, run_commands
from tests.lanes.table import ROOT, Shard, Table, read_table
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


def test_named_tests_exist() -> None:
    """Every file that the table names is there, and no test has two shards."""
    table = read_table()
    named = [name for shard in table.shards for name in shard.tests]
    paths = [name.split("::")[0] for name in (*named, *table.check, *table.machine, *table.together)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert len(named) == len(set(named))


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
    found = [(one.succeeded, one.is_whole) for one in (fine, *ends)]
    assert found == [(True, True), (True, False), (False, True)]


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
    path.write_text(
        f"# Results\n\n{results.HEAD}\n{results.RULE}\n| slow | old |\n| other | old |\n| gone | old |\n"
    )
    names = [shard.name for shard in TABLE.shards]
    results.record(names, "slow", Result(True, True, 61.4, 90.0, SUMMARY), path)
    not_run = [{}, {"tests/a/t.py::one": "skipped"}]
    for outcomes in not_run:
        results.record(
            names, "other", Result(True, False, 1.0, 1.0, replace(SUMMARY, outcomes=outcomes)), path
        )
    rows = path.read_text().splitlines()[4:]
    assert [row.split(" | ")[0] for row in rows] == ["| hand", "| other", "| slow"]
    assert "never" in rows[0]
    assert rows[1] == "| other | old |"
    assert " | 61 | 90 | 0 | 0 | 0 | 0 |" in rows[2]
    results.record(names, "hand", Result(False, False, 1.0, 1.0, SUMMARY), path)
    assert "(a command failed) (in part)" in path.read_text().splitlines()[4]


def test_results_name_every_shard() -> None:
    """The results have a row for each shard of the table."""
    written = results.RESULTS.read_text()
    assert [shard.name for shard in read_table().shards if f"\n| {shard.name} | " not in written] == []
