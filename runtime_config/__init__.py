# SPDX-License-Identifier: Apache-2.0
"""How a container engine comes to call the hook: the OCI runtime wrapper and the engines' settings."""

if __name__ != "cgpu.runtime_config":
    raise ImportError("import this package as cgpu.runtime_config")
