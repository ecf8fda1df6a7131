# SPDX-License-Identifier: Apache-2.0
"""No test falls between two lanes or runs in both, and a failure in any process of a lane is the lane's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.lanes import results
from tests.lanes.run import run_commands
from tests.lanes.table import Shard, Table, read_table

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
        Shard("other", "others", tests=("tests/a/test_other.py",)),
    ),
)


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
    """The nearest name in the table decides. make test runs unnamed tests, and named ones of tests/vm."""
    assert (TABLE.shard_of(name), TABLE.is_of_test(name)) == (shard, is_of_test)


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


def test_results_name_every_shard() -> None:
    """The results have a row for each shard of the table."""
    assert list(results.read_rows()) == sorted(shard.name for shard in read_table().shards)
