# SPDX-License-Identifier: Apache-2.0
"""The kernel that modules are built for. tests/vm loads the modules that are built here."""

from __future__ import annotations

import pytest

from tests.vm.harness.kernels import Kernel, NoKernelError, debian_kernel


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Return Debian's own kernel, with its headers."""
    try:
        return debian_kernel()
    except NoKernelError as error:
        pytest.skip(str(error))
