# SPDX-License-Identifier: Apache-2.0
"""Which calls of a trace the simulated cards can do again."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from cgpu.trace import names

if TYPE_CHECKING:
    from cgpu.trace.format import Event

ROOTS = ("NV01_ROOT", "NV01_ROOT_NON_PRIV", "NV01_ROOT_CLIENT")
PLAIN = ("FERMI_VASPACE_A",)  # needs no parameters there
REQUESTS = ("NV_MEMORY_EXTENDED_USER", "NV01_MEMORY_DEVICELESS")  # need parameters, which a trace lacks
ALWAYS = ("NV_ESC_RM_FREE", "NV_ESC_RM_DUP_OBJECT", "NV_ESC_REGISTER_FD", "NV_ESC_SYS_PARAMS")


class Part(Enum):
    """What is done of a call in a replay."""

    PLAYED = "replayed"  # the core decides, the cards do it, and both answers count
    STOOD_IN = "stood in for"  # as above, without its parameters: so that later calls find its object
    ASKED = "not replayed"  # the core decides; the cards are not asked


@cache
def _numbers(*given: str) -> frozenset[int]:
    return frozenset(map(names.constant, given))


def root_classes() -> frozenset[int]:
    """Return the classes of RM clients."""
    return _numbers(*ROOTS)


def _alloc(event: Event) -> Part:
    number = event.given.get("hClass") or 0
    if number in _numbers(*ROOTS, *PLAIN):
        return Part.PLAYED
    if number in _numbers(*names.recorded()["class_params"]):
        return Part.PLAYED if event.params or not event.given.get("pAllocParms") else Part.ASKED
    known = not names.name_of("classes", number).startswith("0x") and number not in _numbers(*REQUESTS)
    return Part.STOOD_IN if known and event.status == 0 else Part.ASKED


def part_of(event: Event) -> Part:
    """Return what a replay does of a driver call."""
    if not event.form or event.result is None:
        return Part.ASKED
    if event.call == "NV_ESC_RM_ALLOC":
        return _alloc(event)
    if event.call == "NV_ESC_RM_CONTROL":
        return Part.PLAYED if event.params else Part.ASKED
    if event.call == "NV_ESC_RM_VID_HEAP_CONTROL":
        known = event.given.get("function") in _numbers(*names.recorded()["heap_functions"])
        return Part.PLAYED if known else Part.ASKED
    return Part.PLAYED if event.call in ALWAYS else Part.ASKED
