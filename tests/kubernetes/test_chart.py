# SPDX-License-Identifier: Apache-2.0
"""The API server and kube-score judge what helm makes of the chart and its values.

The API server decodes strictly, so it refuses a field that it does not know, fills in, validates as at an
installation, and compiles the expressions of policies; schemas of fields alone would judge less. It has no
definitions of Prometheus' operator and of cert-manager, whose objects are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace

from cgpu.kubernetes.admission.asked import KEPT
from cgpu.kubernetes.names import AGENT_LABELS
from tests.integration.commands import Outcome, call
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster

FOREIGN = ("monitoring.coreos.com/", "cert-manager.io/", "security.openshift.io/")
PARTS = ("node", "admission", "templates", "installer", "uninstall", "test")
TAINT = {"key": "gpu", "operator": "Exists"}
OWN_TAINT = {"key": "own", "operator": "Exists"}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
OURS = {"key": "opencgpu.io/node", "operator": "In", "values": ["install", "remove"]}


def affinity_to(*expressions: object) -> Mapping[str, object]:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


SPREAD, SPREAD_AGENT = affinity_to(ZONE), affinity_to(ZONE, OURS)
OF_ALL = {
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [TAINT],
    "affinity": SPREAD,
    "podAnnotations": {"mesh/inject": "false", "team": "all"},
    "podLabels": {"cost": "gpu"},
}
OF_A_PART = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [OWN_TAINT],
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"team": "own"},
    "podLabels": {"app.kubernetes.io/component": "other"},
    "podSecurityContext": {"supplementalGroups": [7]},
    "serviceAccount": {"name": "", "annotations": {"role": "reader"}},
}
EVERYTHING = {
    **OF_ALL,
    **dict.fromkeys(PARTS, OF_A_PART),
    "registry": "registry.example:5000/gpu",
    "imagePullSecrets": [{"name": "registry"}],
    "fullnameOverride": "slices",
    "nameOverride": "own",
    "namespace": {"create": True},
    "metrics": {"dashboard": True, "dcgm": True},
    "networkPolicy": {name: [{"ipBlock": {"cidr": "192.0.2.0/28"}}] for name in ("from", "statusFrom")},
}
JUDGE_ONLY = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
POD_SECURITY = "pod-security.kubernetes.io/"
SCHEDULER = ("--set", "scheduler.enabled=true")
OPENSHIFT = ("--api-versions", "security.openshift.io/v1")
IGNORED = (
    "container-image-pull-policy",  # tags are of releases, and a digest can be given
    "container-ephemeral-storage-request-and-limit",  # all file systems are read-only
    "container-security-context-user-group-id",  # the image's, or one that OpenShift chooses
    "deployment-has-host-podantiaffinity",  # topologySpreadConstraints does so, and lets one node have both
    "pod-probes-identical",  # a webhook that does not answer is neither ready nor alive
)


@pytest.fixture
def every_value(tmp_path: Path) -> Sequence[str]:
    """Return helm's options for values by which each thing of a pod is another one."""
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(EVERYTHING))
    return ("--values", str(path))


def pod_templates(documents: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return metadata and spec of each pod, by the name of its only container."""
    found = {}
    for one in documents:
        if one["kind"] in chart.AS_PROCESSES and one["kind"] not in ("PodDisruptionBudget", "Service"):
            spec = one["spec"].get("jobTemplate", one)["spec"]
            pod = spec.get("template", one)
            (container,) = pod["spec"]["containers"]
            found[str(container["name"])] = pod
    return found


def names_of(documents: Sequence[dict[str, Any]], kind: str) -> set[str]:
    return {one["metadata"]["name"] for one in documents if one["kind"] == kind}


def apply_dry(cluster: Cluster, documents: Sequence[dict[str, Any]], folder: Path) -> Outcome:
    """Have the API server judge documents, of which nothing is kept."""
    path = folder / "documents.yaml"
    ours = [one for one in documents if not one["apiVersion"].startswith(FOREIGN)]
    for pod in (one for one in ours if one["kind"] == "Pod"):
        # Its own account has to be there.
        pod["spec"]["serviceAccountName"] = "default"
    path.write_text(yaml.safe_dump_all(ours))
    return cluster.kubectl("apply", *JUDGE_ONLY, "-f", str(path))


@pytest.fixture(scope="module")
def restricted(cluster: Cluster) -> Iterator[str]:
    """A namespace that warns of each pod that takes more than a web server needs."""
    name = "restricted"
    labels = {f"{POD_SECURITY}warn": "restricted", f"{POD_SECURITY}enforce": "baseline"}
    cluster.api.create(Namespace(metadata=ObjectMeta(name=name, labels=labels)))
    yield name
    cluster.api.delete(Namespace, name)


def test_the_api_server_takes_all(
    cluster: Cluster, every_value: Sequence[str], tmp_path: Path, restricted: str
) -> None:
    """The API server knows each field, and warns of no pods but those that work on the node."""
    for options in ((), (*every_value, *OPENSHIFT), SCHEDULER):
        documents = chart.rendered(namespace=restricted, options=options)
        judged = apply_dry(cluster, documents, tmp_path)
        assert judged.returncode == 0, judged.text
        warnings = [line for line in judged.stderr.splitlines() if line.startswith("Warning: ")]
        assert all("would violate PodSecurity" in line for line in warnings), warnings
        assert len(warnings) == 3, warnings


def test_a_wrong_field_is_refused(cluster: Cluster, tmp_path: Path, restricted: str) -> None:
    """The check above fails for a word that Kubernetes does not know."""
    documents = chart.rendered(namespace=restricted)
    pod_templates(documents)["admission"]["spec"]["nodeSelectors"] = {}
    judged = apply_dry(cluster, documents, tmp_path)
    assert judged.returncode != 0
    assert ".spec.template.spec.nodeSelectors: field not declared in schema" in judged.stderr


def test_each_pod_takes_the_values(cluster: Cluster, every_value: Sequence[str]) -> None:
    """Each pod has what the values say of all pods and of its part, beside what it needs."""
    pods = pod_templates(chart.rendered(options=every_value))
    assert len(pods) == len(PARTS) + 1  # the installer's are two
    for component, pod in pods.items():
        spec, labels = pod["spec"], pod["metadata"]["labels"]
        selector = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "pool": "gpu", "disk": "fast"}
        assert selector.items() <= spec["nodeSelector"].items()
        assert spec["tolerations"][:2] == [OWN_TAINT, TAINT]
        assert spec["affinity"] == (SPREAD_AGENT if component == "node" else SPREAD)
        assert spec["priorityClassName"] == "system-cluster-critical"
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["securityContext"] == {"supplementalGroups": [7]}
        assert {"mesh/inject": "false", "team": "own"}.items() <= pod["metadata"]["annotations"].items()
        assert (labels["cost"], labels["app.kubernetes.io/component"]) == ("gpu", component)
        assert labels["app.kubernetes.io/name"] == "own"
        assert spec["serviceAccountName"].startswith("slices-")
    assert AGENT_LABELS.items() <= pods["node"]["metadata"]["labels"].items()


def test_two_images_of_one_registry(cluster: Cluster, every_value: Sequence[str]) -> None:
    """One value leads all pods to another registry, and there is no third image to mirror."""
    pods = pod_templates(chart.rendered(options=every_value))
    images = {pod["spec"]["containers"][0]["image"] for pod in pods.values()}
    begin = "registry.example:5000/gpu/opencgpu"
    assert images == {f"{begin}-kubernetes:0.1.0", f"{begin}-node:0.1.0"}


def test_the_manifest_without_helm(cluster: Cluster) -> None:
    """Its pods are the chart's: probes, rights, resources and nodes, and no variable has another value."""
    path = chart.CHART.parent / "node-installer.yaml"
    charts = pod_templates(chart.rendered())
    for component, pod in pod_templates(list(yaml.safe_load_all(path.read_text()))).items():
        spec, expected = pod["spec"], charts[component]["spec"]
        (container,), (model,) = spec["containers"], expected["containers"]
        variables = model.pop("env")
        assert [one for one in container.pop("env", []) if one not in variables] == []
        del expected["serviceAccountName"], model["imagePullPolicy"]
        assert spec == expected


def test_a_scheduler_of_its_own(cluster: Cluster) -> None:
    """The scheduler is Kubernetes' own image, by default in the cluster's version; admission names it."""
    values = ("scheduler.enabled=true", "registry=registry.example")
    for more, image in (
        (("--kube-version", "v1.36.2-gke.1"), "registry.k8s.io/kube-scheduler:v1.36.2"),
        (("--set", "scheduler.image.registry=r,scheduler.image.tag=v1"), "r/kube-scheduler:v1"),
    ):
        pods = pod_templates(chart.rendered(*values, options=more))
        assert pods["scheduler"]["spec"]["containers"][0]["image"] == image
        assert "--scheduler=cgpu-scheduler" in pods["admission"]["spec"]["containers"][0]["args"]
    assert "scheduler" not in pod_templates(chart.rendered())
    (configured,) = [one for one in chart.rendered(*values) if "scheduler.yaml" in one.get("data", ())]
    (profile,) = yaml.safe_load(configured["data"]["scheduler.yaml"])["profiles"]
    assert set(profile["pluginConfig"][0]["args"]["ignoredResources"]) == KEPT


def test_names(cluster: Cluster, every_value: Sequence[str]) -> None:
    """No object but those that a cluster has once keeps its name, and each account is that of a pod."""
    own, other = (
        {(one["kind"], one["metadata"]["name"]) for one in documents}
        for documents in (chart.rendered(), chart.rendered(options=every_value))
    )
    kept = {("DeviceClass", "gpu.opencgpu.io"), ("RuntimeClass", "cgpu"), ("Pod", "opencgpu-slice")}
    assert own & other == kept
    documents = chart.rendered()
    used = {pod["spec"]["serviceAccountName"] for pod in pod_templates(documents).values()}
    assert names_of(documents, "ServiceAccount") == used


def test_an_account_of_ones_own(cluster: Cluster) -> None:
    """An account that the user has made is used, bound, and known to the agents' policy."""
    values = ("node.serviceAccount.create=false", "node.serviceAccount.name=mine")
    documents = chart.rendered(*values)
    assert pod_templates(documents)["node"]["spec"]["serviceAccountName"] == "mine"
    bound = [one for one in documents if one["kind"] == "ClusterRoleBinding"]
    assert "mine" in {one["subjects"][0]["name"] for one in bound}
    assert "system:serviceaccount:opencgpu:mine" in yaml.safe_dump(documents)
    assert "cgpu-node" not in {
        one["metadata"]["name"] for one in documents if one["kind"] == "ServiceAccount"
    }


@pytest.mark.parametrize("arch", ["arm64", ""])
def test_images_of_another_architecture(cluster: Cluster, arch: str) -> None:
    """Webhook and jobs come to machines of their image's architecture, or to all if it is of several."""
    for name, pod in pod_templates(chart.rendered(f"image.arch={arch}")).items():
        of_installer = name in ("node-installer", "node-remover")
        found = pod["spec"]["nodeSelector"].get("kubernetes.io/arch", "")
        assert found == ("amd64" if of_installer else arch)


def test_openshift(cluster: Cluster) -> None:
    """The pods of nodes may use its constraint `privileged`; the others leave their user to it."""
    documents = chart.rendered(options=OPENSHIFT)
    (role,) = [one for one in documents if one["kind"] == "RoleBinding"]
    assert [one["name"] for one in role["subjects"]] == ["cgpu-node", "cgpu-installer"]
    users = {name for name, pod in pod_templates(documents).items() if "runAsUser" in str(pod)}
    assert users == {"node"}


# Words that YAML reads as no text, or as more than one.
WORDS = (
    "123",
    "0x10",
    "1:30",
    "null",
    "2001-01-01",
    "a: b",
    "a\nb: c",
    "{{ .Values }}",
    '"',
    "- x",
    "#x",
    "[x",
)
NAMES = ("fullnameOverride", "nameOverride", "priorityClassName", "node.serviceAccount.name")
IMAGES = ("registry", "image.repository", "image.tag", "image.arch", "installer.image.tag")
PLACES = {
    "node.kubelet": "/",
    "installer.folder": "/",
    "templates.schedule": "* * * * ",
    "admission.clientAuthority": "-----BEGIN CERTIFICATE-----\n",
}
ALL_OBJECTS = (
    "namespace.create=true", "metrics.podMonitor=true", "metrics.rules=true", "metrics.dashboard=true",
    # Its certificates are the same in each rendering.
    "admission.certManager.enabled=true",
)  # fmt: skip


def with_word(documents: object, placeholder: str, word: str) -> object:
    """Return documents with a word in a placeholder's place, in keys too."""
    if isinstance(documents, dict):
        return {
            key.replace(placeholder, word): with_word(one, placeholder, word)
            for key, one in documents.items()
        }
    if isinstance(documents, list):
        return [with_word(one, placeholder, word) for one in documents]
    return documents.replace(placeholder, word) if isinstance(documents, str) else documents


@pytest.mark.parametrize("place", [
    *NAMES, *IMAGES, *PLACES, "installer.simulate", "installer.runtimes", "podLabels.x", "podAnnotations.x",
    "metrics.labels.x", "admission.certManager.issuer.name", "imagePullSecrets[0].name",
])  # fmt: skip
def test_words_stay_words(cluster: Cluster, place: str) -> None:
    """A value is refused by the schema, or stands in the objects as it is and changes nothing else."""

    def render(word: str) -> list[str]:
        sets = [option for value in ALL_OBJECTS for option in ("--set", value)]
        given = json.dumps(PLACES.get(place, "") + word)
        return [
            "helm",
            "template",
            "opencgpu",
            str(chart.CHART),
            *sets,
            *OPENSHIFT,
            "--set-json",
            f"{place}={given}",
        ]

    usual = list(yaml.safe_load_all(call(render("zqx")).stdout))
    assert len(usual) > 30
    for word in WORDS:
        done = call(render(word))
        refused = "values don't meet the specifications of the schema" in done.text
        assert (done.returncode != 0) == refused, done.text
        assert refused or list(yaml.safe_load_all(done.stdout)) == with_word(usual, "zqx", word)


def test_a_release_with_a_number_for_a_name(cluster: Cluster) -> None:
    """A release, or a namespace, whose name YAML would read as a number is named by texts."""
    options = ["--api-versions", OPENSHIFT[1], *(o for value in ALL_OBJECTS for o in ("--set", value))]
    texts = [
        call(["helm", "template", name, chart.CHART, "--namespace", space, *options]).stdout
        for name, space in (("zqx", "zqy"), ("123", "0x10"))
    ]
    usual, found = (list(yaml.safe_load_all(text)) for text in texts)
    assert len(usual) > 30
    assert found == with_word(with_word(usual, "zqx", "123"), "zqy", "0x10")


@pytest.mark.parametrize("value", ["tags=a", "node.tag=a", "admission.tolerationz=a", "test.image.arch=a",
                                   "installer.image.pullSecret=a", "registry=a/", "nameOverride=A_b",
                                   "scheduler.image.pullPolicy=Never",
                                   "templates.serviceAccount.automount=true", "node.kubelet=/a/../b",
                                   "node.kubelet=null", "image.pullPolicy=null", "admission.replicas=null",
                                   "admission.replicas=1000000", "installer.image=null"])  # fmt: skip
def test_unknown_values_are_refused(cluster: Cluster, value: str) -> None:
    """A word that the chart does not know is refused by its schema, and the lack of one that it needs."""
    done = call(["helm", "template", "opencgpu", chart.CHART, "--set", value])
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.text


def test_a_namespace_that_refuses(cluster: Cluster, restricted: str) -> None:
    """Helm names the label of a namespace in which no agent could start, and installs nothing."""
    access = {"KUBECONFIG": str(cluster.credentials.path("admin"))}
    done = call(["helm", "install", "opencgpu", chart.CHART, "--namespace", restricted], access)
    assert done.returncode != 0
    cure = f"kubectl label namespace {restricted} {POD_SECURITY}enforce=privileged --overwrite"
    assert f"enforce=baseline refuses the pods of nodes; run: {cure}" in done.text


def test_linters(cluster: Cluster, tmp_path: Path) -> None:
    """Helm finds nothing, and kube-score nothing but that the node's installer is privileged."""
    done = call(["helm", "lint", "--strict", "--quiet", chart.CHART])
    assert done.returncode == 0, done.text
    path = tmp_path / "documents.yaml"
    path.write_text(yaml.safe_dump_all(chart.rendered(options=SCHEDULER)))
    options = [f"--ignore-test={name}" for name in IGNORED]
    # A limit of processor time slows a pod on an idle machine.
    score = ["kube-score", "score", "--output-format=ci", "--ignore-container-cpu-limit", *options, str(path)]
    found = [line for line in call(score).stdout.splitlines() if line.startswith("[CRITICAL]")]
    assert all(line.endswith("The container is privileged") for line in found), found
    assert [line.split()[1].split("/")[0] for line in found] == ["cgpu-node-installer", "cgpu-node-remover"]
