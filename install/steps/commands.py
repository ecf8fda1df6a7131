# SPDX-License-Identifier: Apache-2.0
"""Commands that are not worth a failure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cgpu.errors import CgpuError
from cgpu.install.runner import TIMEOUT_S, must
from cgpu.install.steps.step import Context


def attempt(context: Context, words: Sequence[str], timeout: float = TIMEOUT_S) -> None:
    """Run a command; where it fails, leave it to the user."""
    try:
        must(context.runner, words, timeout)
    except CgpuError as error:
        context.note(f"To do: {shlex.join(words)} ({error})")


def succeeds(context: Context, *words: str) -> bool:
    """Return whether a question to the system is answered by yes. Raises CgpuError."""
    return context.runner.run(words).status == 0
