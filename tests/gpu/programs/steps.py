# SPDX-License-Identifier: Apache-2.0
"""Goes step by step, as lines on standard input tell it, and answers each with a line of JSON.

context: a CUDA context · kernel: the first kernel · spin SECONDS: kernels for so long, and how many · stop
"""

from __future__ import annotations

import os
import sys
import time

from tests.gpu.programs.cuda import Cuda, CudaError, say

ROUNDS = 2_000_000  # some milliseconds


def main() -> None:
    """Serve standard input to its end."""
    cuda = Cuda(context=False)
    say(step="init", pid=os.getpid(), cuda=cuda.version())
    kernel = None
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "context":
                cuda.make_context()
                say(step=word)
            elif word in ("kernel", "spin"):
                kernel = kernel or cuda.spin_kernel()
                end, count = time.monotonic() + float(rest or 0), 0
                while count == 0 or time.monotonic() < end:
                    cuda.launch(kernel, ROUNDS)
                    count += 1
                say(step=word, launches=count)
            else:
                break
        except CudaError as error:
            say(step=word, error=str(error))


if __name__ == "__main__":
    main()
