# SPDX-License-Identifier: Apache-2.0
"""cgpu trace record: hands over to cgpu-recorder, which takes this process's place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cgpu.errors import CgpuError

PROGRAM = Path(__file__).resolve().parent.parent / "kmod" / "build" / "cgpu-recorder"
OUTPUT = "cgpu-trace.jsonl"


@dataclass(frozen=True, slots=True)
class Order:
    """What to record, and how."""

    output: str
    notes: list[str]
    dev: str
    driver: str | None
    every_call: bool
    command: list[str]


def arguments(order: Order, program: Path = PROGRAM) -> list[str]:
    """Return the recorder's command line. Raises CgpuError when there is no command."""
    if not order.command:
        raise CgpuError("COMMAND: is missing; expected: cgpu trace record [-o FILE] -- COMMAND...")
    driver = [] if order.driver is None else ["--driver", order.driver]
    notes = [word for note in order.notes for word in ("--note", note)]
    every = ["--every-call"] if order.every_call else []
    options = ["-o", order.output, "--dev", order.dev, *driver, *notes, *every]
    return [str(program), *options, "--", *order.command]


def run(order: Order, program: Path = PROGRAM) -> NoReturn:
    """Become the recorder: signals and the exit status are its affair. Raises CgpuError."""
    words = arguments(order, program)
    try:
        os.execv(program, words)
    except OSError as error:
        raise CgpuError(f"{program}: cannot be run: {error.strerror}; build it: make -C kmod") from error
