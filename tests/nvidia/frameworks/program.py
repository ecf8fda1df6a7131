# SPDX-License-Identifier: Apache-2.0
"""A framework's work for checks: `python3 program.py torch|cupy|cupy-async` prints its results as JSON.

The program runs by itself in containers. No kernel is launched: memory is had and given back, never written.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

MIB = 1 << 20
SMALLEST = 2 * MIB
Found = dict[str, object]
Pieces = list[tuple[object, int]]


def filled(have: Callable[[int], object], full: type[Exception]) -> tuple[Pieces, str]:
    """Have memory until none is left, in ever smaller pieces. Returns them, and the last error's text."""
    pieces: Pieces = []
    size, text = 1 << 30, ""
    while size >= SMALLEST:
        try:
            pieces.append((have(size), size))
        except full as error:
            size, text = size // 2, f"{type(error).__name__}: {error}"
    return pieces, text


def found(
    have: Callable[[int], object],
    full: type[Exception],
    info: Callable[[], tuple[int, int]],
    release: Callable[[], object],
) -> Found:
    """Fill what there is, give it back, and have some again."""
    before, total = info()
    pieces, text = filled(have, full)
    amount, left = sum(size for _, size in pieces), info()[0]
    pieces.clear()
    release()
    after = info()[0]
    again = have(64 * MIB) is not None
    return {
        "total": total, "before": before, "filled": amount, "left": left, "after": after, "again": again,
        "error": text,
    }  # fmt: skip


def by_torch() -> Found:
    """Use PyTorch's allocator; which, PYTORCH_CUDA_ALLOC_CONF says."""
    torch: Any = importlib.import_module("torch")
    torch.cuda.init()

    def have(size: int) -> object:
        return torch.empty(size, dtype=torch.uint8, device="cuda")

    def release() -> None:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    return found(have, torch.cuda.OutOfMemoryError, torch.cuda.mem_get_info, release)


def by_cupy(pool: str) -> Found:
    """Use a pool of CuPy's."""
    cupy: Any = importlib.import_module("cupy")
    made = getattr(cupy.cuda, pool)()
    cupy.cuda.set_allocator(made.malloc)

    def release() -> None:
        cupy.cuda.Device().synchronize()
        made.free_all_blocks()

    def info() -> tuple[int, int]:
        return cupy.cuda.runtime.memGetInfo()  # type: ignore[no-any-return]

    return found(cupy.cuda.alloc, cupy.cuda.memory.OutOfMemoryError, info, release)


FRAMEWORKS: dict[str, Callable[[], Found]] = {
    "torch": by_torch,
    "cupy": lambda: by_cupy("MemoryPool"),
    "cupy-async": lambda: by_cupy("MemoryAsyncPool"),
}

if __name__ == "__main__":
    print(json.dumps(FRAMEWORKS[sys.argv[1]]()))
