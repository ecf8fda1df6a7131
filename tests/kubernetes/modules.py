# SPDX-License-Identifier: Apache-2.0
"""Write the module files of a version of Kubernetes, whose components tests/kubernetes/cluster imports.

Kubernetes' go.mod refers to its libraries (k8s.io/api and others) by folders of its own tree. Whoever imports
Kubernetes as a module replaces each of them by the published module with the same minor and patch number, so
1.36.5 has libraries of v0.36.5.

usage: python -m tests.kubernetes.modules VERSION [NAME.mod]    for example 1.36.5 go.mod
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parent / "cluster"
MODULE = "opencgpu.test/cluster"
KUBERNETES = "k8s.io/kubernetes"
TOOL = f"{KUBERNETES}/cmd/kubectl"
OWN_TREE = "./staging/src/"


def go(*words: str) -> str:
    """Run go in the program's folder; return what it printed."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    done = subprocess.run(["go", *words], cwd=SOURCES, env=environment, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def upstream(version: str) -> dict[str, Any]:
    """Return the go.mod of a version of Kubernetes, as go shows it."""
    found = json.loads(go("mod", "download", "-json", f"{KUBERNETES}@v{version}"))
    parsed: dict[str, Any] = json.loads(go("mod", "edit", "-json", found["GoMod"]))
    return parsed


def module_file(version: str, theirs: dict[str, Any]) -> str:
    """Return a go.mod that requires Kubernetes, with its libraries at the version that belongs to it."""
    library = "v0." + version.partition(".")[2]
    head = [f"module {MODULE}", "", f"go {theirs['Go']}", "", f"tool {TOOL}", ""]
    head += [f"require {KUBERNETES} v{version}", ""]
    names = [one["Old"]["Path"] for one in theirs["Replace"] if one["New"]["Path"].startswith(OWN_TREE)]
    return "\n".join([*head, "replace (", *(f"\t{name} => {name} {library}" for name in names), ")", ""])


def main() -> None:
    version, name = sys.argv[1], (sys.argv[2:] or ["go.mod"])[0]
    text = module_file(version, upstream(version))
    (SOURCES / name).write_text(text)
    (SOURCES / name).with_suffix(".sum").unlink(missing_ok=True)
    go("mod", "tidy", f"-modfile={name}")


if __name__ == "__main__":
    main()
