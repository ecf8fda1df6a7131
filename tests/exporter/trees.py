# SPDX-License-Identifier: Apache-2.0
"""Trees of plain files, as an engine would show them."""

from __future__ import annotations

from pathlib import Path

MIB = 1 << 20
ENGINE = (
    "notified=90 executed=40 continued=30 answered=2 refused=8 registered=3 restarts=1 upgrades=2 reloads=4 "
    "containers=2 containers_max=512 clients=5 clients_max=4096 objects=60 objects_max=262144 "
    "refused_class=1 refused_control=2 refused_client=0 refused_records=0 refused_call=1 "
    "calls_now=3 workers=5 workers_max=128 listeners_held=2 answers_kept=0 timeslices_left=1 "
    "executed_ns=2500000000 executed_times=0,0,3,4,0,0,0,0,0,0,0,2 "
    "continued_ns=30000 continued_times=10,20,0,0,0,0,0,0,0,0,0,0 "
    "answered_ns=0 answered_times=0,0,0,0,0,0,0,0,0,0,0,0 new_key=7\n"
)


def slice_line(
    container: str, *, used: int = 0, weight: int = 1, usage: int = 0, limit: int = 1024, high: int = 0
) -> str:
    return (
        f"id={container} memsize={limit * MIB} used={used * MIB} peak={2 * used * MIB} weight={weight} "
        f"highprio={high} usage={usage} throttled=250000000 "
        "refused_limit=3 refused_card=1 refused_unaccounted=0 "
        "refused_class=0 refused_control=5 refused_client=0 refused_records=0 refused_call=2\n"
    )


def gpu_line(
    uuid: str,
    *,
    policy: int = 2,
    usage: int = 0,
    drift: int = -4096,
    drift_lasting: int = 0,
    undivided: int = 0,
    lost: int = 0,
) -> str:
    return (
        f"uuid={uuid} drift={drift} memtotal={15109 * MIB} memfree={9000 * MIB} promised={2048 * MIB} "
        f"used={600 * MIB} orphaned=0 policy={policy} prio_ratio=80 max_inst=20 places=2 weights=4 mig=0 "
        f"natives=0 drift_lasting={drift_lasting} undivided={undivided} usage={usage} lost={lost} "
        "refused_limit=9 refused_card=1 refused_unaccounted=0\n"
    )


class FakeTree:
    """A tree below a folder, whose files a test writes."""

    def __init__(self, path: Path) -> None:
        """Begin with an engine without GPUs."""
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        (path / "version").write_text("0.1.0\n")
        (path / "engine").write_text("cgpud 0.1.0\n")
        (path / "stat").write_text(ENGINE)

    def gpu(self, index: int, *lines: str) -> None:
        """Have a GPU whose `stat` says this."""
        folder = self.path / str(index)
        folder.mkdir(exist_ok=True)
        (folder / "name").write_text("Tesla T4\n")
        (folder / "minor").write_text(f"{index}\n")
        (folder / "stat").write_text("".join(lines))
