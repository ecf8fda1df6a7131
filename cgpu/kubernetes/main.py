# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes`: the parts of a cluster, each with arguments of its own."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from cgpu.arguments import Parser
from cgpu.errors import CgpuError

PARTS = {
    "node": ("cgpu.kubernetes.node.main", "the agent of a node: publish GPUs, prepare claims"),
    "registered": ("cgpu.kubernetes.registered", "whether the kubelet knows the agent: a probe"),
    "admission": ("cgpu.kubernetes.admission.main", "the webhook that gives pods their claims"),
    "inspect": ("cgpu.kubernetes.inspect.main", "what is given out of the GPUs of a cluster"),
    "uninstall": ("cgpu.kubernetes.uninstall", "refuse to go while claims have parts of GPUs"),
    "templates": ("cgpu.kubernetes.admission.collect", "remove the templates of admission that nobody uses"),
}
# The extra of pyproject.toml that has a part's libraries, where it is not kubernetes.
EXTRAS = {"inspect": "kubectl"}


def parser() -> argparse.ArgumentParser:
    """Return the parser of all parts. Raises CgpuError when a library of theirs is missing."""
    found = Parser(
        prog="cgpu kubernetes",
        description="The parts of OpenCGPU for a cluster.",
        examples=(
            "cgpu kubernetes inspect",
            "cgpu kubernetes inspect --details",
        ),
    )
    parts = found.add_subparsers(required=True, metavar="PART")
    for name, (_, does) in PARTS.items():
        parts.add_parser(name, help=does, parents=[part(name).parser()], add_help=False)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a part and return its exit status; 1 after one line where its libraries are missing."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if not words or words[0] not in PARTS:
            parser().parse_args(words)
        status: int = part(words[0]).main(words[1:])
    except CgpuError as error:
        print(f"cgpu kubernetes: {error}", file=sys.stderr)
        return 1
    return status


def part(name: str) -> ModuleType:
    """Return the module of a part. Raises CgpuError when a library of it is missing."""
    try:
        return importlib.import_module(PARTS[name][0])
    except ModuleNotFoundError as error:
        raise CgpuError(
            f"the Python library {error.name} is missing, which cgpu kubernetes {name} needs; install: "
            f"pip install 'opencgpu[{EXTRAS.get(name, 'kubernetes')}]'"
        ) from error
