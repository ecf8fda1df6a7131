# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's real driver confirms of kmod/abi/nvidia.json, found in the guest.

A field is proven where the driver's check passes, and fails by a table that has the field at another place. A
call, a control, a class or a structure is answered where the driver has done it at least once.

CGPU_VM_DRIVER=550 .venv/bin/python -m tests.vm.nvidia.evidence writes what it finds into
kmod/abi/confirmed.json.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgpu.check_driver.run import PROGRAM
from cgpu.kmod.abi.confirmed import EVIDENCE, Confirmed, read, written
from tests.check_driver.tables import TABLE, has, moved, mutant
from tests.check_driver.test_fields import FIELDS
from tests.vm.harness.kernels import choose_kernel
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, real_driver, unload_driver
from tests.vm.harness.slices import PROBE
from tests.vm.harness.store import ROOT
from tests.vm.nvidia.driver import BOOT_ARGUMENTS, forget_orders, orders

Field = tuple[str, str]

FORMS = ROOT / "kmod" / "abi" / "trace.json"
RECORDER = ROOT / "kmod" / "build" / "cgpu-recorder"
ON = "NVIDIA's open kernel driver in a virtual machine, on a card made in software, with a fake GSP"
BATCH = 16
BATCH_SECONDS = 300
RUN_MANY = 'for program; do echo "== ${program##*/}"; "$program" --dev /dev --attempts 1 2>&1 || :; done'
TRACE = 'recorder=$1; shift; "$recorder" -o /run/trace.jsonl -- "$@" >&2 || :; cat /run/trace.jsonl'
# What is called besides the checks, outside of any slice; what the driver refuses counts for nothing.
PROBES: tuple[tuple[str, ...], ...] = (
    ("info", "pids", "count"),
    *((f"via={via}", "alloc=64M", "alloc=3M:2m") for via in ("rm64", "rm21", "heap", "range", "tiled")),
    ("xfer", "alloc=64M", "dup", "free=all"),
    ("alloc=64M", "export", "import", "export=1", "import=1", "close-export"),
    ("alloc=64M", "share=all", "surface"),
    ("host=1M", "surface"),
    ("pin=1M", "via=heap", "pin=1M"),
    ("managed=4M", "unmanaged"),
    ("context=1",),
    ("group=1", "slice=2000", "preempt", "interleave=1", "schedule=1", "disable", "enable"),
    ("runlist-policy=0", "compute-policy=0", "scheduling", "samples"),
)


@dataclass(frozen=True)
class Checked:
    """How the checks of a driver ended: the reason by the name of each that did not pass, else None."""

    checks: dict[str, str | None]

    @property
    def failed(self) -> set[str]:
        """Return the names of those that failed."""
        return {name for name, reason in self.checks.items() if reason is not None}


def parse(text: str) -> Checked:
    """Read what cgpu-check-driver has printed."""
    rows = [line.split("\t") for line in text.splitlines()]
    return Checked(
        {
            row[2]: None if row[0] == "passed" else row[3]
            for row in rows
            if len(row) == 4 and row[0] != "driver"
        }
    )


def run_checks(machine: Machine) -> Checked:
    """Run all checks, each as often as it may."""
    return parse(machine.run([machine.seen(PROGRAM)], timeout=BATCH_SECONDS, check=False).stdout)


def fields_of(version: str) -> list[Field]:
    """Return the fields that the checks prove, as far as a version has them."""
    return [(name, field) for name, field in FIELDS if has(name, field, version)]


def proven(machine: Machine, fields: Sequence[Field], version: str) -> list[Field]:
    """Return those of the fields that the driver's check finds wrong wherever else the table has them."""
    usual = run_checks(machine)
    with tempfile.TemporaryDirectory(dir=ROOT / "kmod" / "build") as folder:
        programs = [
            (mutant(name, field, wrong, version, Path(folder)), (name, field))
            for name, field in fields
            for wrong in moved(name, field, version)
        ]
        unseen = _unseen(machine, [program for program, _ in programs], usual)
    missed = {field for program, field in programs if program.name in unseen}
    tried = {field for _, field in programs}
    return [field for field in fields if field in tried - missed]


def _unseen(machine: Machine, programs: Sequence[Path], usual: Checked) -> set[str]:
    """Return the names of programs that found no more than is found with the right table."""
    found: set[str] = set()
    for at in range(0, len(programs), BATCH):
        seen = [machine.seen(program) for program in programs[at : at + BATCH]]
        text = machine.shell(RUN_MANY, *seen, timeout=BATCH_SECONDS).stdout
        for part in text.split("== ")[1:]:
            name, _, output = part.partition("\n")
            checked = parse(output)
            # One that broke off has told of fewer checks.
            if checked.failed <= usual.failed and checked.checks.keys() == usual.checks.keys():
                found.add(name)
    return found


def answered(machine: Machine) -> dict[str, set[str]]:
    """Return the names of what the driver has answered, by their kind."""
    kinds = ("calls", "controls", "classes", "structures", "forwarded")
    found: dict[str, set[str]] = {kind: set() for kind in kinds}
    commands = [[machine.seen(PROGRAM)], *([machine.seen(PROBE), *words] for words in PROBES)]
    for command in commands:
        forget_orders(machine)
        for line in machine.shell(TRACE, machine.seen(RECORDER), *command).stdout.splitlines():
            _take(json.loads(line), found)
        handed_on = {NAMES["controls"].get(order.command, "") for order in orders(machine)}
        found["forwarded"] |= handed_on & found["controls"]
    return found


NAMES = {
    "controls": {entry["cmd"]: name for name, entry in TABLE["controls"].items()},
    "classes": {entry["id"]: name for name, entry in reversed(TABLE["classes"].items())},
}
PARAMS = {
    "controls": {name: entry["params"] for name, entry in TABLE["controls"].items()},
    "classes": json.loads(FORMS.read_text())["class_params"],
}


def _take(event: dict[str, Any], found: dict[str, set[str]]) -> None:
    """Take note of one call that the driver has done."""
    if "size" not in event and "nr" not in event:
        return
    if event.get("result") != 0 or event.get("status", 0) != 0:
        return
    found["calls"].add(event["call"])
    given = event.get("in", {})
    forms = [event.get("form"), event.get("params", {}).get("form"), f"{event['call']}_PARAMS"]
    if event.get("xfer"):
        found["calls"].add("NV_ESC_IOCTL_XFER_CMD")
        forms.append(TABLE["escapes"]["NV_ESC_IOCTL_XFER_CMD"]["struct"])
    for kind, key in (("controls", "cmd"), ("classes", "hClass")):
        name = NAMES[kind].get(given.get(key))
        if name is not None:
            found[kind].add(name)
            forms.append(PARAMS[kind].get(name))
    found["structures"] |= {form for form in forms if form in TABLE["structs"]}


def collect(machine: Machine, version: str, fields: Iterable[Field] | None = None) -> Confirmed:
    """Find all that the loaded driver confirms."""
    checked = run_checks(machine)
    found = answered(machine)
    by_struct: dict[str, list[str]] = {}
    for name, field in proven(machine, list(fields_of(version) if fields is None else fields), version):
        by_struct.setdefault(name, []).append(field)
    return Confirmed(
        driver=version,
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        kernel=machine.kernel.release,
        on=ON,
        failed=tuple(sorted(checked.failed)),
        fields={name: tuple(sorted(names)) for name, names in sorted(by_struct.items())},
        **{kind: tuple(sorted(names)) for kind, names in found.items()},
    )


def main() -> None:
    """Find what one version confirms, and write it beside that of the others."""
    release = real_driver()
    if release is None:
        raise SystemExit("CGPU_VM_DRIVER: names no version of NVIDIA's driver; expected is 535 or 550")
    with (
        tempfile.TemporaryDirectory() as folder,
        Machine(choose_kernel(), Path(folder), arguments=BOOT_ARGUMENTS) as machine,
    ):
        load_driver(machine)
        found = collect(machine, release.version)
        unload_driver(machine)
    others = [one for one in read() if one.driver != release.version]
    EVIDENCE.write_text(written([*others, found]))


if __name__ == "__main__":
    main()
