# SPDX-License-Identifier: Apache-2.0
"""The core's files call each other in one direction."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

from tests.core.build import CORE_SOURCES

NOT_CODE = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
FUNCTION = re.compile(r"^(?!static)[a-z][\w *]*?\b((?:core|cgpu)_\w+)\([^;]*?\n\{", re.MULTILINE)


def test_no_circles() -> None:
    """No file of the core calls, over whatever others, a file that calls it."""
    texts = {path: NOT_CODE.sub("", path.read_text()) for path in CORE_SOURCES}
    home = {name: path for path, text in texts.items() for name in FUNCTION.findall(text)}
    assert len(home) > 200
    calls = {
        path: {home[word] for word in re.findall(r"\w+", text) if home.get(word, path) != path}
        for path, text in texts.items()
    }
    TopologicalSorter(calls).prepare()  # raises CycleError with the files
