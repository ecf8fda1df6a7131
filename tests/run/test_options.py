# SPDX-License-Identifier: Apache-2.0
"""The command line of cgpu and of `cgpu run`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import main as cgpu
from cgpu.errors import CgpuError
from cgpu.run.main import Options, main, parse, parser


def test_everything() -> None:
    """All options or none, and a command with options of its own, which stay its own."""
    words = ["--mem", "6G", "--weight=3", "--gpus", "0,1", "--high-prio", "--", "train", "--mem", "--", "-x"]
    assert parse(words) == Options(
        ("train", "--mem", "--", "-x"), "6G", "0,1", values={"weight": "3", "highprio": "1"}
    )
    assert parse(["--", "true"]) == Options(("true",))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mem", "6G", "--"], "there is no command behind --"),
        (["--memory-size", "6G", "--", "true"], "--memory-size: is no option"),
        (["--me", "6G", "--", "true"], "--me: is no option"),
    ],
)
def test_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is 125 and one line with what is expected: as of the command, no status is the own."""
    assert main(words) == 125
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"cgpu run: {message}")
    assert printed.err.endswith("; expected: " + parser().usage + "\n")  # type: ignore[operator]  # it is a text


@given(st.lists(st.text(max_size=6) | st.sampled_from(["--", "--mem", "--gpus", "--high-prio"]), max_size=6))
def test_any_words(words: list[str]) -> None:
    """Words behind the first -- are the command, to the letter."""
    if "--help" in words or any(word.startswith("-") and not word.startswith("--") for word in words):
        return  # -h and --help print the help and end
    try:
        options = parse(words)
    except CgpuError:
        return
    assert list(options.command) == words[words.index("--") + 1 :]


def test_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    """Every subcommand that the help lists can be called, and has a help of its own."""
    assert cgpu.main(["--help"]) == 0
    listed = capsys.readouterr().out
    for name in cgpu.SUBCOMMANDS:
        assert f"\n  {name} " in listed
        with pytest.raises(SystemExit) as ended:
            cgpu.main([name, "--help"])
        assert ended.value.code == 0
        assert re.search(f"cgpu[ -]{name}", capsys.readouterr().out)
