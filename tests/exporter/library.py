# SPDX-License-Identifier: Apache-2.0
"""The exporter's families as the client library, prometheus_client, reads them: it judges their text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from cgpu.exporter.text import Family


class Given(Collector):
    """Families as the library has them."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return map(metric, self._families)


def metric(family: Family) -> Metric:
    # The library takes a counter's name without its suffix.
    name = family.name.removesuffix("_total") if family.kind == "counter" else family.name
    made = Metric(name, family.help, family.kind)
    made.samples = [
        Sample(family.name + suffix, dict(labels.values), value) for suffix, labels, value in family.samples
    ]
    return made


def written(families: Sequence[Family], accept: str = "") -> bytes:
    """Return the page that the library writes for a scraper that accepts this."""
    encoder, _ = choose_encoder(accept)
    return encoder(Given(families))
