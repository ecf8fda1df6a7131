# SPDX-License-Identifier: Apache-2.0
"""etcd, the API server, the controller manager and the scheduler, with the flags of an ordinary cluster.

Differences: a file of tokens instead of client certificates, no replicas, no kube-proxy. The API server has
the first address of the services itself, so pods reach it by KUBERNETES_SERVICE_HOST as everywhere. A webhook
is called by its URL, or by the endpoints of its Service.
"""

from __future__ import annotations

import socket
import ssl
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.integration.commands import Server
from tests.kubernetes.harness.credentials import SERVER, Credentials
from tests.kubernetes.harness.settings import Settings

NODE_ADDRESS = "192.0.2.2"  # scripts/test-kubernetes gives it to the loopback device
SERVICES = "10.96.0.0/16"
ETCD = "http://127.0.0.1:2379"


def is_ready(url: str) -> Callable[[], bool]:
    """Return the question whether a health URL of a component says yes."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def ask() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2, context=context) as answer:  # noqa: S310 # fixed URLs
                return bool(answer.status == 200)
        except OSError:
            return False

    return ask


def listens(port: int) -> Callable[[], bool]:
    """Return the question whether a process accepts connections on a port of this machine."""

    def ask() -> bool:
        with socket.socket() as client:
            client.settimeout(1)
            return client.connect_ex(("127.0.0.1", port)) == 0

    return ask


def etcd(settings: Settings, folder: Path, more: Sequence[str] = ()) -> Server:
    """Return etcd; more: flags of one who needs something else."""
    flags = [
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        "--log-level=warn",
        "--unsafe-no-fsync",  # processes are killed here, no machines
        *more,
    ]
    return settings.component("etcd", flags, is_ready(f"{ETCD}/health"))


def api_server(
    settings: Settings, folder: Path, credentials: Credentials, more: Sequence[str] = ()
) -> Server:
    """Return the API server; more: flags of one who needs something else."""
    key = credentials.service_account_key
    flags = [
        f"--etcd-servers={ETCD}",
        "--bind-address=0.0.0.0",
        "--secure-port=443",
        f"--advertise-address={NODE_ADDRESS}",
        f"--cert-dir={credentials.certificates}",
        f"--token-auth-file={credentials.tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--service-cluster-ip-range={SERVICES}",
        "--enable-aggregator-routing",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged",
        *settings.api_flags(),
        *more,
    ]
    return settings.component("kube-apiserver", flags, is_ready(f"{SERVER}/readyz"))


def controller_manager(settings: Settings, credentials: Credentials) -> Server:
    flags = [
        f"--kubeconfig={credentials.path('kube-controller-manager')}",
        f"--service-account-private-key-file={credentials.service_account_key}",
        f"--root-ca-file={credentials.authority}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        *settings.feature_flags(),
    ]
    return settings.component("kube-controller-manager", flags, listens(10257))


def scheduler(settings: Settings, credentials: Credentials) -> Server:
    flags = [
        f"--kubeconfig={credentials.path('kube-scheduler')}",
        "--leader-elect=false",
        *settings.feature_flags(),
    ]
    return settings.component("kube-scheduler", flags, listens(10259))


def control_plane(settings: Settings, folder: Path, credentials: Credentials) -> Sequence[Server]:
    return [
        etcd(settings, folder),
        api_server(settings, folder, credentials),
        controller_manager(settings, credentials),
        scheduler(settings, credentials),
    ]
