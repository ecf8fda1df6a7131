# SPDX-License-Identifier: Apache-2.0
"""The container's environment variables, as far as the wrapper sets them."""

from __future__ import annotations

from cgpu.runtime_config.oci_runtime.fields import entries, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cgpu.runtime_config.oci_runtime.fields import Table


def set_variable(spec: Table, name: str, value: str) -> None:
    """Set one variable of the container, in the place of every earlier entry for it. Raises CgpuError."""
    variables = entries(table(spec, "process"), "env")
    entry = f"{name}={value}"
    found = [at for at, old in enumerate(variables) if isinstance(old, str) and old.partition("=")[0] == name]
    if not found:
        variables.append(entry)
        return
    variables[found[0]] = entry
    for at in reversed(found[1:]):
        del variables[at]
