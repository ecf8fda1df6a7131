# SPDX-License-Identifier: Apache-2.0
"""The driver's functions that the kernel module needs are documented, all of them."""

from __future__ import annotations

import re

from tests.module.symbols import ROOT, SOURCES, chosen, optional, probes, required

DOC = ROOT / "docs" / "engines.md"


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


def test_probes_have_places() -> None:
    """Every probe's variable is in one of the tables that are attached whole or not at all."""
    listed = "".join(
        (SOURCES / name).read_text() for name in ("driver/driver.c", "probes/va_spaces.c", "probes/pages.c")
    )
    assert [name for name in probes() if f"&{name}" not in listed] == []
