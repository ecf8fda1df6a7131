# SPDX-License-Identifier: Apache-2.0
"""One cluster for all tests here, and a namespace of its own for each."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from lightkube import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Event, Namespace, Pod, ServiceAccount

from tests.integration.commands import eventually
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.settings import Settings

NUMBERS = itertools.count(1)
SetupPhase = Generator[None, pytest.TestReport, pytest.TestReport]


LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "without_gates: needs a cluster whose feature gates are off; left out on another"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a cluster where there is none: scripts/test-kubernetes has one."""
    needs = [item for item in items if "cluster" in getattr(item, "fixturenames", ())]
    here = [item for item in needs if Path(__file__).parent in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.root)
    settings = Settings.of_environment()
    if settings is None:
        config.stash[LEFT_OUT] = len(here)
        leave_out(config, items, here)
    else:
        other = [item for item in here if bool(item.get_closest_marker("without_gates")) == settings.gates]
        leave_out(config, items, other)


def leave_out(config: pytest.Config, items: list[pytest.Item], chosen: list[pytest.Item]) -> None:
    if chosen:
        config.hook.pytest_deselected(items=chosen)
        items[:] = [item for item in items if item not in chosen]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out."""
    number = config.stash.get(LEFT_OUT, 0)
    if number:
        terminalreporter.write_line(
            f"tests/kubernetes: {number} tests need a cluster and were left out; run: make test-kubernetes"
        )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running cluster."""
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
    eventually(lambda: is_complete(cluster, name), f"{name} has what pods need")
    yield name
    cluster.end_extra()
    cluster.api.deletecollection(Pod, namespace=name)
    eventually(lambda: not list(cluster.api.list(Pod, namespace=name)), f"the pods of {name} are gone", 60)
    cluster.api.delete(Namespace, name)


def is_complete(cluster: Cluster, namespace: str) -> bool:
    """Say whether the controllers have made what each pod is given."""
    try:
        cluster.api.get(ServiceAccount, "default", namespace=namespace)
        cluster.api.get(ConfigMap, "kube-root-ca.crt", namespace=namespace)
    except ApiError:
        return False
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> SetupPhase:
    """Show the events of a failed test's namespace."""
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
