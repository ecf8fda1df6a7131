# SPDX-License-Identifier: Apache-2.0
"""The way from a container engine to the hook: the OCI runtime wrapper and the engines' settings."""

if __name__ != "cgpu.runtime_config":
    raise ImportError("import this package as cgpu.runtime_config")
