# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes admission`: the webhook that gives pods their claims."""

from __future__ import annotations

import argparse
import asyncio
import logging
import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import uvicorn
from lightkube import Client
from lightkube.resources.resource_v1 import ResourceClaimTemplate, ResourceSlice

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.kubernetes.admission.collect import add_most
from cgpu.kubernetes.admission.listener import Listener
from cgpu.kubernetes.admission.server import Protocol, Webhook
from cgpu.kubernetes.admission.templates import Templates
from cgpu.kubernetes.cluster import configuration, http_client, learn
from cgpu.service_log import ERROR, LogHandler, ServiceLog

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
    found.add_argument("--address", default="0.0.0.0", metavar="IP", help="where to listen (all)")  # noqa: S104 - of a pod
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
    logging.getLogger().addHandler(LogHandler(say))
    try:
        asyncio.run(_serve(options, say))
    except Exception as error:
        message = str(error) if isinstance(error, CgpuError) else f"{type(error).__name__}: {error}"
        say(message, ERROR)
        return 1
    return 0


async def _serve(options: argparse.Namespace, say: ServiceLog) -> None:
    learn(*KINDS)
    chosen = configuration(options.kubeconfig)
    templates = Templates(Client(config=chosen), http_client(chosen), most=options.most)
    server = uvicorn.Server(
        uvicorn.Config(
            Webhook(templates, say, asks_proof=options.client_authority is not None),
            http=Protocol,
            ssl_certfile=options.certificate / "tls.crt",
            ssl_keyfile=options.certificate / "tls.key",
            ssl_ca_certs=options.client_authority,
            ssl_cert_reqs=ssl.CERT_OPTIONAL if options.client_authority else ssl.CERT_NONE,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
    )
    reloading = asyncio.create_task(_reload_certificate(server, options.certificate, say))
    await server.serve([Listener(options.address, options.port)])
    reloading.cancel()


async def _reload_certificate(server: uvicorn.Server, folder: Path, say: ServiceLog) -> None:
    """Serve what has been renewed in the folder meanwhile."""
    while True:
        await asyncio.sleep(RELOAD_S)
        try:
            if server.config.ssl is not None:
                server.config.ssl.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        except OSError as error:
            # The next minute tries again: a Secret's files may be between two versions.
            say(f"certificate: {type(error).__name__}: {error}", ERROR)
