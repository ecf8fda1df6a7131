# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes admission`: the webhook that gives pods their claims."""

from __future__ import annotations

import argparse
import signal
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lightkube import Client
from lightkube.resources.resource_v1 import ResourceClaimTemplate, ResourceSlice

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.kubernetes.admission import asked
from cgpu.kubernetes.admission.collect import add_most
from cgpu.kubernetes.admission.rewrite import DEFAULT_SCHEDULER, Settings
from cgpu.kubernetes.admission.server import BOUNDS, Webhook
from cgpu.kubernetes.admission.templates import Templates
from cgpu.kubernetes.cluster import configuration, http_client, learn
from cgpu.service_log import ERROR, ServiceLog

KINDS = (ResourceClaimTemplate, ResourceSlice)
SAY = ServiceLog("cgpu-kubernetes-admission", "cgpu kubernetes admission: ")
RELOAD_S = 60.0  # seconds until a certificate that was renewed is served


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = Parser(
        prog="cgpu kubernetes admission",
        description="The webhook that gives pods their claims, and checks the parameters of claims.",
    )
    found.add_argument("--port", type=int, default=8443, metavar="N", help="where to listen (8443)")
    found.add_argument("--address", default="", metavar="IP", help="where to listen (all)")
    found.add_argument(
        "--certificate",
        type=Path,
        required=True,
        metavar="DIR",
        help="with the server's tls.crt and tls.key, which are read again each minute",
    )
    found.add_argument(
        "--client-authority",
        type=Path,
        metavar="FILE",
        help="take reviews only of who shows a certificate of this authority, by default of anybody",
    )
    found.add_argument(
        "--ack-unit",
        choices=asked.UNITS,
        default="GiB",
        help="of aliyun.com/gpu-mem (GiB); gpushare's device plugin has MiB with --memory-unit=MiB",
    )
    found.add_argument(
        "--scheduler",
        default=DEFAULT_SCHEDULER,
        metavar="NAME",
        help=f"places the pods, in place of {DEFAULT_SCHEDULER} and those of the other systems",
    )
    found.add_argument(
        "--keep-names",
        action="store_true",
        help="leave the names of other systems beside a claim, for ResourceQuota and LimitRange to count: a "
        "scheduler that ignores them places the pods",
    )
    add_most(found)
    found.add_argument("--kubeconfig", metavar="FILE", help="by default the service account of the pod")
    found.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="of its log lines (text); json: one object a line, with the fields of docs/configuration.md",
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; 0, or 1 after one line on standard error."""
    options = parser().parse_args(arguments)
    say = replace(SAY, form=lambda: options.log_format)
    try:
        _serve(options, say)
    except Exception as error:
        message = str(error) if isinstance(error, CgpuError) else f"{type(error).__name__}: {error}"
        say(message, ERROR)
        return 1
    return 0


def _serve(options: argparse.Namespace, say: ServiceLog) -> None:
    learn(*KINDS)
    chosen = configuration(options.kubeconfig)
    templates = Templates(Client(config=chosen), http_client(chosen), most=options.most)
    context = tls_context(options.certificate, options.client_authority)
    settings = Settings(asked.UNITS[options.ack_unit], options.scheduler, options.keep_names)
    server = Webhook((options.address, options.port), context, templates, say, BOUNDS, settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        # In a thread: shutdown() waits for the loop that a signal interrupts.
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    arguments = (context, options.certificate, say)
    threading.Thread(target=_reload_certificate, args=arguments, daemon=True).start()
    server.serve_forever()
    server.await_answers()


def tls_context(certificate: Path, client_authority: Path | None) -> ssl.SSLContext:
    """Return TLS with the certificate of a folder. client_authority: of certificates that clients may show.

    Raises OSError.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_authority)
    context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
    if client_authority is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _reload_certificate(context: ssl.SSLContext, folder: Path, say: ServiceLog) -> None:
    """Serve what has been renewed in the folder meanwhile."""
    while True:
        time.sleep(RELOAD_S)
        try:
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        except OSError as error:
            # The next minute tries again: a Secret's files may be between two versions.
            say(f"certificate: {type(error).__name__}: {error}", ERROR)
