# SPDX-License-Identifier: Apache-2.0
"""cgpu exporter: metrics of this node for Prometheus, until it is interrupted."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from cgpu import paths
from cgpu.arguments import Parser, exit_status
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError, show
from cgpu.service_log import ERROR, ServiceLog

say = ServiceLog("cgpu-exporter", "cgpu exporter: ")
# Not 9418 in the range that exporters use: that is git's (/etc/services).
HOST, PORT = "127.0.0.1", 10418


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu exporter",
        description="Serve metrics of the engine, its GPUs and their slices to Prometheus, at /metrics.",
        examples=("cgpu exporter", "cgpu exporter --listen 0.0.0.0:10418", "cgpu exporter --once"),
        meant={"--port": "--listen", "--address": "--listen", "--web.listen-address": "--listen"},
    )
    made.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        type=address,
        default=(HOST, PORT),
        help=f"where to listen (default {HOST}:{PORT}); an IPv6 address is put in brackets",
    )
    made.add_argument(
        "--dcgm", action="store_true", help="also the names DCGM_FI_DEV_* that dcgm-exporter has for a GPU"
    )
    made.add_argument("--once", action="store_true", help="print the metrics and end")
    made.add_argument("--tree", metavar="DIR", help="the engine's tree, where it is not the usual one")
    return made


def address(text: str) -> tuple[str, int]:
    """Return host and port; raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    known = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16
    if not bare or not known or (":" in bare and bare == host):
        raise argparse.ArgumentTypeError(f"{show(text)}: expected ADDRESS:PORT, such as {HOST}:{PORT}")
    return bare, int(port)


def failed(text: str) -> None:
    """Write the line of an error to the log."""
    say(text, ERROR)


def _serve(options: argparse.Namespace) -> None:
    try:
        from cgpu.exporter.collector import TreeCollector
        from cgpu.exporter.server import MetricsPage, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise CgpuError(
            "the Python package prometheus_client is missing; install it: pip install 'opencgpu[exporter]'"
        ) from None

    collector = TreeCollector(lambda: _tree(options.tree), dcgm=options.dcgm)
    if options.once:
        sys.stdout.write(MetricsPage(collector, wait_s=0)("").body.decode())
        return
    server = serve(options.listen, collector, failed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    host, port = options.listen[0], server.port
    say(f"metrics at http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
    with server:
        server.serve_forever()


def _tree(path: str | None) -> Tree:
    return Tree(path or paths.tree(effective.load().tree))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = parser().parse_args(arguments)
    return exit_status("cgpu exporter", lambda: _serve(options), None if options.once else failed)


if __name__ == "__main__":
    sys.exit(main())
