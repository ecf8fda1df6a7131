# SPDX-License-Identifier: Apache-2.0
"""Names that stay beside a claim for quotas to count, and quotas that count what does not stay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from lightkube import Client

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission.asked import KEPT
from cgpu.kubernetes.admission.quotas import refuse_uncounted
from cgpu.kubernetes.admission.rewrite import DEFAULTS, Settings, rewrite
from tests.kubernetes.admission.published import Published
from tests.kubernetes.admission.test_review import POD, FewTemplates, judged, request
from tests.kubernetes.admission.test_rewrite import container, patched, pod

CARDS = Published(15360)
KEEPS = Settings(keeps_names=True)
ACK = {"aliyun.com/gpu-mem": 3, "aliyun.com/gpu-core.percentage": 30}
HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/priority": 1}


def resources_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["containers"][0]["resources"]
    return found


def rewritten(document: dict[str, Any], settings: Settings) -> dict[str, Any]:
    return patched(document, rewrite(document, CARDS, settings).patch)


def test_names_that_stay() -> None:
    """All stay but those that mean a whole GPU to NVIDIA's plugin, or nothing."""
    found = resources_of(rewritten(pod([container(limits=ACK, requests=ACK)]), KEEPS))
    assert found == {"limits": ACK, "requests": ACK, "claims": [{"name": "opencgpu-main"}]}
    assert resources_of(rewritten(pod([container(limits=HAMI)]), KEEPS))["limits"] == {
        "nvidia.com/gpumem": 3000
    }


@pytest.mark.parametrize("settings", [KEEPS, DEFAULTS], ids=["kept", "not kept"])
def test_a_limit_range_puts_names_back(settings: Settings) -> None:
    """A second call finds the claim of the first, also where a default of another amount came meanwhile."""
    after = rewritten(pod([container(limits=ACK)]), settings)
    assert rewrite(after, CARDS, settings).patch == []
    resources_of(after)["limits"] = {"cpu": 1, "aliyun.com/gpu-mem": 3 if settings.keeps_names else 2} | (
        {"aliyun.com/gpu-core.percentage": 30} if settings.keeps_names else {}
    )
    again = rewrite(after, CARDS, settings)
    assert again.templates == {}
    kept = set(resources_of(patched(after, again.patch))["limits"])
    assert kept == ({"cpu", *ACK} if settings.keeps_names else {"cpu"})


def test_a_claim_of_another_amount() -> None:
    """Where quotas count the names, they are those of the claim: a smaller amount beside it is refused."""
    after = rewritten(pod([container(limits=ACK)]), KEEPS)
    resources_of(after)["limits"] = {"aliyun.com/gpu-mem": 1}
    with pytest.raises(CgpuError, match="opencgpu-main: this name is needed for a claim"):
        rewrite(after, CARDS, KEEPS)


def test_names_that_no_quota_counts() -> None:
    """They are all names of the system by which a pod asks, or none where they stay, but for NVIDIA's own."""
    hami = pod([container(limits={"nvidia.com/gpumem": 3000})])
    assert rewrite(hami, CARDS).dropped == {name for name in KEPT if name.startswith("nvidia")} | {
        "nvidia.com/gpu"
    }
    assert rewrite(hami, CARDS, KEEPS).dropped == {"nvidia.com/gpu"}
    assert rewrite(pod([container(limits=ACK)]), CARDS, KEEPS).dropped == set()


def quotas(*hard: str) -> Client:
    """Return a client of an API server with a quota of these keys."""
    spec = SimpleNamespace(hard=dict.fromkeys(hard, "4"))
    found = [SimpleNamespace(metadata=SimpleNamespace(name="team"), spec=spec)]
    return cast("Client", SimpleNamespace(list=lambda *_, **__: iter(found)))


def test_quotas_that_count_them() -> None:
    """A quota refuses by the name of a resource, and not by others; one that cannot be read refuses, too."""
    refuse_uncounted(
        quotas("requests.cpu", "pods", "requests.nvidia.com/gpumem"), "a", {"aliyun.com/gpu-mem"}
    )
    with pytest.raises(CgpuError, match=r"ResourceQuota team counts aliyun\.com/gpu-mem, which"):
        refuse_uncounted(quotas("requests.aliyun.com/gpu-mem"), "a", {"aliyun.com/gpu-mem"})

    def fail(*_: object, **__: object) -> None:
        raise httpx2.ConnectError("down")

    with pytest.raises(CgpuError, match="ResourceQuotas: no answer from the API server"):
        refuse_uncounted(cast("Client", SimpleNamespace(list=fail)), "a", {"aliyun.com/gpu-mem"})


def test_a_refused_namespace() -> None:
    """Such a pod is refused before any template is made, a dry run too."""
    templates = FewTemplates()
    for dry in (True, False):
        response = judged(request(POD, namespace="counted", dryRun=dry), templates)
        assert "counts aliyun.com/gpu-mem, which pods in slices" in response["status"]["message"]
    assert templates.made == []
