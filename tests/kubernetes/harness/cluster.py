# SPDX-License-Identifier: Apache-2.0
"""The cluster as tests see it: its components by name, its API, manifests, pods and their events."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import yaml
from lightkube import ApiError, Client, KubeConfig
from lightkube.codecs import load_all_yaml
from lightkube.core.resource import NamespacedResource
from lightkube.models.authentication_v1 import BoundObjectReference, TokenRequestSpec
from lightkube.models.core_v1 import PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import (
    ConfigMap,
    Event,
    Node,
    Pod,
    ServiceAccount,
    ServiceAccountToken,
)

from cgpu import paths
from tests.integration.commands import Outcome, Server, call, eventually
from tests.integration.engine import Engine
from tests.integration.images import ROOT
from tests.kubernetes.harness import node
from tests.kubernetes.harness.control_plane import control_plane
from tests.kubernetes.harness.credentials import NODE, Credentials
from tests.kubernetes.harness.settings import Settings

FIELD_MANAGER = "tests"
RUNTIME_CLASS = ROOT / "install" / "packaging" / "kubernetes" / "runtimeclass.yaml"
ENGINE_LOG = Path(paths.RUN) / "cgpud.log"
POD_S = 60
CALL_S = 30
KUBECTL_S = 120
# kubectl says this of a command that ran in a pod and failed, and not of itself.
COMMAND_FAILED = "command terminated with exit code"


class Cluster:
    """Control plane, containerd, cgpud with simulated cards, and a kubelet, beside this process."""

    def __init__(self, settings: Settings, folder: Path, cards: str = "T4:2") -> None:
        self.settings = settings
        self.folder = folder
        self.credentials = Credentials(folder / "credentials")
        Path("/etc/cgpu").mkdir()
        self.engine = Engine(cards, {}, Path("/etc/cgpu"))
        #: by name: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, containerd, kubelet
        self.components: dict[str, Server] = {}
        self._extra: list[Server] = []
        self._clients: list[Client] = []

    def begin(self) -> None:
        self._start(*control_plane(self.settings, self.folder, self.credentials))
        self.engine.start()
        place = node.here(self.settings)
        self._start(node.containerd(self.settings, place))
        node.load_images(self.folder / "image")
        self._start(node.kubelet(self.settings, self.credentials, place))
        self.api = self.client("admin")
        self.apply(RUNTIME_CLASS)
        eventually(self.is_node_ready, "the node is ready", POD_S)

    def move_node(self, place: node.Place) -> None:
        """Have containerd and the kubelet run at another place, with the same containers and images."""
        for name in ("kubelet", "containerd"):
            self.components[name].stop()
        self._start(
            node.containerd(self.settings, place), node.kubelet(self.settings, self.credentials, place)
        )
        eventually(self.is_node_ready, "the node is ready", POD_S)

    def _start(self, *components: Server) -> None:
        for component in components:
            self.components[component.name] = component
            component.start()

    def end(self) -> None:
        """End all processes but the containers', which end with the namespaces."""
        self.end_extra()
        for client in self._clients:
            client.close()
        for component in reversed(self.components.values()):
            component.stop()
        self.engine.stop()
        # /run ends with the namespaces, and the logs of a run that failed are kept.
        if ENGINE_LOG.exists():
            shutil.copyfile(ENGINE_LOG, self.settings.logs / ENGINE_LOG.name)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        ready: Any = lambda: True,
    ) -> Server:
        component = Server(name, command, self.settings.logs / f"{name}.log", ready, env)
        self._extra.append(component)
        component.start()
        return component

    def components_of_test(self, name: str) -> Server:
        return next(one for one in self._extra if one.name == name)

    def end_extra(self) -> None:
        while self._extra:
            self._extra.pop().stop()

    # Callers of the API

    def client(self, user: str, namespace: str = "default") -> Client:
        """Return a client of one who has a kubeconfig, such as admin."""
        config = KubeConfig.from_file(self.credentials.path(user))
        timeout = httpx2.Timeout(CALL_S)
        made = Client(config, namespace, timeout, field_manager=FIELD_MANAGER, trust_env=False)
        self._clients.append(made)
        return made

    def service_account(self, name: str, namespace: str, node: str | None = None) -> Path:
        """Return a kubeconfig with a new token of a ServiceAccount: its rights are what RBAC gives it.

        node: the token is one of a pod on this node, as far as policies see.
        """
        metadata = ObjectMeta(namespace=namespace)
        bound = BoundObjectReference(kind="Node", apiVersion="v1", name=node) if node is not None else None
        asked = ServiceAccountToken(
            metadata=metadata, spec=TokenRequestSpec(audiences=[], boundObjectRef=bound)
        )
        made = self.api.create(asked, name, namespace=namespace)
        assert made.status is not None
        assert made.status.token is not None
        return self.credentials.kubeconfig(f"{namespace}-{name}", made.status.token, namespace)

    # Manifests

    def apply(self, manifests: str | Path | Mapping[str, object], namespace: str | None = None) -> list[Any]:
        """Apply YAML documents, the documents of a file, or one object; return what came of them."""
        if isinstance(manifests, Path):
            manifests = manifests.read_text()
        text = manifests if isinstance(manifests, str) else yaml.safe_dump(dict(manifests))
        made = []
        for one in load_all_yaml(text, create_resources_for_crds=True):
            if namespace is not None and isinstance(one, NamespacedResource) and one.metadata is not None:
                one.metadata.namespace = one.metadata.namespace or namespace
            made.append(self.api.apply(one, force=True))
        return made

    def delete(self, manifest: Mapping[str, Any]) -> None:
        """Delete the object that a document names, if it is there."""
        self._with_named(manifest, self.api.delete)

    def exists(self, manifest: Mapping[str, Any]) -> bool:
        return self._with_named(manifest, self.api.get)

    def _with_named(self, manifest: Mapping[str, Any], do: Callable[..., object]) -> bool:
        (one,) = load_all_yaml(yaml.safe_dump(dict(manifest)), create_resources_for_crds=True)
        metadata = manifest["metadata"]
        place = {"namespace": metadata["namespace"]} if isinstance(one, NamespacedResource) else {}
        try:
            do(type(one), metadata["name"], **place)
        except ApiError as error:
            if error.status.code == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def kubectl(self, *words: str, user: str = "admin") -> Outcome:
        """Run kubectl as one who has a kubeconfig. Its plugins are those of this Python's environment."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"KUBECONFIG": str(self.credentials.path(user)), "PATH": path}
        return call([self.settings.kubectl(), *words], env=env, timeout=KUBECTL_S)

    # State of pods

    def is_complete(self, namespace: str) -> bool:
        try:
            self.api.get(ServiceAccount, "default", namespace=namespace)
            self.api.get(ConfigMap, "kube-root-ca.crt", namespace=namespace)
        except ApiError:
            return False
        return True

    def is_node_ready(self) -> bool:
        try:
            found = self.api.get(Node, NODE)
        except ApiError:
            return False
        conditions = (found.status.conditions if found.status else None) or ()
        return any(one.type == "Ready" and one.status == "True" for one in conditions)

    def pod_status(self, name: str, namespace: str) -> PodStatus:
        status = self.api.get(Pod, name, namespace=namespace).status
        assert status is not None
        return status

    def await_pod(self, name: str, namespace: str, *phases: str, deadline: float = POD_S) -> PodStatus:
        """Wait until a pod is in one of the phases. The error has its events."""
        status = PodStatus()

        def reached() -> bool:
            nonlocal status
            status = self.pod_status(name, namespace)
            return status.phase in phases

        try:
            eventually(reached, f"{name} is {' or '.join(phases)}", deadline)
        except AssertionError as error:
            said = [f"{error}; it is {status.phase}", *self.events(name, namespace)]
            raise AssertionError("\n".join(said)) from error
        return status

    def delete_pod(self, name: str, namespace: str) -> None:
        self.api.delete(Pod, name, namespace=namespace)
        eventually(lambda: not self._exists(name, namespace), f"{name} is gone", POD_S)

    def _exists(self, name: str, namespace: str) -> bool:
        return bool(list(self.api.list(Pod, namespace=namespace, fields={"metadata.name": name})))

    def events(self, name: str, namespace: str) -> list[str]:
        found = self.api.list(Event, namespace=namespace, fields={"involvedObject.name": name})
        return [f"{one.reason}: {one.message}" for one in found]

    def log(self, name: str, namespace: str, container: str | None = None) -> str:
        return "".join(self.api.log(name, namespace=namespace, container=container))

    def exec(self, name: str, namespace: str, *command: str, container: str | None = None) -> Outcome:
        """Run a command in a pod's container to its end, by kubectl. Where it cannot run, the error says why.

        lightkube's exec() is by httpx2, which closes a socket while a thread of its own reads it. The thread
        goes on with the socket's number, so it takes bytes of the next connection, which fails.
        """
        chosen = ["--container", container] if container is not None else []
        done = self.kubectl("exec", name, "--namespace", namespace, *chosen, "--", *command)
        assert done.returncode == 0 or COMMAND_FAILED in done.stderr, f"exec in {name}: {done.text}"
        return done
