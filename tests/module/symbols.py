# SPDX-License-Identifier: Apache-2.0
"""The driver's functions that the kernel module needs, as its sources name them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "kmod" / "module"
PROBE = re.compile(r"struct km_probe (\w+) = \{(.*?)\};", re.DOTALL)
# KM_PROBE(name, or KM_PROBE_AROUND(name, module, function, replacement, wants, further fields)
ROW = re.compile(
    r'^KM_PROBE(?:_AROUND)?\(\s*(\w+), (NULL|"\w+"), "(\w+)", \w+, \w+(.*?)\);', re.DOTALL | re.MULTILINE
)
FIELD = re.compile(r"\.(\w+) = ([^,]+),")
CHOSEN = re.compile(r'\.symbol = old \? "(\w+)" : "(\w+)"')


def probes() -> dict[str, dict[str, str]]:
    """Return each probe's fields, by the name of its variable."""
    found = {}
    for path in sorted(SOURCES.rglob("*.c")):
        text = path.read_text()
        for name, body in PROBE.findall(text):
            found[name] = {key: value.strip().strip('"') for key, value in FIELD.findall(body + ",")}
        for name, module, symbol, further in ROW.findall(text):
            fields = found[f"km_probe_{name}"] = {"symbol": symbol, **dict(FIELD.findall(further + ","))}
            if module != "NULL":
                fields["module"] = module.strip('"')
    return found


def chosen() -> dict[str, tuple[str, str]]:
    """Return the names of functions that are chosen by version, older and newer, by the probe's variable."""
    found = {}
    for path in sorted(SOURCES.rglob("*.c")):
        for name, older, newer in re.findall(r"(\w+)" + CHOSEN.pattern, path.read_text()):
            found[name] = (older, newer)
    return found


def required() -> list[tuple[str, str]]:
    """Return the functions without which no driver is enforced upon: the driver's module, the function.

    A function that has another name in older drivers goes by the newer one.
    """
    found = []
    for variable, fields in probes().items():
        module = fields.get("module", "")
        if module.startswith("nvidia") and "optional" not in fields:
            symbol = fields.get("symbol") or chosen()[variable][1]
            found.append((module.replace("_", "-"), symbol))
    return sorted(found)


def optional() -> list[str]:
    """Return the functions that a driver may lack, under all of their names."""
    return sorted(
        name
        for variable, fields in probes().items()
        if fields.get("optional") == "true"
        for name in names_of(variable)
    )


def names_of(variable: str) -> tuple[str, ...]:
    """Return the names of the function that a probe is on: of several, each driver has one."""
    fields = probes()[variable]
    return (fields["symbol"],) if "symbol" in fields else chosen()[variable]


def called() -> set[str]:
    """Return the driver's functions that are looked up by name: they are called, or tell drivers apart."""
    found: set[str] = set()
    for path in sorted(SOURCES.rglob("*.c")):
        found.update(re.findall(r'km_symbol\("nvidia\w*", "(\w+)"\)', path.read_text()))
    return found
