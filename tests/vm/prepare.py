# SPDX-License-Identifier: Apache-2.0
"""Builds what the tests in virtual machines load, before a test's limit of time begins.

usage: python -m tests.vm.prepare
"""

from __future__ import annotations

import sys

from tests.nvidia.archive import NotInArchiveError
from tests.vm.harness import cross
from tests.vm.harness.kernels import NoKernelError, choose_kernel
from tests.vm.harness.node import build_engine, build_fake_driver, real_driver
from tests.vm.nvidia.driver import build_driver, build_hardware


def main() -> int:
    """Build the engine and the driver for the kernel, as CGPU_VM_DRIVER and CGPU_VM_KERNEL select them."""
    try:
        kernel = choose_kernel()
        if cross.IS_FOREIGN:
            cross.build_programs()
        build_engine(kernel)
        release = real_driver()
        if release is None:
            build_fake_driver(kernel)
        else:
            build_hardware(kernel)
            build_driver(kernel, release.version)
    except (NoKernelError, NotInArchiveError) as error:
        print(f"vm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
