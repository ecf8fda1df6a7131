# SPDX-License-Identifier: Apache-2.0
"""Which containers the event log shows to be in trouble, and the command that helps each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.events.append import append
from cgpu.events.event import Event
from cgpu.hook.event_log import named
from cgpu.install.node import trouble
from cgpu.install.node.trouble import Row, Trouble, find, judge
from tests.daemon.harness import long_id

WEB, POD = long_id(1), long_id(2)
RUNS = (f"/docker/{WEB}", f"/kubepods/{POD}")
EXITED = {WEB: Row("docker", "web", ended=True)}


def troubles(
    *kinds: str, rows: dict[str, Row], cgroups: tuple[str, ...] = (), pod: str = ""
) -> tuple[Trouble, ...]:
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


def of_log(log: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Trouble:
    """Return the trouble of a container of a pod that hook and cgpud have logged as stranded."""
    monkeypatch.setattr(paths, "EVENTS", str(log))
    monkeypatch.setattr(paths, "KERNEL_LOG", str(log / "none"))
    monkeypatch.setattr(trouble, "list_containers", dict)
    keys = ("namespace", "name")
    named(POD, "/run", {f"io.kubernetes.pod.{key}": name for key, name in zip(keys, names, strict=True)})
    for kind in ("started", "stranded"):
        append(kind, {"id": POD, "message": "it runs on"}, str(log))
    (one,) = trouble.gather(RUNS)
    return one


def test_a_pod_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's line has no names: they stand in the hook's."""
    one = of_log(tmp_path / "log", monkeypatch, "shop", "web-0")
    assert (one.name, one.fix) == ("shop/web-0", "kubectl delete pod --namespace shop web-0")


@pytest.mark.parametrize("name", ["--all", "web; reboot", "$(reboot)", "a\nb", "web`reboot`", "-f"])
def test_names_that_a_tenant_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """No word of an annotation comes into a command that is no name."""
    assert of_log(tmp_path / "log", monkeypatch, "shop", name).fix == "end it, and start it anew"


def test_ids_that_are_parts_of_others() -> None:
    """A cgroup is of the container whose whole id it has, with a runtime's words around it or without."""
    begin = Event(datetime.now(UTC), "stranded", id="web")
    assert not find([begin], ["/kubepods/web-0", "/docker/webserver", "/website.slice/a"])
    assert find([begin], ["/a/cri-containerd-web.scope/init"])
    assert find([begin], ["/a/web"])


def test_a_container_that_no_engine_lists() -> None:
    """A container without a name is called by its id, and no command is given for it."""
    (one,) = troubles("stranded", rows={}, cgroups=RUNS)
    assert (one.name, one.fix) == (WEB[:12], "end it, and start it anew")


def test_no_trouble() -> None:
    """A container that runs again, has ended, was never started or was removed needs nothing."""
    assert not troubles("refused", "started", rows=EXITED)
    assert not troubles("stranded", "started", rows=EXITED, cgroups=RUNS)
    assert not troubles("stranded", rows=EXITED)
    assert not troubles("refused", rows={WEB: Row("docker", "web", ended=False)})
    assert not troubles("refused", rows={})
