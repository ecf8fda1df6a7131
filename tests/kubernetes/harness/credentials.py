# SPDX-License-Identifier: Apache-2.0
"""Callers of the API server: users with a token each, and a kubeconfig for each token."""

from __future__ import annotations

import csv
import secrets
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.integration.commands import must

NODE = "node"
#: the first address of the services, which scripts/test-kubernetes gives to the loopback device
SERVER = "https://10.96.0.1"
# Users and groups to which Kubernetes itself binds its roles at the start.
USERS: Mapping[str, tuple[str, str]] = {
    "admin": ("admin", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
}


class Credentials:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.certificates = folder / "serving"
        #: what the API server makes for itself, with the authority that signed it
        self.authority = self.certificates / "apiserver.crt"
        self.service_account_key = folder / "service-account.key"
        must(["openssl", "genrsa", "-out", self.service_account_key, "2048"])
        self.tokens = folder / "tokens.csv"
        with self.tokens.open("w", newline="") as stream:
            for number, (name, (user, group)) in enumerate(USERS.items()):
                token = secrets.token_hex()
                csv.writer(stream).writerow([token, user, number, group])
                self.kubeconfig(name, token)

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.kubeconfig"

    def kubeconfig(self, name: str, token: str, namespace: str = "default") -> Path:
        context = {"cluster": "tests", "user": name, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "tests", "cluster": {"server": SERVER, "certificate-authority": str(self.authority)}}
            ],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": context}],
            "current-context": "tests",
        }
        self.path(name).write_text(yaml.safe_dump(config))
        return self.path(name)
