# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes inspect [NODE]`, and `kubectl inspect cgpu`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Pod

from cgpu.arguments import Parser
from cgpu.errors import CgpuError, one_line, show
from cgpu.kubernetes.cluster import configuration, http_client
from cgpu.kubernetes.inspect import render, use
from cgpu.kubernetes.inspect.collect import CHUNK, NodeState, collect, with_use
from cgpu.kubernetes.names import AGENT_LABELS, NAMESPACE, STATUS_PORT

PROGRAM = "cgpu kubernetes inspect"


def parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the parser of the arguments. program: as it is called."""
    found = Parser(
        prog=program,
        description="Show what is given out of the GPUs of a cluster, as its scheduler has it.",
        examples=(program, f"{program} --details", f"{program} -o wide"),
    )
    found.add_argument("node", nargs="?", metavar="NODE", help="this node alone")
    found.add_argument("-d", "--details", action="store_true", help="the pods of each node")
    found.add_argument(
        "-o",
        "--output",
        choices=("wide", "json"),
        help="with what is used now, as the nodes' agents say, and what keeps pods away; or all as JSON",
    )
    found.add_argument(
        "-n",
        "--namespace",
        default=NAMESPACE,
        metavar="NAME",
        help=f"where the nodes' agents are ({NAMESPACE})",
    )
    found.add_argument("--kubeconfig", metavar="FILE", help="as for kubectl, by default KUBECONFIG")
    found.add_argument("--context", metavar="NAME", help="of that file, by default its current one")
    return found


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run the command; 0, or 1 after one line on standard error."""
    options = parser(program).parse_args(arguments)
    try:
        chosen = configuration(options.kubeconfig, options.context)
        client = Client(config=chosen)
        nodes = collect(client, options.node)
        if options.node is not None and not nodes:
            raise CgpuError(f"node {show(options.node)} publishes no GPU; nodes that do: {program}")
        asked = {node.name for node in nodes if options.output is not None or not node.is_published}
        if asked:
            nodes, silent = _with_use(nodes, asked, options.namespace, client, http_client(chosen))
            if silent:
                print(f"{program}: {one_line(use.missing(silent))}", file=sys.stderr)
    except (CgpuError, ApiError, httpx2.HTTPError) as error:
        print(f"{program}: {one_line(str(error))}", file=sys.stderr)
        return 1
    sys.stdout.write(text(nodes, options))
    return 0


def _with_use(
    nodes: tuple[NodeState, ...], names: set[str], namespace: str, client: Client, plain: httpx2.Client
) -> tuple[tuple[NodeState, ...], dict[str, str]]:
    """Return the nodes with what agents say of some, and a reason for each of these that is not known."""
    try:
        pods = list(client.list(Pod, namespace=namespace, labels={**AGENT_LABELS}, chunk_size=CHUNK))
    except ApiError as error:
        return nodes, dict.fromkeys(names, str(error))
    agents = use.agents(pods, names)
    said, silent = use.collect(agents, use.asking(plain))
    without = names - {agent.node for agent in agents}
    reason = f"namespace {namespace} has no pod of its agent with a port {STATUS_PORT}"
    return with_use(nodes, said), {**silent, **dict.fromkeys(without, reason)}


def text(nodes: Sequence[NodeState], options: argparse.Namespace) -> str:
    """Return what the options want to see."""
    if options.output == "json":
        return render.document(nodes)
    if options.details:
        return render.details(nodes, wide=options.output == "wide")
    return render.summary(nodes, wide=options.output == "wide")
