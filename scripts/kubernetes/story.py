# SPDX-License-Identifier: Apache-2.0
"""Pods share a simulated Tesla T4: two run, a third waits with the reason, and goes on when one ends.

Run by scripts/kubernetes/in-cluster; with the word `before` it shows what needs no Kubernetes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx2
import yaml
from lightkube import ApiError

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission.rewrite import rewrite
from scripts.demo import cause, indent, say
from tests.integration.commands import Outcome, eventually, must
from tests.integration.engine import SMI, TREE, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.kubernetes.admission.published import Published
from tests.kubernetes.harness.chart import with_admission
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.node import PROBE_IMAGE
from tests.kubernetes.harness.settings import Settings
from tests.kubernetes.harness.slices import with_agent

MIB = 1 << 20
CARD = "T4"
GIB = 6
OF_CARD = 6043  # MiB of a T4's 15109 that 6 of its 15 GiB are
NAMESPACE = "default"
WAIT_S = 110

INTRODUCTION = """\
  Real:       etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl, containerd,
              runc; of OpenCGPU the engine, the runtime, the node's agent, the webhook, the chart's objects.
  Simulated:  the GPU, a Tesla T4 in software.
  Not as in a cluster of yours: agent and webhook run as processes of this machine, not from images, and
  there is one node."""


class Story:
    """The demo's steps. Raises AssertionError when the cluster does not do what the text says."""

    def __init__(self, cluster: Cluster) -> None:
        """Use a cluster with agent and webhook."""
        self.cluster = cluster

    def kubectl(self, *words: str, quiet: bool = False) -> Outcome:
        """Run kubectl as a user types it. quiet: show the command alone."""
        print(f"$ kubectl {' '.join(words)}", flush=True)
        done = self.cluster.kubectl(*words)
        assert done.returncode == 0, done.text
        if not quiet:
            print(indent(done.stdout), flush=True)
        return done

    def inspect(self, given: str, *words: str) -> None:
        """Show what is given out of the card, which is so much of 15."""
        shown = self.kubectl("inspect", "cgpu", *words).stdout
        assert f"{given}/15 " in shown, shown

    def apply(self, *names: str) -> None:
        """Make pods that ask for a part of the GPU as on Alibaba's clusters."""
        files = []
        for name in names:
            file = self.cluster.folder / f"{name}.yaml"
            file.write_text(yaml.safe_dump(manifest(name), sort_keys=False))
            files.append(file)
        self.show(["apply", *(word for file in files for word in ("-f", str(file)))])

    def show(self, words: Sequence[str]) -> None:
        """Run kubectl on files, which are named without their folder."""
        print(f"$ kubectl {' '.join(Path(word).name for word in words)}", flush=True)
        done = self.cluster.kubectl(*words)
        assert done.returncode == 0, done.text
        print(indent(done.stdout), flush=True)

    def ready(self, *names: str) -> None:
        """Wait until pods run; show why where they do not."""
        pods = [f"pod/{name}" for name in names]
        try:
            self.kubectl("wait", "--for=condition=Ready", f"--timeout={WAIT_S}s", *pods, quiet=True)
        except AssertionError:
            for name in names:
                print(self.cluster.kubectl("describe", "pod", name).text)
            raise
        self.kubectl("get", "pods")

    def begin(self) -> None:
        """Show the node and its card."""
        say("The node, and what it offers")
        self.kubectl("get", "nodes")
        self.kubectl("get", "resourceslices")
        self.inspect("0")

    def share(self) -> None:
        """Let two pods share the card."""
        say(f"Two pods ask for {GIB} GiB of a GPU each, in the words of Alibaba's clusters")
        print("$ cat first.yaml")
        print(indent(yaml.safe_dump(manifest("first"), sort_keys=False)))
        self.apply("first", "second")
        self.ready("first", "second")
        self.inspect(str(2 * GIB))

    def inside(self) -> None:
        """Show what a program in the first pod sees and gets."""
        say("What a program in the first pod sees, and what happens beyond the slice")
        done = self.kubectl(
            "exec", "first", "--", "/cgpu-probe", "info", "expect=0x51", "alloc=6G", quiet=True
        )
        total = step(done, "info").number("total")
        assert total == OF_CARD * MIB
        assert step(done, "alloc").number("status") == NO_MEMORY
        print(f"  size of the card:  {total // MIB} MiB (the card has 15109)")
        print("  6 GiB asked for:   refused, the driver says out of memory (0x51)")

    def wait(self) -> None:
        """Show that a third pod waits, and why."""
        say("A third pod of the same size does not fit: Kubernetes lets it wait, and says why")
        self.apply("third")
        reason = "cannot allocate all claims"
        eventually(
            lambda: any(reason in event for event in self.cluster.events("third", NAMESPACE)),
            f"the events of the third pod say: {reason}",
            WAIT_S,
        )
        shown = self.kubectl("get", "pods").stdout
        assert [line for line in shown.splitlines() if line.split()[0] == "third" and "Pending" in line]
        shown = self.kubectl("events", "--for", "pod/third", "--types", "Warning").stdout
        assert reason in shown
        self.inspect(str(2 * GIB), "--details")

    def go_on(self) -> None:
        """End the first pod; the third one runs."""
        say("The first pod ends: the third one goes on by itself")
        self.kubectl("delete", "pod", "first")
        self.ready("third")
        self.inspect(str(2 * GIB), "--details")

    def end(self) -> None:
        """End all pods; nothing is given out, and the engine has no container."""
        say("All pods end: everything is given back")
        self.kubectl("delete", "pod", "second", "third")
        eventually(
            lambda: "0/15 (0%)" in self.cluster.kubectl("inspect", "cgpu").stdout, "all is free", WAIT_S
        )
        self.inspect("0")
        free = TREE / "0/memfree"
        print(f"$ cat {free}")
        eventually(lambda: int(free.read_text()) == 15109 * MIB, "the engine has no container", WAIT_S)
        print(
            indent(
                f"{free.read_text().strip()}, which is {int(free.read_text()) // MIB} MiB: all of the card"
            )
        )


def manifest(name: str) -> dict[str, object]:
    """Return a pod that asks for a part of a GPU, and takes memory of it."""
    container = {
        "name": "main",
        "image": PROBE_IMAGE,
        "command": ["/cgpu-probe", "alloc=1G", "hold=3600"],
        "resources": {"limits": {"aliyun.com/gpu-mem": GIB}},
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def introduce(settings: Settings) -> None:
    """Say what is real here and what is not."""
    say(f"A cluster of one node, Kubernetes {settings.version}, beside everything else on this machine")
    print(INTRODUCTION)


def tell(settings: Settings) -> None:
    """Run the story from the cluster's start to its end."""
    settings.logs.mkdir()
    folder = settings.logs / "cluster"
    folder.mkdir()
    introduce(settings)
    cluster = Cluster(settings, folder, CARD)
    try:
        cluster.begin()
        eventually(lambda: cluster.is_complete(NAMESPACE), f"{NAMESPACE} has what pods need", WAIT_S)
        with with_agent(cluster, NAMESPACE), with_admission(cluster):
            story = Story(cluster)
            story.begin()
            story.share()
            story.inside()
            story.wait()
            story.go_on()
            story.end()
    finally:
        cluster.end()
    print("\nDone. Nothing of the cluster is left.")


def tell_before(settings: Settings) -> None:
    """Show what needs no Kubernetes: a node's engine, and what the webhook makes of a pod."""
    settings.logs.mkdir()
    engine = Engine(CARD, {}, settings.logs)
    say("The engine of a node, with one simulated Tesla T4 of 15109 MiB")
    print(f"$ cgpud --simulate {CARD}")
    engine.start()
    try:
        print("$ cgpu-smi")
        print(indent(must([SMI]).stdout), flush=True)
    finally:
        engine.stop()
    say("What the webhook makes of a pod in the words of Alibaba's clusters: it has a template of a claim")
    print(indent(yaml.safe_dump(manifest("first")["spec"], sort_keys=False)))
    for template in rewrite(manifest("first"), Published()).templates.values():
        print(indent(yaml.safe_dump(template, sort_keys=False)), flush=True)


def main() -> None:
    """Run the demo in the namespaces that scripts/kubernetes/in-cluster has made."""
    settings = Settings.of_environment()
    if settings is None:
        sys.exit("demo-kubernetes: no namespaces for a cluster: run make demo-kubernetes")
    try:
        (tell_before if sys.argv[1:] == ["before"] else tell)(settings)
    except (
        AssertionError,
        ApiError,
        CgpuError,
        OSError,
        httpx2.HTTPError,
        subprocess.SubprocessError,
    ) as error:
        sys.exit(f"demo-kubernetes: {cause(error)}")


if __name__ == "__main__":
    main()
