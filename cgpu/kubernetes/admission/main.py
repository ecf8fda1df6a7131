# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes admission`: the webhook that gives pods their claims."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from lightkube import Client
from lightkube.resources.core_v1 import Pod, Secret
from lightkube.resources.resource_v1 import ResourceClaimTemplate, ResourceSlice

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.kubernetes.admission import trust
from cgpu.kubernetes.admission.certificate import Certificate
from cgpu.kubernetes.admission.collect import add_most
from cgpu.kubernetes.admission.listener import Listener
from cgpu.kubernetes.admission.server import Protocol, Webhook
from cgpu.kubernetes.admission.templates import Templates
from cgpu.kubernetes.admission.trust import Trust
from cgpu.kubernetes.cluster import configuration, http_client, learn
from cgpu.service_log import ERROR, LogHandler, ServiceLog

KINDS = (*trust.CONFIGURATIONS, Pod, ResourceClaimTemplate, ResourceSlice, Secret)
SAY = ServiceLog("cgpu-kubernetes-admission", "cgpu kubernetes admission: ")
CHECK_S = 60.0  # seconds until a renewal by another replica, or a removal, is seen


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = Parser(
        prog="cgpu kubernetes admission",
        description="The webhook that gives pods their claims, and checks the parameters of claims.",
    )
    found.add_argument("--port", type=int, default=8443, metavar="N", help="where to listen (8443)")
    found.add_argument("--address", default="0.0.0.0", metavar="IP", help="where to listen (all)")  # noqa: S104 - of a pod
    found.add_argument("--namespace", default=os.environ.get("POD_NAMESPACE", "opencgpu"), metavar="NAME")
    found.add_argument("--service", default="cgpu-admission", metavar="NAME", help="of the webhook")
    found.add_argument("--configuration", default="cgpu-admission", metavar="NAME", help="of the webhooks")
    found.add_argument(
        "--certificate",
        type=Path,
        metavar="DIR",
        help="with tls.crt and tls.key, by default it makes its own",
    )
    found.add_argument(
        "--client-authority",
        type=Path,
        metavar="FILE",
        help="take reviews only of who shows a certificate of this authority, by default of anybody",
    )
    add_most(found)
    found.add_argument("--name", action="append", default=[], metavar="HOST", help="more names of the server")
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
        with tempfile.TemporaryDirectory(prefix="cgpu-admission-") as folder:
            asyncio.run(_serve(options, Path(folder), say))
    except Exception as error:
        message = str(error) if isinstance(error, CgpuError) else f"{type(error).__name__}: {error}"
        say(message, ERROR)
        return 1
    return 0


async def _serve(options: argparse.Namespace, folder: Path, say: ServiceLog) -> None:
    learn(*KINDS)
    chosen = configuration(options.kubeconfig)
    client = Client(config=chosen)
    templates = Templates(client, http_client(chosen), most=options.most)
    place = options.certificate or folder
    known = None if options.certificate else await asyncio.to_thread(_current, client, options, None, folder)
    server = uvicorn.Server(
        uvicorn.Config(
            Webhook(templates, say, asks_proof=options.client_authority is not None),
            http=Protocol,
            ssl_certfile=place / "tls.crt",
            ssl_keyfile=place / "tls.key",
            ssl_ca_certs=options.client_authority,
            ssl_cert_reqs=ssl.CERT_OPTIONAL if options.client_authority else ssl.CERT_NONE,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
    )
    keeping = asyncio.create_task(_keep(server, client, options, known, place, say))
    await server.serve([Listener(options.address, options.port)])
    keeping.cancel()


async def _keep(
    server: uvicorn.Server,
    client: Client,
    options: argparse.Namespace,
    known: Certificate | None,
    place: Path,
    say: ServiceLog,
) -> None:
    """Renew the certificate in time, and serve what was renewed, by whomever."""
    while True:
        await asyncio.sleep(CHECK_S)
        try:
            if options.certificate is None:
                known = await asyncio.to_thread(_current, client, options, known, place)
            if server.config.ssl is not None:
                server.config.ssl.load_cert_chain(place / "tls.crt", place / "tls.key")
        except Exception as error:
            # The next minute tries again: otherwise the certificate would run out unseen.
            say(f"certificate: {type(error).__name__}: {error}", ERROR)


def _current(
    client: Client, options: argparse.Namespace, known: Certificate | None, folder: Path
) -> Certificate:
    """Return the certificate in force, and have its files and the API server's trust agree with it."""
    service = f"{options.service}.{options.namespace}.svc"
    names = (service, f"{service}.cluster.local", *options.name)
    place = Trust(options.namespace, f"{options.service}-tls", names, options.configuration)
    now = datetime.now(UTC)
    found = trust.certificate(client, place, now)
    trust.publish(client, place, found.ca_crt, now)
    if found != known:
        (folder / "tls.crt").write_bytes(found.tls_crt)
        (folder / "tls.key").touch(mode=0o600)
        (folder / "tls.key").write_bytes(found.tls_key)
    return found
