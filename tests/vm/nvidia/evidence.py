# SPDX-License-Identifier: Apache-2.0
"""Facts of kmod/abi/nvidia.json that NVIDIA's real driver confirms in the guest.

A field is proven where the driver's check passes, and fails by a table that has the field at another place. A
call, a control, a class or a structure is answered where the driver has done it at least once.

CGPU_VM_DRIVER=550 .venv/bin/python -m tests.vm.nvidia.evidence writes what it finds into
kmod/abi/confirmed.json.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.check_driver.run import PROGRAM
from cgpu.kmod.abi.confirmed import EVIDENCE, Confirmed, read, uvm_commands, written
from cgpu.kmod.abi.generate import layout_at
from tests.check_driver.tables import TABLE, has, moved, mutant
from tests.check_driver.test_fields import FIELDS
from tests.sim.abi import Layout, layout
from tests.vm.harness.kernels import choose_kernel
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, real_driver, unload_driver
from tests.vm.harness.store import ROOT
from tests.vm.nvidia.driver import BOOT_ARGUMENTS, forget_orders, orders

Field = tuple[str, str]

KMOD = ROOT / "kmod"
BUILD = KMOD / "build"
ON = "NVIDIA's open kernel driver in a virtual machine, on a card made in software, with a fake GSP"
BATCH = 16
BATCH_SECONDS = 300
RUN_MANY = 'for program; do echo "== ${program##*/}"; "$program" --dev /dev --attempts 1 2>&1 || :; done'
RUN_TAPPED = 'export TAP=/run/tap; rm -f $TAP; "$@" >&2 || :; cat $TAP'
# Calls besides the checks, outside of any slice; a call that the driver refuses counts for nothing.
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
    ("group=1", "slice=2000", "preempt=1", "interleave=1", "schedule=1", "disable", "enable"),
    ("runlist-policy=0", "compute-policy=0", "scheduling", "samples"),
)


@dataclass(frozen=True)
class Checked:
    """Results of a driver's checks: the reason by the name of each that did not pass, else None."""

    checks: dict[str, str | None]

    @property
    def failed(self) -> set[str]:
        return {name for name, reason in self.checks.items() if reason is not None}


def parse(text: str) -> Checked:
    rows = [line.split("\t") for line in text.splitlines()]
    return Checked(
        {
            row[2]: None if row[0] == "passed" else row[3]
            for row in rows
            if len(row) == 4 and row[0] not in ("driver", "begun")
        }
    )


def run_checks(machine: Machine) -> Checked:
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


def build_tapped(name: str, sources: Iterable[Path], folder: Path) -> Path:
    """Compile a program so that it writes down each call that the driver has executed (tap.c); return it."""
    places = (KMOD / "core", KMOD / "core" / "include", KMOD / "rm", BUILD / "gen")
    iquotes = [word for place in places for word in ("-iquote", place)]
    wraps = ("-Wl,--wrap=syscall", "-Wl,--wrap=ioctl")
    own = [Path(__file__).with_name("tap.c"), *sources, BUILD / "librm.a"]
    command = ["gcc", "-std=gnu11", "-O2", "-static", *iquotes, *wraps, "-o", folder / name, *own]
    subprocess.run(command, check=True)
    return folder / name


def tapped_runs(folder: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """Return the check and the probe, tapped and in a folder, each with the words of every run of it."""
    core = [KMOD / "core" / "lib" / name for name in ("abi_select.c", "page_size.c", "text.c")]
    check = build_tapped("check", [*(KMOD / "check").glob("*.c"), *core], folder)
    probe = build_tapped("probe", (KMOD / "probe").glob("*.c"), folder)
    return [(check, ()), *((probe, words) for words in PROBES)]


def answered(machine: Machine, version: str) -> dict[str, set[str]]:
    """Return the names of what the driver has answered, by their kind."""
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        for program, words in tapped_runs(Path(folder)):
            forget_orders(machine)
            lines = machine.shell(RUN_TAPPED, machine.seen(program), *words).stdout
            note_calls(lines, version, found)
            handed_on = {NAMES["controls"].get(order.command, "") for order in orders(machine)}
            found["forwarded"] |= handed_on & found["controls"]
    return found


KINDS = ("calls", "controls", "classes", "structures", "forwarded")
UVM = {name: int(TABLE["constants"][name]["value"], 0) for name in uvm_commands(TABLE)}
NAMES = {
    "calls": {ord("F") << 8 | entry["nr"]: name for name, entry in TABLE["escapes"].items()}
    | {number: name for name, number in UVM.items()},
    "controls": {entry["cmd"]: name for name, entry in TABLE["controls"].items()},
    "classes": {entry["id"]: name for name, entry in reversed(TABLE["classes"].items())},
}
CLASS_FACTS = json.loads((KMOD / "abi" / "class_facts.json").read_text())["classes"]
# The headers have two names for one structure, and nvidia.json has the second.
OTHER_NAMES = {"NV_CHANNEL_ALLOC_PARAMS": "NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS"}


def form_of(call: str, size: int, version: str) -> str | None:
    """Return the name of a call's structure; None where the table has none."""
    if call in UVM:
        return f"{call}_PARAMS"
    if call == "NV_ESC_RM_ALLOC" and size == layout("NVOS21_PARAMETERS", version).size:
        return "NVOS21_PARAMETERS"
    form: str | None = TABLE["escapes"][call]["struct"]
    return form


def params_of(kind: str, number: int) -> str | None:
    """Return the name of a control's or a class's parameters; None where the table has none."""
    if kind == "controls":
        params: str | None = TABLE["controls"][NAMES[kind][number]]["params"]
    else:
        params = CLASS_FACTS.get(hex(number), {}).get("params")
    return OTHER_NAMES.get(params or "", params)


def note_calls(lines: str, version: str, found: dict[str, set[str]]) -> None:
    """Add what a tapped program's lines say that the driver has done."""
    for line in lines.splitlines():
        number, _, data = line.partition(" ")
        call = NAMES["calls"].get(int(number, 16))
        if call is not None:
            note_call(call, bytearray.fromhex(data), version, found)


def note_call(call: str, data: bytearray, version: str, found: dict[str, set[str]]) -> None:
    """Add a call, unless the driver has refused it by its status."""
    form = form_of(call, len(data), version)
    known = form in TABLE["structs"] and layout_at(TABLE["structs"][form], version) is not None
    at = layout(form, version) if form is not None and known else Layout(0, {})
    if any(at.get(data, name) for name in ("status", "params.status", "rmStatus") if name in at.fields):
        return
    found["calls"].add(call)
    forms = [form]
    for kind, field in (("controls", "cmd"), ("classes", "hClass")):
        of_kind = field in at.fields and (kind == "classes" or call == "NV_ESC_RM_CONTROL")
        number = at.get(data, field) if of_kind else -1
        if number in NAMES[kind]:
            found[kind].add(NAMES[kind][number])
            forms.append(params_of(kind, number))
    found["structures"] |= {name for name in forms if name is not None and name in TABLE["structs"]}


def collect(machine: Machine, version: str, fields: Iterable[Field] | None = None) -> Confirmed:
    checked = run_checks(machine)
    found = answered(machine, version)
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
    version = real_driver()
    if version is None:
        raise SystemExit("CGPU_VM_DRIVER: names no version of NVIDIA's driver; expected is 535 or 550")
    with (
        tempfile.TemporaryDirectory() as folder,
        Machine(choose_kernel(), Path(folder), arguments=BOOT_ARGUMENTS) as machine,
    ):
        load_driver(machine)
        found = collect(machine, version)
        unload_driver(machine)
    others = [one for one in read() if one.driver != version]
    EVIDENCE.write_text(written([*others, found]))


if __name__ == "__main__":
    main()
