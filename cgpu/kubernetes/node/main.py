# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes node`: the agent of a node, a driver of Dynamic Resource Allocation for the kubelet."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from lightkube import Client

from cgpu import paths
from cgpu.arguments import Parser
from cgpu.client.tree import EngineDownError, Tree
from cgpu.errors import CgpuError, show
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.server import MetricsPage
from cgpu.kubernetes.cluster import configuration, learn
from cgpu.kubernetes.names import DRIVER, SCHEDULER_LABEL, USAGE_PAGE
from cgpu.kubernetes.node.agent import Agent, Parts
from cgpu.kubernetes.node.api import KINDS, Api
from cgpu.kubernetes.node.container_names import container_names
from cgpu.kubernetes.node.decided import SYSTEMS
from cgpu.kubernetes.node.engine_tree import EngineTree
from cgpu.kubernetes.node.plugin import HealthReport, Plugin
from cgpu.kubernetes.node.pods import Pods, Store
from cgpu.kubernetes.node.prepare import Claims, Folders
from cgpu.kubernetes.node.publish import Publisher
from cgpu.kubernetes.node.records import Records
from cgpu.kubernetes.node.server import DEADLINE_S, StatusServer
from cgpu.kubernetes.node.sockets import Sockets
from cgpu.kubernetes.node.units import UNITS, Unit
from cgpu.kubernetes.node.usage import Usage, document, usage
from cgpu.page_server import JSON, Page, Pages
from cgpu.service_log import ERROR, WARNING, ServiceLog
from cgpu.smi.names import SHORT_WAIT_S, Directory

EXIT_FAILED = 1
# Log lines take the form of the node's configuration, which the pod has. The pod has no journal of the node.
say = ServiceLog("cgpu-kubernetes-node")
warn = partial(say, level=WARNING)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = Parser(
        prog="cgpu kubernetes node",
        description="The agent of a node: publish the GPUs to Kubernetes, prepare claims for the kubelet.",
    )
    found.add_argument(
        "--node", metavar="NAME", default=os.environ.get("NODE_NAME"), help="name of the node (NODE_NAME)"
    )
    found.add_argument(
        "--pod-uid", metavar="UID", default=os.environ.get("POD_UID", ""), help="of the agent's pod (POD_UID)"
    )
    found.add_argument(
        "--unit",
        choices=UNITS,
        default="card",
        help="card: a GPU offers whole GiB, as its maker names it; exact: its MiB; the same on all nodes",
    )
    found.add_argument(
        "--scheduler",
        metavar="SYSTEM=NAME",
        action="append",
        default=[],
        help=f"another system ({', '.join(SYSTEMS)}) and its schedulerName, which decides for pods of nodes "
        f"with the label {SCHEDULER_LABEL}=SYSTEM",
    )
    found.add_argument("--kubelet", metavar="DIR", type=Path, default=Path("/var/lib/kubelet"))
    found.add_argument(
        "--status-port",
        metavar="N",
        type=int,
        default=0,
        help="where to answer what is promised and used, over HTTP and to anybody; 0: nowhere (0)",
    )
    found.add_argument("--status-address", metavar="IP", default="", help="with it, by default all")
    found.add_argument(
        "--dcgm",
        action="store_true",
        help="at /metrics of the status port also the names DCGM_FI_DEV_* that dcgm-exporter has for a GPU",
    )
    found.add_argument("--kubeconfig", metavar="FILE", help="by default the service account of the pod")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent until SIGTERM or SIGINT; 0, or 1 after one line on standard error."""
    options = parser().parse_args(arguments)
    try:
        if not options.node:
            raise CgpuError("--node: expected the name of this node, or NODE_NAME in the environment")
        agent, status = build(options)
        _on_end(agent.stop)
        with status:
            agent.run()
    except Exception as error:
        message = str(error) if isinstance(error, CgpuError) else f"{type(error).__name__}: {error}"
        replace(say, begin="cgpu kubernetes node: ")(message, ERROR)
        return EXIT_FAILED
    return 0


def build(options: argparse.Namespace) -> tuple[Agent, AbstractContextManager[object]]:
    """Put together the agent and the server of its status. Raises CgpuError, OSError."""
    learn(*KINDS)
    api = Api(Client(config=configuration(options.kubeconfig)), options.node)
    tree = EngineTree()
    records = Records(options.kubelet / "plugins" / DRIVER / "claims")
    folders = Folders(Path(paths.SHARES), Path(paths.CDI_DEVICES).parent)
    unit = _unit(records, options)
    claims = Claims(api, tree, records, folders, options.node, unit)
    report = HealthReport(options.node)
    sockets = Sockets.of(options.kubelet, options.pod_uid)
    plugin = Plugin(claims, options.node, sockets, report, say)
    publisher = Publisher(api, options.node, unit, _engine(tree), say)
    store = Store(tree, records, folders.shares)
    pods = Pods(api, claims, store, options.node, read_schedulers(options.scheduler))
    # The agent itself says what does not work.
    agent = Agent(Parts(api, tree, claims, plugin, publisher, report, pods), warn)
    if options.status_port == 0:
        return agent, contextlib.nullcontext()
    pages = _pages(options.node, tree, records, sockets, dcgm=options.dcgm)
    return agent, StatusServer(options.status_address, options.status_port, pages, warn)


def _pages(node: str, tree: Tree, records: Records, sockets: Sockets, *, dcgm: bool = False) -> Pages:
    def health(_: str) -> Page:
        if not sockets.registered.exists():
            raise CgpuError("the kubelet does not know this driver yet")
        return Page(b"ok\n")

    seen = Usage(lambda: usage(tree, records))
    names = Directory([partial(container_names, tree, records)], wait_s=SHORT_WAIT_S)
    # The host name of a pod is the pod's.
    collector = TreeCollector(lambda: tree, names, dcgm=dcgm, host=node)
    return {
        "/healthz": health,
        "/metrics": MetricsPage(collector, wait_s=DEADLINE_S / 2),
        USAGE_PAGE: lambda _: Page(document(node, seen.now()), JSON),
    }


def _unit(records: Records, options: argparse.Namespace) -> Unit:
    """Return the unit that is in force: that of the claims of this node, while there are any."""
    found = records.unit(options.unit)
    if found != options.unit:
        warn(
            f"--unit {options.unit}: claims of this node are prepared with {found}, which stays in force "
            f"until the agent starts without them; expected none of them: kubectl drain {options.node}"
        )
    return found


def read_schedulers(words: Sequence[str]) -> dict[str, str]:
    """Return the names of schedulers by system. Raises CgpuError."""
    found = {}
    for word in words:
        system, _, name = word.partition("=")
        if system not in SYSTEMS or not name:
            known = ", ".join(SYSTEMS)
            raise CgpuError(f"--scheduler {show(word)}: expected one of {known}, then = and a schedulerName")
        found[system] = name
    return found


def _engine(tree: Tree) -> str:
    try:
        return tree.kind()
    except EngineDownError:
        return "unknown"


def _on_end(stop: threading.Event) -> None:
    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
