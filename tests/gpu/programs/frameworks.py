# SPDX-License-Identifier: Apache-2.0
"""Programs of users' frameworks: PyTorch, CuPy and JAX. Each prints one line of JSON.

usage: python3 -m tests.gpu.programs.frameworks WORD [STOP_MIB]
WORD is torch-info, torch-fill, torch-train, cupy, jax or speed; STOP_MIB is for torch-fill.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tests.gpu.programs.cuda import say

MIB = 1 << 20
BLOCK = 64 * MIB


def framework(name: str) -> Any:
    """Import one, or end with one line."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        sys.exit(f"{name}: cannot be imported by {sys.executable} ({error})")


def torch_info() -> None:
    """Tell what PyTorch says of the card."""
    torch = framework("torch")
    free, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0)
    say(free=free, total=total, properties=properties.total_memory, name=properties.name)


def torch_fill(stop: int) -> None:
    """Take blocks until PyTorch raises its own out-of-memory, or enough; then work on in what there is."""
    torch = framework("torch")
    held: list[Any] = []
    error = ""
    try:
        while len(held) * BLOCK < stop:
            held.append(torch.full((BLOCK,), 7, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError as refused:
        error = type(refused).__name__
    kept = all(int(block[-1]) == 7 for block in held)
    taken = len(held) * BLOCK
    held.clear()
    torch.cuda.empty_cache()
    again = torch.ones(1 << 20, device="cuda").sum().item() == 1 << 20
    say(taken=taken, error=error, kept=kept, works_on=again, free=torch.cuda.mem_get_info()[0])


def torch_train() -> None:
    """Train a small model; the loss has to fall."""
    torch = framework("torch")
    torch.manual_seed(1)
    layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
    model = torch.nn.Sequential(*layers).cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(1024, 256, device="cuda")
    labels = torch.randint(0, 10, (1024,), device="cuda")
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    say(first=losses[0], last=losses[-1], ok=losses[-1] < losses[0] / 2)


def cupy_run() -> None:
    """Compare a product with NumPy's."""
    cupy = framework("cupy")
    left = cupy.arange(512 * 512, dtype=cupy.float32).reshape(512, 512) / 1e5
    product = cupy.asnumpy(left @ left)
    host = cupy.asnumpy(left)
    say(ok=bool(abs(product - host @ host).max() < 1e-2), used=cupy.get_default_memory_pool().total_bytes())


def jax_run() -> None:
    """Fit a line by gradient descent."""
    jax = framework("jax")
    numpy = framework("jax.numpy")
    x = numpy.linspace(-1, 1, 4096)
    step = jax.jit(jax.grad(lambda w: numpy.mean((w * x - 3 * x) ** 2)))
    weight = numpy.float32(0)
    for _ in range(60):
        weight = weight - 0.5 * step(weight)
    platform = jax.devices()[0].platform
    say(platform=platform, weight=float(weight), ok=platform == "gpu" and abs(float(weight) - 3) < 1e-2)


def speed() -> None:
    """Measure a copy on the card and a matrix product, and the time of one allocation."""
    torch = framework("torch")
    source = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    right = torch.randn_like(left)

    def milliseconds(action: Any, rounds: int) -> float:
        for _ in range(3):
            action()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(rounds):
            action()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / rounds

    copy = milliseconds(lambda: target.copy_(source), 50)
    product = milliseconds(lambda: left @ right, 30)
    say(
        copy_gb_s=2 * source.nbytes / copy / 1e6,
        product_tflop_s=2 * 8192**3 / product / 1e9,
        device=torch.cuda.get_device_name(0),
        torch=torch.__version__,
        cuda=torch.version.cuda,
    )


def main() -> None:
    word = sys.argv[1]
    if word == "torch-fill":
        torch_fill(int(sys.argv[2]) * MIB)
        return
    plain = {
        "torch-info": torch_info,
        "torch-train": torch_train,
        "cupy": cupy_run,
        "jax": jax_run,
        "speed": speed,
    }
    plain[word]()


if __name__ == "__main__":
    main()
