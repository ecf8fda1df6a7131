# SPDX-License-Identifier: Apache-2.0
"""The process that counts pages, cgpu-witness: its start, its answers, and what it says by itself."""

from __future__ import annotations

import contextlib
import queue
import re
import select
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cgpu.errors import CgpuError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "cgpu-witness"
START_S = 60.0  # the kernel's table of symbols is long
WAIT_S = 0.2
ANSWER_S = 2.0
END_S = 5.0
LINE_BYTES = 1024
UNKNOWN_CARD = 32  # the number of all cards that were not bound (WITNESS_CARDS of witness.h)
OWNERS = range(3, 1024)  # numbers of containers (enum witness_owner)
EXCESS = re.compile(
    r"excess card=(\d{1,2}) owner=(\d{1,4}) used=(\d{1,20}) limit=\d{1,20} bytes=\d{1,20} ns=(\d{1,20})"
    r" process=(\d{1,10}) task=\d{1,10} command=(\S{0,16})"
)
PROCESSORS = re.compile(r"processors watched=(\d{1,6}) online=(\d{1,6})(?: missing=.{1,100})?")
REFUSED = re.compile(r"refused ([a-z]{1,15}) (.{1,255})")
LOSS = re.compile(r"missed=(\d{1,20}) lost=(\d{1,20}) lost_events=(\d{1,20})")


class LoaderError(CgpuError):
    """The loader has ended, or gives no answer."""


class RefusedError(CgpuError):
    """Pages cannot be watched here. word: the reason for tools."""

    def __init__(self, word: str, text: str) -> None:
        """Keep word and text."""
        super().__init__(text)
        self.word = word


@dataclass(frozen=True, slots=True)
class Excess:
    """An owner has more than its limit. used: bytes; time: of CLOCK_MONOTONIC in nanoseconds."""

    card: int
    owner: int
    used: int
    time: int
    process: int
    command: str


@dataclass(frozen=True, slots=True)
class Processors:
    """How many processors there are, and have breakpoints."""

    watched: int
    online: int


def parse(line: str) -> Excess | Processors | None:
    """Read a line that is no answer; None: it is one."""
    if found := EXCESS.fullmatch(line):
        card, owner, used, time, process = (int(number) for number in found.groups()[:5])
        return Excess(card, owner, used, time, process, found[6])
    if found := PROCESSORS.fullmatch(line):
        return Processors(int(found[1]), int(found[2]))
    return None


class Loader:
    """A running cgpu-witness. Any thread may ask it."""

    def __init__(
        self,
        cards: Sequence[int],
        on_line: Callable[[Excess | Processors], None],
        is_ending: Callable[[], bool],
    ) -> None:
        """Start it. cards: their sizes in bytes. on_line: is called in a thread of its own.

        is_ending: whether nobody waits any more for it to begin.
        """
        self._on_line = on_line
        self._is_ending = is_ending
        self._lock = threading.Lock()
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        command = [str(PROGRAM), *map(str, cards)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
            )
        except OSError as error:
            raise LoaderError(f"{PROGRAM}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._read, name="cgpud-witnessed", daemon=True)

    def __enter__(self) -> Self:
        """Wait until it counts. Raises RefusedError, LoaderError."""
        try:
            first = self._first_line()
            if found := REFUSED.fullmatch(first):
                raise RefusedError(found[1], found[2])
            said = parse(first)
            if said is None:
                raise LoaderError(f"{PROGRAM.name} does not start")
        except CgpuError:
            self._process.kill()
            self.__exit__()
            raise
        self._on_line(said)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it: it ends with its input."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._thread.ident is not None:
            self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def runs(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None

    def order(self, line: str) -> None:
        """Have it do something. Raises LoaderError."""
        answer = self._ask(line, lines=1)[0]
        if answer != "ok":
            # Whoever is not watched then would count as watched.
            self._process.kill()
            raise LoaderError(f"{PROGRAM.name}: {line}: {answer}")

    def losses(self) -> tuple[int, int, int]:
        """Return how many calls were not seen, how many not counted, and lost events. Raises LoaderError."""
        for line in self._ask("show"):
            if found := LOSS.fullmatch(line):
                return int(found[1]), int(found[2]), int(found[3])
        raise LoaderError(f"{PROGRAM.name}: show: it does not say what it has lost")

    def _ask(self, line: str, lines: int = 1 << 20) -> list[str]:
        with self._lock:
            answer: list[str] = []
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(f"{line}\n".encode())
                self._process.stdin.flush()
                while len(answer) < lines and (not answer or answer[-1] != "end"):
                    said = self._answers.get(timeout=ANSWER_S)
                    if said is None:
                        raise LoaderError(f"{PROGRAM.name} has ended")
                    answer.append(said)
            except (OSError, ValueError, queue.Empty) as error:
                # A later answer would be taken for another one's.
                self._process.kill()
                raise LoaderError(f"{PROGRAM.name} does not answer to: {line}") from error
            return answer

    def _first_line(self) -> str:
        assert self._process.stdout is not None
        begun = time.monotonic()
        while time.monotonic() - begun < START_S and not self._is_ending():
            if select.select([self._process.stdout], [], [], WAIT_S)[0]:
                return self._line()
        return ""

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline(LINE_BYTES).decode("ascii", "replace").rstrip("\n")

    def _read(self) -> None:
        while line := self._line():
            said = parse(line)
            if said is None:
                self._answers.put(line)
            else:
                self._on_line(said)
        self._answers.put(None)
