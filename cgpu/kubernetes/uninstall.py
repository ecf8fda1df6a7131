# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes uninstall`: the first step of `helm uninstall`, in a pod.

Without the agents no program gives back pods' shares: the pods would hang in Terminating, and their claims
would hold the GPUs of a next installation. So it is refused while claims have parts of GPUs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu.arguments import Parser
from cgpu.errors import CgpuError, one_line, show, some
from cgpu.kubernetes.admission.templates import Templates
from cgpu.kubernetes.cluster import configuration, http_client
from cgpu.kubernetes.results import results

CHUNK = 500
NAMED = 3  # claims in a message


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = Parser(
        prog="cgpu kubernetes uninstall",
        description="Refuse while claims have parts of GPUs, else remove the templates of admission.",
    )
    found.add_argument("--kubeconfig", metavar="FILE", help="by default the service account of the pod")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 1 after one line."""
    options = parser().parse_args(arguments)
    try:
        chosen = configuration(options.kubeconfig)
        client = Client(config=chosen)
        check_unused(client)
        for name in Templates(client, http_client(chosen)).collect(timedelta(0)):
            print(f"removed ResourceClaimTemplate {name}")
    except (CgpuError, ApiError, httpx2.HTTPError) as error:
        print(f"cgpu kubernetes uninstall: {one_line(str(error))}", file=sys.stderr)
        return 1
    return 0


def check_unused(client: Client) -> None:
    """Raise CgpuError while claims have parts of GPUs; lightkube's and httpx2's errors."""
    names = list(_using(client))
    if names:
        number = "1 claim has" if len(names) == 1 else f"{len(names)} claims have"
        raise CgpuError(
            f"{number} parts of GPUs: {some(names, NAMED)}; "
            "end the pods that use them: kubectl get resourceclaims --all-namespaces"
        )


def _using(client: Client) -> Iterator[str]:
    for claim in client.list(ResourceClaim, namespace="*", chunk_size=CHUNK):
        if claim.metadata is not None and results(claim):
            yield f"{show(claim.metadata.namespace or '')}/{show(claim.metadata.name or '')}"
