# SPDX-License-Identifier: Apache-2.0
"""The use that cgpud makes of the witness.

Judged calls run in cgpud's threads, so a container's own tasks take no page of a card: what they take was won
by a race, or by a process without the filter. The loader counts it; here the container that has more than a
margin of it is stopped, or named.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING

from cgpu.client.witness import ABSENT, ENDED, IGNORED, INCOMPLETE, OLD_CGROUPS, ON, meaning
from cgpu.kmod.daemon.witness import loader as program
from cgpu.kmod.daemon.witness.groups import Groups, are_unified
from cgpu.kmod.daemon.witness.loader import Excess, Loader, LoaderError, Processors, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cgpu.config.effective import Effective
    from cgpu.kmod.daemon.engine import Container, Engine

log = logging.getLogger(__name__)

CHECK_S = 1.0  # for containers that are gone
LOSSES_S = 10.0
PAUSES_S = (1.0, 4.0, 15.0, 60.0)  # before each further start
CLOSE_S = 12.0  # longer than the loader's end may take
LIVED_S = 3600.0  # after which an end is not counted with those before
MIB = 1 << 20


def reaction_of(config: Effective) -> str:
    """Return what a gain leads to: kill, report, or ignore."""
    if not config.enforce:
        return "ignore"
    if config.on_gain == "auto":
        return "kill" if config.shared_node else "report"
    return config.on_gain


class Witness:
    """The loader while the engine runs, started again when it ends, and the containers that it watches."""

    def __init__(
        self,
        engine: Engine,
        config: Callable[[], Effective],
        record: Callable[[str, Mapping[str, str | int]], None],
        *,
        simulated: bool,
    ) -> None:
        """record: writes an event. simulated: the cards have no driver."""
        self._engine = engine
        self._config = config
        self._record = record
        self._simulated = simulated
        self._groups = Groups()
        self._owners = itertools.cycle(program.OWNERS)
        self._lock = threading.Lock()  # of what is watched
        self._loader: Loader | None = None
        self._gpus = list(engine.gpus())
        self._gaps: dict[str, str] = {}  # why the count is not complete
        self._said = ""
        self._wake = threading.Event()  # there is something to do for the loader that runs
        self._changed = threading.Event()  # another loader may be started
        self._ending = False
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cgpud-witness", daemon=True)

    def start(self, wait_s: float) -> None:
        """Begin, and wait so long until pages are counted, or cannot be."""
        if self._simulated:
            return
        self._thread.start()
        self._settled.wait(wait_s)

    def close(self) -> bool:
        """End. The engine must not be closed before. False: the driver keeps the thread from ending."""
        self._ending = True
        self.configure()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)
        return not self._thread.is_alive()

    def configure(self) -> None:
        """Act by the settings that are now in force."""
        self._changed.set()
        self._wake.set()

    def registered(self) -> None:
        """Watch a container that was registered, before it runs."""
        try:
            self._watch_all()
        except LoaderError as error:
            log.warning("%s", error)

    # --- the loader's life ---

    def _run(self) -> None:
        pauses = iter(PAUSES_S)
        while True:
            self._changed.clear()
            if self._ending:
                break
            obstacle = self._obstacle()
            begun = time.monotonic()
            if obstacle is None and self._count():
                pauses = iter(PAUSES_S) if time.monotonic() - begun > LIVED_S else pauses
                self._changed.wait(next(pauses, None))
                continue
            if obstacle is not None:
                self._say(obstacle, meaning(obstacle)[0])
            self._settled.set()
            self._changed.wait()
        self._settled.set()

    def _obstacle(self) -> str | None:
        """Return the word for why no loader can be started; None: one can."""
        if reaction_of(self._config()) == "ignore":
            return IGNORED
        if not program.PROGRAM.exists():
            return ABSENT
        return None if are_unified() else OLD_CGROUPS

    def _count(self) -> bool:
        """Run one loader to its end. True: another one may be tried."""
        # Some bytes of a card are not in its size.
        sizes = [gpu.memtotal + gpu.memtotal // 8 for gpu in self._gpus]
        self._gaps = {}
        try:
            with Loader(sizes, self._on_line, lambda: self._ending) as self._loader:
                self._name_cards(self._loader)
                self._serve(self._loader)
        except RefusedError as error:
            self._say(error.word, str(error))
            return error.word == "registers"
        except LoaderError as error:
            self._say(ENDED, str(error))
            return True
        else:
            return False
        finally:
            with self._lock:
                self._loader = None
                self._groups.clear()
            self._settled.set()

    def _name_cards(self, loader: Loader) -> None:
        for card, gpu in enumerate(self._gpus):
            loader.order(f"bind {card} {threading.get_native_id()}")
            try:
                self._engine.take_page(gpu.index)
            except OSError as error:
                log.warning("GPU %d: its page allocator is not found: %s", gpu.index, error.strerror)

    def _serve(self, loader: Loader) -> None:
        checked = -LOSSES_S
        while not self._ending and reaction_of(self._config()) != "ignore":
            self._wake.clear()
            self._watch_all()
            if time.monotonic() - checked > LOSSES_S:
                checked = time.monotonic()
                self._note_losses(*loader.losses())
            if not loader.runs():
                raise LoaderError(f"{program.PROGRAM.name} has ended")
            self._say(INCOMPLETE if self._gaps else ON, "; ".join(self._gaps.values()))
            self._settled.set()
            self._wake.wait(CHECK_S)

    def _note_losses(self, missed: int, lost: int, events: int) -> None:
        if missed or lost or events:
            self._gaps["lost"] = f"{missed} calls were not seen, {lost} not counted, {events} not told"

    def _say(self, word: str, text: str) -> None:
        """Say in the tree and in the log what has become of it, when that changes."""
        if word == self._said:
            return
        self._said = word
        self._engine.say_witness(word)
        if word == ON:
            log.info("the driver's pages are watched: what a container wins by a race is seen")
        elif word == INCOMPLETE:
            log.warning("the driver's pages are watched in part: %s", text)
        else:
            log.log(
                logging.ERROR if word == ENDED else logging.INFO,
                "the driver's pages are not watched: %s",
                text,
            )

    # --- containers ---

    def _watch_all(self) -> None:
        """Watch containers that have come, and forget those that are gone. Raises LoaderError."""
        with self._lock:
            if (loader := self._loader) is None:
                return
            containers = {one.key: one for one in self._engine.containers()}
            watched = self._groups.keys()
            for key in watched.keys() - containers.keys():
                loader.order(f"unwatch {self._groups.remove(watched[key]).number}")
            alone = [
                key for key in containers.keys() - watched.keys() if not self._watch(loader, containers[key])
            ]
            if alone:
                self._gaps["alone"] = f"{len(alone)} containers have no cgroup of their own"
            else:
                self._gaps.pop("alone", None)

    def _watch(self, loader: Loader, container: Container) -> bool:
        used = set(self._groups.keys().values())
        owner = next(number for number in self._owners if number not in used)
        group = self._groups.add(container, owner)
        if group is None:
            return False
        margin = self._config().page_margin or 1
        for card, gpu in enumerate(self._gpus):
            whole = container.passthrough >> gpu.index & 1
            loader.order(f"limit {card} {owner} {0 if whole else margin}")
        loader.order(f"limit {program.UNKNOWN_CARD} {owner} {0 if container.passthrough else margin}")
        loader.order(f"watch {owner} {group.number}")
        return True

    def _on_line(self, said: Excess | Processors) -> None:
        if isinstance(said, Excess):
            self._on_excess(said)
            return
        if said.watched < said.online:
            self._gaps["processors"] = f"{said.watched} of {said.online} processors have breakpoints"
        else:
            self._gaps.pop("processors", None)
        self._wake.set()

    def _on_excess(self, excess: Excess) -> None:
        container = self._groups.find(excess.owner)
        if container is None:
            return
        outcome = "it runs on"
        if reaction_of(self._config()) == "kill":
            outcome = self._kill(excess)
        fields: dict[str, str | int] = {"id": container.id, "bytes": excess.used, "process": excess.process}
        on = "a GPU"
        if excess.card < len(self._gpus):
            gpu = self._gpus[excess.card]
            fields |= {"gpu": gpu.index, "uuid": gpu.uuid}
            on = f"GPU {gpu.index}"
        who = f"process {excess.process} ({excess.command})"
        text = f"{who} took {excess.used / MIB:.1f} MiB of {on} past the engine; {outcome}"
        log.error("container %s: %s", container.id, text)
        self._record("gained", {**fields, "message": text})

    def _kill(self, excess: Excess) -> str:
        try:
            self._groups.kill(excess.owner)
        except (KeyError, OSError) as error:
            return f"its processes cannot be ended: {error}"
        return f"its processes were ended after {(time.monotonic_ns() - excess.time) / 1e6:.1f} ms"
