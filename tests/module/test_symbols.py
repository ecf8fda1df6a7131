# SPDX-License-Identifier: Apache-2.0
"""The driver's functions that the kernel module needs are documented and in the tables, all of them."""

from __future__ import annotations

import re

from cgpu.kmod.abi.generate import DATA, layout_at
from cgpu.kmod.abi.tables import load
from tests.module.symbols import ROOT, SOURCES, called, chosen, names_of, optional, probes, required

DOC = ROOT / "docs" / "engines.md"
TABLES = load(DATA)


def table() -> dict[str, str]:
    """Return the documented functions, and their descriptions."""
    section = DOC.read_text().partition("## Functions of the driver that it needs\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE)
    return {name: said for names, said in rows for name in re.findall(r"`(\w+)`", names)}


def test_required_functions_are_documented() -> None:
    """Each function that is probed is in the table, and none besides; and which ones a driver may lack."""
    older = {names[0] for names in chosen().values()}
    kernels = {fields["symbol"] for fields in probes().values() if "module" not in fields}
    assert kernels == {"chrdev_open"}
    assert set(table()) == {name for _, name in required()} | older | set(optional())
    assert sorted(name for name, said in table().items() if said.startswith("may be missing")) == optional()


def test_functions_are_in_the_tables() -> None:
    """Each function that is probed or called has its prototypes in nvidia.json, and none besides."""
    older = {names[0] for names in chosen().values()}
    wanted = {name for _, name in required()} | older | set(optional()) | called()
    assert set(TABLES["functions"]) == wanted


def test_versions_have_the_functions() -> None:
    """Every version that was compared with its sources has each function that the module must find."""
    rows = {name: {"layouts": row["prototypes"]} for name, row in TABLES["functions"].items()}
    must = [names_of(name) for name, fields in probes().items() if "optional" not in fields]
    must += [(name,) for name in called() - {name for names in chosen().values() for name in names}]
    absent = [
        (tag, names)
        for tag in TABLES["tags"]
        if tag not in TABLES["unverified"]
        for names in must
        if names != ("chrdev_open",) and not any(layout_at(rows[name], tag) for name in names)
    ]
    assert absent == []


def test_probes_have_places() -> None:
    """Every probe's variable is in one of the tables that are attached whole or not at all."""
    listed = "".join(
        (SOURCES / name).read_text() for name in ("driver/driver.c", "probes/va_spaces.c", "probes/pages.c")
    )
    assert [name for name in probes() if f"&{name}" not in listed] == []
