# SPDX-License-Identifier: Apache-2.0
"""Templates on an API server: their number, and their cost there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx2
import pytest
from lightkube import ApiError, Client
from lightkube.resources.core_v1 import Pod, ResourceQuota
from lightkube.resources.resource_v1 import ResourceClaimTemplate, ResourceSlice

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission import review
from cgpu.kubernetes.admission.collect import parser
from cgpu.kubernetes.admission.rewrite import Settings
from cgpu.kubernetes.admission.shape import Shape, template
from cgpu.kubernetes.admission.templates import FORMAT, LAST_USED, Templates

SPECS = (template(Shape(1024), ()), template(Shape(None, percent=50), (15360, 23552)))


class FakeClient:
    """An API server that keeps the amounts of claims."""

    def __init__(self) -> None:
        self.kept: dict[str, ResourceClaimTemplate] = {}
        self.pods: list[Pod] = []
        self.tried = self.listed = 0
        self._lock = threading.Lock()

    @property
    def made(self) -> list[str]:
        return list(self.kept)

    def get(self, _kind: object, name: str, *, namespace: str) -> ResourceClaimTemplate:
        if name not in self.kept:
            status = {"code": 404, "message": f"{namespace}/{name} not found"}
            raise ApiError(
                response=httpx2.Response(404, json=status, request=httpx2.Request("GET", "http://a"))
            )
        return self.kept[name]

    def list(
        self, kind: type[Pod | ResourceClaimTemplate | ResourceSlice | ResourceQuota], **_: object
    ) -> Iterator[Any]:
        with self._lock:
            self.listed += kind is ResourceClaimTemplate
            return iter(
                {Pod: self.pods, ResourceSlice: [], ResourceQuota: []}.get(kind, [*self.kept.values()])
            )

    def create(self, wanted: ResourceClaimTemplate, *, dry_run: bool = False) -> ResourceClaimTemplate:
        kept = wanted.to_dict()
        self.tried += dry_run
        if not dry_run:
            with self._lock:
                self.kept[kept["metadata"]["name"]] = wanted
        return cast("ResourceClaimTemplate", ResourceClaimTemplate.from_dict(kept))

    def removed(self, request: httpx2.Request) -> httpx2.Response:
        del self.kept[request.url.path.rpartition("/")[2]]
        return httpx2.Response(200)


def templates(client: FakeClient, now: datetime | None = None, most: int = 64) -> Templates:
    http = httpx2.Client(base_url="http://api", transport=httpx2.MockTransport(client.removed))
    return Templates(cast("Client", client), http, lambda: now or datetime.now(UTC), most=most)


def asked(number: int, containers: int = 64) -> dict[str, Any]:
    """Return what the API server asks about a pod whose containers all want something else."""
    listed = [
        {"name": f"c{one}", "resources": {"limits": {"nvidia.com/gpumem": str(number * 64 + one + 1)}}}
        for one in range(containers)
    ]
    pod = {"spec": {"containers": listed}}
    return {"kind": review.POD, "operation": "CREATE", "namespace": "kube-system", "object": pod}


def refusals(found: Templates, numbers: range) -> int:
    def judge(number: int) -> bool:
        try:
            review.pods(asked(number), found, Settings())
        except CgpuError as error:
            return "namespace kube-system has templates of 100 shapes" in str(error)
        return False

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(judge, numbers))


def test_a_flood_of_shapes() -> None:
    """However many shapes are asked for at once, a namespace has its number of templates, and those serve on.

    A refusal does not cost the API server a list each time.
    """
    client = FakeClient()
    found = templates(client, most=100)
    assert refusals(found, range(300)) >= 298
    assert len(client.made) == 100
    assert client.listed < 200
    (first,) = review.pods(asked(0, 1), templates(FakeClient()), Settings()).templates
    if first in client.made:
        review.pods(asked(0, 1), found, Settings())


def test_a_full_namespace_is_tidied_early() -> None:
    """Beyond half of its number unused templates go after two hours, and not before; used ones stay.

    So does one whose date was set to come: no pod was given that then.
    """
    client = FakeClient()
    made = datetime(2026, 1, 1, tzinfo=UTC)
    review.pods(asked(0), templates(client, made), Settings())
    used, odd, *_ = client.made
    entry = {"name": "gpu", "resourceClaimTemplateName": used}
    pod = {"metadata": {"namespace": "kube-system"}, "spec": {"containers": [], "resourceClaims": [entry]}}
    client.pods = [cast("Pod", Pod.from_dict(pod))]
    metadata = client.kept[odd].metadata
    assert metadata is not None
    metadata.annotations = {LAST_USED: (made + timedelta(days=9)).strftime(FORMAT)}
    for hours, most, left in ((1, 100, 63), (3, 200, 63), (3, 100, 1)):
        later = templates(client, made + timedelta(hours=hours), most)
        list(later.collect(timedelta(hours=24)))
        assert len(client.made) == left
    assert client.made == [used]


@pytest.mark.parametrize("spec", SPECS)
def test_a_cluster_that_can_is_asked_once(spec: dict[str, object]) -> None:
    """One trial is enough: later templates cost one call."""
    client = FakeClient()
    found = templates(client)
    for name in ("opencgpu-1", "opencgpu-2"):
        found.ensure("team", name, spec)
    assert (client.made, client.tried) == (["opencgpu-1", "opencgpu-2"], 1)


def test_hours() -> None:
    """As long as a template's mark may be old while a pod that was given it is on its way, it stays."""
    assert parser().parse_args([]).hours == 24
    assert parser().parse_args(["--hours", "2"]).hours == 2


@pytest.mark.parametrize("text", ["0", "1.9", "-3", "nan", "inf", "1e9", "two"])
def test_hours_that_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Less is refused with one line that says why."""
    with pytest.raises(SystemExit):
        parser().parse_args(["--hours", text])
    assert f"--hours: {text}: expected 2 to 87600: a template that" in capsys.readouterr().err
