# SPDX-License-Identifier: Apache-2.0
"""A trace for people: one line per event, or counts."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from cgpu.trace import names
from cgpu.trace.format import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cgpu.trace.format import Fields, Trace

CLASSES = ("hClass", "params.hClass")
status_name = partial(names.name_of, "statuses")

# Fields that are numbers of the driver's own: a class, a control, a function of the heap.
NUMBERS: dict[str, Callable[[int], str]] = {
    **dict.fromkeys(CLASSES, partial(names.name_of, "classes")),
    "cmd": partial(names.name_of, "controls"),
    "function": names.function_name,
}
KINDS: dict[str, Callable[[int], str]] = {
    "pointer": lambda _: "...",
    "status": status_name,
    "fd": lambda file: f"file {file}",
    "handle": lambda handle: f"0x{handle:x}",
}


def value_of(form: str, name: str, value: int) -> str:
    """Return a field as it is best read: handles in hexadecimal, numbers of the driver by name."""
    kind = names.kinds(form).get(name, "number")
    if (form.startswith("NVOS") and name in NUMBERS) or name == "params.hClass":
        return NUMBERS[name](value)
    return KINDS[kind](value) if kind in KINDS else str(value)


def fields_of(form: str, fields: Fields) -> str:
    """Return fields as words, without those that are 0 or not set."""
    return ", ".join(f"{name}={value_of(form, name, value)}" for name, value in fields.items() if value)


def result_of(result: int | None) -> str:
    """Return what a system call gave."""
    if result is None:
        return "never came back"
    return f"-1 {errno.errorcode.get(-result, -result)}" if result < 0 else str(result)


def call_words(event: Event) -> str:
    """Return a driver call as strace would show it."""
    inside = [f"file {event.file}", f"{event.size} bytes"]
    if any(event.given.values()):
        inside.append(fields_of(event.form, event.given))
    if event.params:
        inside.append(f"{{{fields_of(event.params.form, event.params.given)}}}")
    if event.params and event.params.asked:
        inside.append(f"asked {list(event.params.asked)}")
    name = event.call if event.call != "ioctl" else f"ioctl {event.nr}"
    return f"{name}({', '.join(inside)}) = {result_of(event.result)}{_answer(event)}"


def _answer(event: Event) -> str:
    told = {name: value for name, value in event.out.items() if names.kinds(event.form).get(name) != "status"}
    words = "" if event.status is None else f" {names.name_of('statuses', event.status)}"
    if any(told.values()):
        words += f" {fields_of(event.form, told)}"
    if event.params and any(event.params.out.values()):
        words += f" {{{fields_of(event.params.form, event.params.out)}}}"
    if event.params and event.params.told:
        words += f" told {list(event.params.told)}"
    return words


def _opened(event: Event) -> str:
    return f"open({event.node}) = {result_of(event.result)}" + (f" file {event.file}" if event.file else "")


def _unmapped(event: Event) -> str:
    return f"munmap(map {event.rest['map']} of file {event.file}, {event.rest['length']} bytes) by {event.by}"


def _mapped(event: Event) -> str:
    return f"mmap(file {event.file}, {event.rest['length']} bytes) = {result_of(event.result)}"


def _ended(event: Event) -> str:
    signal = event.rest.get("signal")
    return f"exit with status {event.status}" if signal is None else f"exit by signal {signal}"


OTHER: dict[str, Callable[[Event], str]] = {
    "open": _opened,
    "found": lambda event: f"found descriptor {event.fd}: file {event.file} ({event.node})",
    "dup": lambda event: f"dup(descriptor {event.fd}, file {event.file}) = {result_of(event.result)}",
    "close": lambda event: f"close(descriptor {event.fd}, file {event.file}) by {event.by}",
    "mmap": _mapped,
    "munmap": _unmapped,
    "fork": lambda event: f"fork() = process {event.rest['child']}",
    "thread": lambda event: f"thread() = thread {event.rest['child_tid']}",
    "exec": lambda _: "exec()",
    "exit": _ended,
}


def other_words(event: Event) -> str:
    """Return an event about files or processes."""
    return OTHER[event.call](event) + (" (last)" if event.last else "")


def table(trace: Trace) -> Iterator[str]:
    """Yield a headline, then a line per event: seconds, process/thread, what it was."""
    header = trace.header
    notes = "".join(f", {name} {value}" for name, value in header.notes.items())
    yield f"{header.command}: driver {header.driver or 'unknown'}, kernel {header.kernel}{notes}"
    for event in trace.events:
        words = call_words(event) if event.is_driver_call else other_words(event)
        yield f"{event.t / 1e9:12.6f} {event.pid}/{event.tid} {words}"


def summary(trace: Trace) -> Iterator[str]:
    """Yield counts by call and what it came to, the most frequent first."""
    counts = Counter((named(event), outcome(event)) for event in trace.events if event.is_driver_call)
    yield f"{'COUNT':>9}  {'ANSWER':32}  CALL"
    for (call, answer), count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        yield f"{count:>9}  {answer:32}  {call}"
    yield f"{sum(counts.values()):>9}  {'':32}  calls in all"


def named(event: Event) -> str:
    """Return a call's name with its class, control or function, where that is what it is about."""
    if event.call == "ioctl":
        return f"ioctl {event.nr}"
    for name in (*CLASSES, "cmd", "function"):
        value = event.given.get(name)
        if value is not None and event.call.startswith("NV_ESC_RM_"):
            return f"{event.call} {value_of(event.form, name, value)}"
    return event.call


def outcome(event: Event) -> str:
    """Return the status where the driver gave one, else the result."""
    if event.result is None or event.result < 0:
        return result_of(event.result)
    return result_of(event.result) if event.status is None else status_name(event.status)
