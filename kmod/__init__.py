# SPDX-License-Identifier: Apache-2.0
"""What enforces a slice: the C core, the daemon, the simulated GPUs."""

if __name__ != "cgpu.kmod":
    raise ImportError("import this package as cgpu.kmod")
