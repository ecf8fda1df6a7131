# SPDX-License-Identifier: Apache-2.0
"""Cards of the cluster: which sizes nodes publish, and which cards a pod's annotations allow.

The annotations are HAMi's, which Volcano's vGPU has too (Project-HAMi/HAMi, pkg/device/nvidia/device.go): a
list of UUIDs, or of parts of a model's name in which case does not count; before it stands NVIDIA-.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import httpx2
from lightkube import Client
from lightkube.core.client import LabelSelector
from lightkube.core.exceptions import ApiError
from lightkube.resources.resource_v1 import ResourceSlice

from cgpu.errors import CgpuError, show
from cgpu.kubernetes.names import DRIVER, MEMORY, SLICE_PLACEMENT
from cgpu.kubernetes.quantity import read_amount
from cgpu.sizes import MIB

FEW = 16  # nodes that say how many cards nodes have
SIZES_S = 30.0  # how long the sizes of the cluster's cards are remembered
USE_UUID, AVOID_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"
USE_TYPE, AVOID_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
MAX_WORDS = 32
WORD = re.compile(r"[A-Za-z0-9 ._+/()-]{1,64}", re.ASCII)
ATTRIBUTES = f'device.attributes["{DRIVER}"]'
MODEL = f'("NVIDIA-" + {ATTRIBUTES}.productName).upperAscii()'


def selectors(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the expressions (CEL) that hold for the cards a pod may have; none: any. Raises CgpuError."""
    found = []
    for name, form, joint in (
        (USE_UUID, ATTRIBUTES + '.uuid == "{}"', " || "),
        (AVOID_UUID, ATTRIBUTES + '.uuid != "{}"', " && "),
        (USE_TYPE, MODEL + '.contains("{}")', " || "),
        (AVOID_TYPE, "!" + MODEL + '.contains("{}")', " && "),
    ):
        words = _words(name, annotations.get(name, ""))
        if name in (USE_TYPE, AVOID_TYPE):
            words = [word.upper() for word in words]
        found.append(joint.join(form.format(word) for word in words))
    return tuple(filter(None, found))


def _words(name: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > MAX_WORDS:
        raise CgpuError(f"annotation {name}: {len(words)} words; expected at most {MAX_WORDS}")
    for word in words:
        if not WORD.fullmatch(word):
            raise CgpuError(
                f"annotation {name}: {show(word)}: expected words of at most 64 letters, digits and ._+/()-"
            )
    return words


class Cards:
    """The sizes of the cards that nodes publish."""

    def __init__(self, client: Client) -> None:
        """Ask the API server by a client."""
        self._client = client
        self._lock = threading.Lock()
        self._read = -SIZES_S
        self._sizes: tuple[int, ...] = ()
        self._read_spread = -SIZES_S
        self._spread = 0

    def sizes(self) -> Sequence[int]:
        """Return the MiB of all kinds of card, the most frequent first. Raises CgpuError."""
        with self._lock:
            if time.monotonic() - self._read > SIZES_S:
                try:
                    number = Counter(self._published())
                except (ApiError, httpx2.HTTPError) as error:
                    raise CgpuError(f"ResourceSlices: no answer from the API server ({error})") from error
                # By the power of two of their number: each order is another template.
                self._sizes = tuple(sorted(number, key=lambda size: (-number[size].bit_length(), size)))
                self._read = time.monotonic()
            return self._sizes

    def largest(self, mib: int) -> int:
        """Return the MiB of the largest card, or some that are as many; 0 where none is known.

        mib: what is asked for: as long as a known card has as much, nobody is asked.
        """
        known = max(self._sizes, default=0)
        if known < mib:
            try:
                known = max(self.sizes(), default=0)
            except CgpuError:
                return 0
        return known

    def spread(self) -> int:
        """Return the number of cards of a node that spreads pods over them, 0 without such a node."""
        with self._lock:
            if time.monotonic() - self._read_spread > SIZES_S:
                labels: LabelSelector = {SLICE_PLACEMENT: "spread"}
                # No pod is refused for a preference.
                with contextlib.suppress(ApiError, httpx2.HTTPError):
                    listed = self._client.list(ResourceSlice, labels=labels, chunk_size=FEW)
                    found = [len(one.spec.devices or ()) for one in islice(listed, FEW)]
                    self._spread = max(found, default=0)
                self._read_spread = time.monotonic()
            return self._spread

    def _published(self) -> Iterator[int]:
        for one in self._client.list(ResourceSlice, fields={"spec.driver": DRIVER}, chunk_size=500):
            for device in one.spec.devices or ():
                size = read_amount((device.capacity or {}).get(MEMORY, {}).get("value"))
                if size is not None:
                    yield int(size) // MIB
