# SPDX-License-Identifier: Apache-2.0
"""One cluster for all tests here, and a namespace of its own for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Event, Namespace, Pod

from tests.integration.commands import eventually
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.settings import Settings
from tests.kubernetes.harness.slices import Slices, with_agent

NUMBERS = itertools.count(1)
SetupPhase = Generator[None, pytest.TestReport, pytest.TestReport]


# Set by scripts/test-kubernetes where it runs what starts a cluster of its own.
BESIDE = "CGPU_KUBERNETES_BESIDE"


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "cluster: needs a cluster, or starts one of its own; given to a test by its fixtures",
        "without_gates: needs a cluster whose feature gates are off; left out on another",
        "fails_on(version, reason, run=True): of Kubernetes, by its own fault; the test has to fail there",
    ):
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a cluster where there is none, or another one, or is not to be in one."""
    settings = Settings.of_environment()
    missing = {"beside_a_cluster"} if BESIDE not in os.environ else set()
    missing |= {"cluster"} if settings is None else set()
    left_out = []
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if Path(__file__).parent in item.path.parents and names & {"cluster", "beside_a_cluster"}:
            item.add_marker(pytest.mark.root)
            item.add_marker(pytest.mark.cluster)
            features_on = item.get_closest_marker("without_gates") is None
            other = "cluster" in names and settings is not None and features_on != settings.features_on
            left_out += [item] if names & missing or other else []
            expect_faults(item, settings)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def expect_faults(item: pytest.Item, settings: Settings | None) -> None:
    """Have a test fail where a version of Kubernetes has a fault of its own, or not run if it takes long."""
    for mark in item.iter_markers("fails_on"):
        if settings is not None and mark.args[0] == settings.version:
            item.add_marker(pytest.mark.xfail(reason=mark.args[1], strict=True, **mark.kwargs))


@pytest.fixture
def beside_a_cluster() -> None:
    """For what starts a cluster of its own, with the programs that scripts/test-kubernetes has built."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = Settings.of_environment()
    assert settings is not None
    made = Cluster(settings, tmp_path_factory.mktemp("cluster"))
    try:
        made.begin()
        yield made
    finally:
        made.end()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace for one test, whose pods and processes of its own end with the test."""
    name = f"test-{next(NUMBERS)}"
    cluster.api.create(Namespace(metadata=ObjectMeta(name=name)))
    eventually(lambda: cluster.is_complete(name), f"{name} has what pods need")
    yield name
    cluster.end_extra()
    cluster.api.deletecollection(Pod, namespace=name)
    eventually(lambda: not list(cluster.api.list(Pod, namespace=name)), f"the pods of {name} are gone", 60)
    cluster.api.delete(Namespace, name)


@pytest.fixture
def slices(cluster: Cluster, namespace: str) -> Iterator[Slices]:
    with with_agent(cluster, namespace) as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> SetupPhase:
    report = yield
    arguments = getattr(item, "funcargs", {})
    if report.failed and {"cluster", "namespace"} <= set(arguments):
        cluster, namespace = arguments["cluster"], arguments["namespace"]
        try:
            found = list(cluster.api.list(Event, namespace=namespace))
        except Exception as error:  # noqa: BLE001 # the API server may be what failed
            report.sections.append((f"events of {namespace}", str(error)))
        else:
            lines = [f"{one.involvedObject.name}: {one.reason}: {one.message}" for one in found]
            report.sections.append((f"events of {namespace}", "\n".join(lines)))
    return report
