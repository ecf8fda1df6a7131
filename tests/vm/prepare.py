# SPDX-License-Identifier: Apache-2.0
"""Builds what the tests in virtual machines load, before a test's limit of time begins.

usage: python -m tests.vm.prepare
Exit status: 3 where CGPU_VM_DRIVER names a driver that is neither built nor in Debian's archive.
"""

from __future__ import annotations

import sys

from tests.nvidia.archive import NotInArchiveError
from tests.vm.harness import cross
from tests.vm.harness.kernels import NoKernelError, choose_kernel
from tests.vm.harness.node import build_engine, build_fake_driver, real_driver
from tests.vm.nvidia.driver import build_driver, build_hardware

NOT_THERE = 3  # exit status


def main() -> int:
    """Build the engine and the driver for the kernel, as CGPU_VM_DRIVER and CGPU_VM_KERNEL select them."""
    try:
        kernel = choose_kernel()
        if cross.IS_FOREIGN:
            cross.build_programs()
        version = real_driver()
        if version is None:
            build_fake_driver(kernel)
        else:
            build_driver(kernel, version)
            build_hardware(kernel)
        build_engine(kernel)
    except (NoKernelError, NotInArchiveError) as error:
        print(f"vm: {error}", file=sys.stderr)
        return NOT_THERE if isinstance(error, NotInArchiveError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
