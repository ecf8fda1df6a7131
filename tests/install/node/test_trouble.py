# SPDX-License-Identifier: Apache-2.0
"""Which containers the event log shows to be in trouble, and the command that helps each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cgpu.events.event import Event
from cgpu.install.node.trouble import Row, Trouble, find, judge
from tests.daemon.harness import long_id

WEB, POD = long_id(1), long_id(2)
RUNS = f"/docker/{WEB} /kubepods/{POD}"
EXITED = {WEB: Row("docker", "web", ended=True)}


def troubles(*kinds: str, rows: dict[str, Row], cgroups: str = "", pod: str = "") -> tuple[Trouble, ...]:
    """Return the trouble of a container with these events, in their order."""
    begin = datetime.now(UTC)
    events = [
        Event(
            begin + timedelta(seconds=n),
            kind,
            id=POD if pod else WEB,
            pod=pod,
            namespace="shop" if pod else "",
        )
        for n, kind in enumerate(kinds)
    ]
    return judge(find(events[::-1], cgroups), rows)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_command_is_that_of_the_engine(engine: str) -> None:
    """A container that has stayed exited is started, and one without its GPU restarted."""
    (one,) = troubles("started", "ended", "refused", rows={WEB: Row(engine, "web", ended=True)})
    assert (one.name, one.fix) == ("web", f"{engine} start web")
    (one,) = troubles("started", "stranded", rows={WEB: Row(engine, "web", ended=False)}, cgroups=RUNS)
    assert one.fix == f"{engine} restart web"


def test_pods() -> None:
    """The kubelet starts another container after a refusal; a pod without its GPU is deleted."""
    assert not troubles("refused", rows={POD: Row("containerd", "", ended=True)}, pod="web-0")
    (one,) = troubles("stranded", rows={}, cgroups=RUNS, pod="web-0")
    assert (one.name, one.fix) == ("shop/web-0", "kubectl delete pod --namespace shop web-0")


def test_a_container_that_no_engine_lists() -> None:
    """It is called by its id, and there is no command for it."""
    (one,) = troubles("stranded", rows={}, cgroups=RUNS)
    assert (one.name, one.fix) == (WEB[:12], "end it, and start it anew")


def test_no_trouble() -> None:
    """A container that runs again, has ended, was never started or was removed needs nothing."""
    assert not troubles("refused", "started", rows=EXITED)
    assert not troubles("stranded", "started", rows=EXITED, cgroups=RUNS)
    assert not troubles("stranded", rows=EXITED)
    assert not troubles("refused", rows={WEB: Row("docker", "web", ended=False)})
    assert not troubles("refused", rows={})
