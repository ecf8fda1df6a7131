# SPDX-License-Identifier: Apache-2.0
"""Trees of plain files, as an engine would show them."""

from __future__ import annotations

from pathlib import Path

from cgpu.slice import ATTRIBUTES
from tests.policies import text

MIB = 1 << 20
ENGINE = (
    "notified=90 executed=40 continued=30 answered=2 refused=8 registered=3 restarts=1 upgrades=2 reloads=4 "
    "containers=2 containers_max=512 clients=5 clients_max=4096 objects=60 objects_max=262144 "
    "orphaned_clients=1 orphaned_clients_max=1024 orphaned_objects=2 orphaned_objects_max=65536 "
    "refused_class=1 refused_control=2 refused_client=0 refused_records=0 refused_call=1 "
    "calls_now=3 workers=5 workers_max=128 listeners_held=2 answers_kept=0 timeslices_left=1 "
    "executed_ns=2500000000 executed_times=0,0,3,4,0,0,0,0,0,0,0,2 "
    "continued_ns=30000 continued_times=10,20,0,0,0,0,0,0,0,0,0,0 "
    "answered_ns=0 answered_times=0,0,0,0,0,0,0,0,0,0,0,0 new_key=7\n"
)

WORDS = " ".join(f"{one.name}={one.default or 0}" for one in ATTRIBUTES).replace(
    "memsize=0", f"memsize={1024 * MIB}"
)
SLICE = (
    f"{WORDS} used=0 charged=0 peak=0 usage=0 throttled=0 "
    "refused_limit=0 refused_card=0 refused_unaccounted=0 "
    "refused_class=0 refused_control=0 refused_client=0 refused_records=0 refused_call=0"
)
GPU = (
    f"drift=0 memtotal={15109 * MIB} memfree={9000 * MIB} promised={2048 * MIB} used={600 * MIB} orphaned=0 "
    "orphaned_ids=0 policy=2 prio_ratio=80 max_inst=20 places=2 weights=2 mig=0 natives=0 drift_lasting=0 "
    "undivided=0 usage=0 lost=0 refused_limit=0 refused_card=0 refused_unaccounted=0"
)


def with_words(line: str, **changed: int | str) -> str:
    """Return a line of an entry `stat` with other values of some keys."""
    known = dict(word.split("=") for word in line.split())
    return " ".join(f"{key}={value}" for key, value in {**known, **changed}.items())


def slice_line(container: str, **changed: int) -> str:
    """Return a container's line of a GPU's entry."""
    return with_words(f"id={container} {SLICE}", **changed)


def gpu_line(uuid: str, **changed: int) -> str:
    return with_words(f"uuid={uuid} {GPU}", **changed)


SCHED = "divided_by=driver usage_from=none resolution=0 slice=2000000"


class FakeTree:
    """A tree below a folder, whose files a test writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        (path / "version").write_text("0.1.0\n")
        (path / "engine").write_text("cgpud 0.1.0\n")
        (path / "stat").write_text(ENGINE)
        (path / "policies").write_text(text())

    def gpu(self, index: int, *lines: str, sched: str = SCHED) -> Path:
        """Have a GPU whose `stat` says this; return its folder."""
        folder = self.path / str(index)
        folder.mkdir(exist_ok=True)
        (folder / "name").write_text("Tesla T4\n")
        (folder / "minor").write_text(f"{index}\n")
        (folder / "sched").write_text(f"{sched}\n")
        (folder / "left").write_text("")
        (folder / "stat").write_text("\n".join(lines))
        return folder
