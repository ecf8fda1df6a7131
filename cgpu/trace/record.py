# SPDX-License-Identifier: Apache-2.0
"""cgpu trace record: hands over to cgpu-recorder, which takes this process's place."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NoReturn

from cgpu.errors import CgpuError

PROGRAM = Path(__file__).resolve().parent.parent / "kmod" / "build" / "cgpu-recorder"
OUTPUT = "cgpu-trace.jsonl"


def arguments(options: argparse.Namespace) -> list[str]:
    """Return the recorder's command line. Raises CgpuError when there is no command."""
    command = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not command:
        raise CgpuError("COMMAND: is missing; expected: cgpu trace record [-o FILE] -- COMMAND...")
    driver = [] if options.driver is None else ["--driver", options.driver]
    notes = [word for note in options.note for word in ("--note", note)]
    every = ["--every-call"] if options.every_call else []
    return [str(PROGRAM), "-o", options.output, "--dev", options.dev, *driver, *notes, *every, "--", *command]


def run(options: argparse.Namespace) -> NoReturn:
    """Become the recorder: signals and the exit status are its affair. Raises CgpuError."""
    words = arguments(options)
    try:
        os.execv(PROGRAM, words)
    except OSError as error:
        raise CgpuError(f"{PROGRAM}: cannot be run: {error.strerror}; build it: make -C kmod") from error
