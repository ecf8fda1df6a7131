# SPDX-License-Identifier: Apache-2.0
"""The node installer."""

if __name__ != "cgpu.install":
    raise ImportError("import this package as cgpu.install")
