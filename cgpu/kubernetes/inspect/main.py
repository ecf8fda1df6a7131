# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes inspect [NODE]`, and `kubectl inspect cgpu`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError

from cgpu.arguments import Parser
from cgpu.errors import CgpuError, one_line, show
from cgpu.kubernetes.cluster import configuration
from cgpu.kubernetes.inspect import render
from cgpu.kubernetes.inspect.collect import NodeState, collect


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = Parser(
        prog="kubectl inspect cgpu",
        description="Show what is given out of the GPUs of a cluster, as its scheduler has it.",
    )
    found.add_argument("node", nargs="?", metavar="NODE", help="this node alone")
    found.add_argument("-d", "--details", action="store_true", help="the pods of each node")
    found.add_argument("-o", "--output", choices=("wide", "json"), help="more columns, or all as JSON")
    found.add_argument("--kubeconfig", metavar="FILE", help="as for kubectl, by default KUBECONFIG")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 1 after one line on standard error."""
    options = parser().parse_args(arguments)
    try:
        nodes = collect(Client(config=configuration(options.kubeconfig)), options.node)
        if options.node is not None and not nodes:
            raise CgpuError(
                f"node {show(options.node)} publishes no GPU; nodes that do: kubectl inspect cgpu"
            )
    except (CgpuError, ApiError, httpx2.HTTPError) as error:
        print(f"cgpu kubernetes inspect: {one_line(str(error))}", file=sys.stderr)
        return 1
    sys.stdout.write(text(nodes, options))
    return 0


def text(nodes: Sequence[NodeState], options: argparse.Namespace) -> str:
    """Return what the options want to see."""
    if options.output == "json":
        return render.document(nodes)
    if options.details:
        return render.details(nodes)
    return render.summary(nodes, wide=options.output == "wide")
