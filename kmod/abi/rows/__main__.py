# SPDX-License-Identifier: Apache-2.0
"""Print the row by which nodes of an older table get a version: python -m cgpu.kmod.abi.rows VERSION BASE."""

from __future__ import annotations

import json
import sys

from cgpu.kmod.abi.generate import DATA, Json, holds_at, layout_at, once


def between(data: Json, version: str, base: str) -> Json:
    """Return a version's row by its difference from another one. Raises ValueError."""
    if not {version, base} <= {*data["tags"]}:
        raise ValueError(f"{version}, {base}: expected two versions of {DATA.name}")
    row: Json = {"version": version, "base": base, "structs": {}, "behaviours": {}}
    for name, struct in data["structs"].items():
        old, new = (layout_at(struct, tag) or {"size": 0, "fields": {}} for tag in (base, version))
        if old["fields"].keys() != new["fields"].keys():
            raise ValueError(f"{name}: {version} has other fields than {base}: that needs a newer OpenCGPU")
        fields = {field: at for field, (at, _) in new["fields"].items() if at != old["fields"][field][0]}
        if fields or old["size"] != new["size"]:
            row["structs"][name] = {"size": new["size"], "fields": fields}
    for name, behaviour in data["behaviours"].items():
        if holds_at(behaviour, base) != holds_at(behaviour, version):
            row["behaviours"][name] = holds_at(behaviour, version)
    return row


if __name__ == "__main__":
    try:
        table: Json = json.loads(DATA.read_text(), object_pairs_hook=once)
        print(json.dumps(between(table, *sys.argv[1:]), indent=1))
    except (TypeError, ValueError) as error:
        sys.exit(f"{error}; usage: python -m cgpu.kmod.abi.rows VERSION BASE")
