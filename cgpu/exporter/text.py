# SPDX-License-Identifier: Apache-2.0
"""Metrics as text, as prometheus_client writes them and many times as fast.

Its encoders check and escape the names and labels of each sample anew, 8 µs a sample. Most of a scrape is as
it was in the one before: labels keep their text, and values are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from prometheus_client.utils import floatToGoString

Kind = Literal["counter", "gauge", "histogram"]
OPENMETRICS = "application/openmetrics-text"
# Enough for some hundred slices.
VALUES = 1 << 14
LABEL_SETS = 1 << 12


class Labels:
    """Names and values of labels, and their text."""

    __slots__ = ("text", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        """Write them once."""
        self.values = values
        inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(values.items()))
        self.text = f"{{{inner}}}" if inner else ""


NO_LABELS = Labels({})


@lru_cache(maxsize=LABEL_SETS)
def with_label(labels: Labels, name: str, value: str) -> Labels:
    """Return these labels and one more."""
    return Labels({**labels.values, name: value})


Sample = tuple[str, Labels, float]
"""Suffix of the family's name, such as a histogram's _sum; labels and value."""


class Family(NamedTuple):
    """One metric with its samples; a counter's name ends with _total."""

    name: str
    kind: Kind
    help: str
    samples: Sequence[Sample]


def encode(families: Iterable[Family], kind: str) -> bytes:
    """Return a page. kind: its content type."""
    openmetrics = kind.startswith(OPENMETRICS)
    parts: list[str] = []
    for name, type_, text, samples in families:
        parts.append(_head(name, type_, text, openmetrics=openmetrics))
        parts += [f"{name}{suffix}{labels.text} {_number[value]}\n" for suffix, labels, value in samples]
    if openmetrics:
        parts.append("# EOF\n")
    # A name out of JSON may have half a character, which no text has.
    return "".join(parts).encode(errors="replace")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@lru_cache(maxsize=LABEL_SETS)
def _head(name: str, kind: str, text: str, *, openmetrics: bool) -> str:
    if kind == "counter" and openmetrics:
        name = name.removesuffix("_total")
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    if openmetrics:
        text = text.replace('"', r"\"")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


class _Numbers(dict[float, str]):
    """Values as text; found in half the time that a call takes."""

    def __missing__(self, value: float) -> str:
        if len(self) >= VALUES:
            self.clear()
        text: str = floatToGoString(value)  # type: ignore[no-untyped-call]  # the library has no types for it
        self[value] = text
        return text


_number = _Numbers()
