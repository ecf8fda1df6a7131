# SPDX-License-Identifier: Apache-2.0
"""cgpu run: from arguments to exit status, and the only place that prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cgpu.errors import CgpuError, one_line
from cgpu.run.child import FAILED, StartError
from cgpu.run.options import parse, parser
from cgpu.run.session import run

INTERRUPTED = 130

__all__ = ["main", "parser"]


def main(arguments: Sequence[str]) -> int:
    """Run a command in a slice. Returns its exit status; 125 to 127 after one line when it never ran."""
    try:
        outcome = run(parse(arguments))
    except StartError as error:
        return _say(str(error), error.status)
    except CgpuError as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _say(f"unexpected {type(error).__name__}: {error}", FAILED)
    for line in outcome.left:
        _say(line, outcome.status)
    return outcome.status


def _say(line: str, status: int) -> int:
    print(f"cgpu run: {one_line(line)}", file=sys.stderr)
    return status
