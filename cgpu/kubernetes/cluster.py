# SPDX-License-Identifier: Apache-2.0
"""How to reach the API server: by a kubeconfig file, or from inside of a pod."""

from __future__ import annotations

import sys

import httpx2
from lightkube import KubeConfig
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core import decoders
from lightkube.core.exceptions import ConfigError
from lightkube.core.resource import GlobalResource, NamespacedResource
from lightkube.models.meta_v1 import ManagedFieldsEntry

from cgpu.errors import CgpuError

TIMEOUT_S = 10.0
# Anybody who may write an object may write these into it, and one in a list keeps all from being read: a time
# of any year (to lightkube a datetime, unless the first answer finds it changed), and 10 KiB of brackets.
ManagedFieldsEntry.__annotations__["time"] = "str | None"
sys.setrecursionlimit(8192)


def configuration(kubeconfig: str | None, context: str | None = None) -> SingleConfig:
    """Return the configuration of a file, else of the environment or the pod. Raises CgpuError.

    context: of the file, by default its current one.
    """
    try:
        kept = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
        found = kept.get(context)
    except ConfigError as error:
        raise CgpuError(f"no cluster is known ({error}); expected --kubeconfig FILE or a pod") from error
    if found is None:
        raise CgpuError("no cluster is known: the kubeconfig has no current context; expected one that has")
    return found


def learn(*kinds: type[NamespacedResource | GlobalResource]) -> None:
    """Have all made by which answers of these kinds are read; call it before there are threads.

    Else it is made at the first use, and two threads at once end the process (msgspec 0.22: SIGSEGV).
    """
    for kind in kinds:
        decoders.decode_list(b'{"items": [], "metadata": {}}', kind)
    decoders.decode_watch_event(b'{"type": "", "object": {}}')
    decoders.decode_status(b"{}")


def http_client(chosen: SingleConfig) -> httpx2.Client:
    """Return a plain client with the same credentials."""
    return client_adapter.Client(
        chosen, client_adapter.ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_S), trust_env=False)
    )
