# SPDX-License-Identifier: Apache-2.0
"""Metrics as text, as prometheus_client writes them and several times as fast.

Its encoders check and escape the names and labels of each sample anew, 8 µs a sample. Most of a scrape is as
it was in the one before, and is remembered here. A page with a family that has more than values and labels is
left to the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

OPENMETRICS = "application/openmetrics-text"
NOTHING_MORE = Sample("", {}, 0.0)[3:]
TYPES = ("counter", "gauge", "histogram")
# Label sets and values of some hundred slices.
REMEMBERED = 1 << 14


class Plain(Metric):
    """A family whose samples have values and labels alone."""


class _Collected(Collector):
    """What was collected already, for an encoder of the library."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def encode(families: Sequence[Metric], kind: str, library: Callable[[Collector], bytes]) -> bytes:
    """Return a page. kind: its content type. library: what writes that type otherwise."""
    if not all(map(_is_plain, families)):
        return library(_Collected(families))
    openmetrics = kind.startswith(OPENMETRICS)
    parts: list[str] = []
    # The samples of a slice have one object of labels, which lives as long as its family.
    seen: dict[int, str] = {}
    for family in families:
        parts.append(_head(family.name, family.type, family.documentation, openmetrics=openmetrics))
        for sample in family.samples:
            labels = sample.labels
            text = seen.get(id(labels))
            if text is None:
                text = seen[id(labels)] = _labels_text(tuple(labels.items())) if labels else ""
            parts.append(f"{sample.name}{text} {_number(sample.value)}\n")
    if openmetrics:
        parts.append("# EOF\n")
    return "".join(parts).encode()


def _is_plain(family: Metric) -> bool:
    # The rest of a sample is its time, an exemplar and a native histogram. In plain text _created comes last.
    return isinstance(family, Plain) or (
        family.type in TYPES
        and not family.unit
        and all(sample[3:] == NOTHING_MORE for sample in family.samples)
        and not any(sample.name.endswith("_created") for sample in family.samples)
    )


@lru_cache(maxsize=REMEMBERED)
def _head(name: str, kind: str, text: str, *, openmetrics: bool) -> str:
    if kind == "counter" and not openmetrics:
        name += "_total"
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    if openmetrics:
        text = text.replace('"', r"\"")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


@lru_cache(maxsize=REMEMBERED)
def _labels_text(labels: tuple[tuple[str, str], ...]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    inner = ",".join(f'{name}="{escaped(value)}"' for name, value in sorted(labels))
    return f"{{{inner}}}"


@lru_cache(maxsize=REMEMBERED)
def _number(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]  # the library has no types for it
    return text
