# SPDX-License-Identifier: Apache-2.0
"""Specifications of containers, and their allocations on a node's cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cgpu.client.tree import Gpu
from cgpu.config.effective import Effective
from cgpu.request.names import NAMES
from cgpu.request.request import Request, decide
from cgpu.request.resolve import Allocation, has_size, resolve
from cgpu.request.spec import read

ENV = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15"}

# A good value of what a container can say of a slice; "1" of all else.
GOOD = {
    "mem": "6G",
    "container": "6",
    "dev": "15",
    "devices": "0",
    "weight": "2",
}


def every_word() -> Iterator[tuple[dict[str, str], dict[str, str], str]]:
    """Yield each variable and each annotation with a good value, and its name in messages."""
    for key, (variables, notes) in NAMES.items():
        for name in variables:
            yield {name: GOOD.get(key, "1")}, {}, f"{name}={GOOD.get(key, '1')}"
        for name in notes:
            yield {}, {name: GOOD.get(key, "1")}, f"annotation {name}={GOOD.get(key, '1')}"


def spec(
    env: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **members: object
) -> dict[str, object]:
    entries = ["PATH=/bin", *(f"{name}={value}" for name, value in (env or {}).items())]
    document: dict[str, object] = {"ociVersion": "1.0.2", "process": {"args": ["/x"], "env": entries}}
    if annotations is not None:
        document["annotations"] = annotations
    return {**document, **members}


def request_of(document: Mapping[str, object], config: Effective) -> Request | None:
    return decide(read(document, config), config)


def wants(document: Mapping[str, object], config: Effective) -> bool:
    """Return whether a container is to be sliced."""
    request = request_of(document, config)
    return request is not None and has_size(request, config)


def is_by_default(document: Mapping[str, object]) -> bool:
    """Return whether the default of the tree decides if a container is sliced."""
    request = request_of(document, Effective())
    return request is not None and request.is_by_default()


def allocate(document: Mapping[str, object], gpus: Sequence[Gpu], config: Effective) -> Allocation | None:
    """Return what a container gets on these cards, None when it is not to be sliced."""
    request = request_of(document, config)
    return None if request is None or not has_size(request, config) else resolve(request, gpus, config)


def granted(document: Mapping[str, object], gpus: Sequence[Gpu], config: Effective) -> Allocation:
    found = allocate(document, gpus, config)
    assert found is not None
    return found
