# SPDX-License-Identifier: Apache-2.0
"""Programs that run once per container: read the request, register the container, remove it again."""

if __name__ != "cgpu.hook":
    raise ImportError("import this package as cgpu.hook")
