# SPDX-License-Identifier: Apache-2.0
"""Runs each check on a machine that is sound but for one fact."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cgpu import distribution
from cgpu.client.witness import meaning
from cgpu.config import effective
from cgpu.config.effective import Effective
from cgpu.install.checks import (
    DesiredState,
    configuration,
    engine,
    kernel,
    module,
    places,
    preflight,
    publisher,
    runtime,
    settings,
)
from cgpu.install.checks.configuration import CLOSE, closed
from cgpu.install.checks.finding import Finding
from cgpu.install.node.facts.settings import Entry
from cgpu.install.node.report import NodeReport
from cgpu.install.node.snapshot import Card, Slice, Snapshot
from cgpu.install.places import PUBLISHER, PUBLISHER_STARTS
from cgpu.kmod.abi.rows.files import Row, Rows
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER, LOW_LEVEL
from tests.exporter.trees import gpu_line
from tests.install.machine import RELEASE, card, node, node_report, sound, tool, write
from tests.integration.commands import must

MODULE, DAEMON = DesiredState("module", ("docker",)), DesiredState("daemon", ("docker",))


def faults(found: list[Finding]) -> set[tuple[str, str]]:
    """Return the name and verdict of each warning and problem."""
    return {(one.name, one.verdict) for one in found if one.verdict in ("warning", "problem")}


def only_verdict(found: list[Finding]) -> str:
    """Return the verdict of the only finding, which has a fix exactly when it is a warning or problem."""
    (one,) = found
    assert bool(one.fix) == (one.verdict in ("warning", "problem")), one
    return one.verdict


@pytest.mark.parametrize("desired", [MODULE, DAEMON])
def test_sound_machine(tmp_path: Path, desired: DesiredState) -> None:
    """A sound machine gives neither engine a warning or a problem."""
    assert faults(preflight(node(tmp_path), desired)) == set()


@pytest.mark.parametrize(
    ("desired", "changed", "name", "expected"),
    [
        (DAEMON, {"kernel": {"machine": "aarch64"}}, "machine", "problem"),
        (DAEMON, {"kernel": {"release": "5.4.0"}}, "kernel", "problem"),
        (MODULE, {"kernel": {"release": "5.15.0"}}, "kernel", "problem"),
        (DAEMON, {"kernel": {"cgroups": None}}, "cgroups", "problem"),
        (MODULE, {"kernel": {"loads_modules": False}}, "kernel-modules", "problem"),
        (MODULE, {"kernel": {"modules_disabled": True}}, "kernel-modules", "problem"),
        (MODULE, {"kernel": {"headers": None}}, "kernel-headers", "problem"),
        (MODULE, {"kernel": {"secure_boot": True}}, "module-signature", "problem"),
        (MODULE, {"kernel": {"enforces_signatures": True}}, "module-signature", "problem"),
        (MODULE, {"kernel": {"lockdown": "confidentiality"}}, "module-signature", "problem"),
        (
            MODULE,
            {"kernel": {"secure_boot": True, "signing_key": Path("/k"), "key_enrolled": False}},
            "module-signature",
            "problem",
        ),
        (MODULE, {"kernel": {"secure_boot": True, "signing_key": Path("/k")}}, "module-signature", "warning"),
        (MODULE, {"kernel": {"kprobes": False}}, "kernel-probes", "problem"),
        (MODULE, {"kernel": {"ftrace": False}}, "kernel-probes", "problem"),
        (MODULE, {"kernel": {"options": frozenset()}}, "kernel-probes", "problem"),
        (MODULE, {"software": {"dkms": None}}, "dkms", "problem"),
        (MODULE, {"ours": {"engine": "cgpud"}}, "one-engine", "problem"),
        (DAEMON, {"ours": {"module_loaded": True}}, "one-engine", "problem"),
        (DAEMON, {"kernel": {"seccomp_notify": False}}, "seccomp", "problem"),
        (DAEMON, {"kernel": {"options": frozenset()}}, "kernel-options", "warning"),
        (DAEMON, {"kernel": {"ptrace_scope": 3}}, "ptrace", "problem"),
        (DAEMON, {"kernel": {"fuse": False}}, "fuse", "problem"),
        (DAEMON, {"software": {"fuse": None}}, "fuse", "problem"),
        (DAEMON, {"software": {"systemd": False}}, "systemd", "warning"),
        (DAEMON, {"software": {"systemd_version": 252}}, "systemd", "warning"),
        (DAEMON, {"software": {"low_level": ()}}, "low-level-runtime", "problem"),
        (DAEMON, {"software": {"low_level": (tool("runc", "1.0.3"),)}}, "low-level-runtime", "warning"),
        (DAEMON, {"software": {"engines": ()}}, "container-engines", "problem"),
        (DAEMON, {"driver": {"loaded": None}}, "driver", "problem"),
        (DAEMON, {"driver": {"loaded": None, "installed": False}}, "driver", "warning"),
        (DAEMON, {"driver": {"loaded": "470.57.02", "known": False}}, "driver", "problem"),
        (DAEMON, {"driver": {"loaded": "999.1", "known": False}}, "driver", "warning"),
        (replace(DAEMON, allow_unknown_driver=False), {"driver": {"known": False}}, "driver", "problem"),
        (DAEMON, {"driver": {"uvm": False}}, "driver-uvm", "problem"),
        (DAEMON, {"driver": {"cards": (card(firmware=None),)}}, "driver-gsp", "warning"),
        (DAEMON, {"driver": {"cards": (card(mig=True),)}}, "mig", "problem"),
        (DAEMON, {"driver": {"cards": (card(mig=True), card())}}, "mig", "warning"),
        (DAEMON, {"sharing": {"mps": ("nvidia-cuda-mps-server (process 3)",)}}, "mps", "problem"),
        (DAEMON, {"sharing": {"mps": ("/tmp/nvidia-mps",)}}, "mps", "warning"),
        (DAEMON, {"sharing": {"hami": ("/usr/local/vgpu/libvgpu.so",)}}, "hami", "problem"),
        (DAEMON, {"sharing": {"replicas": ("nvidia.com/gpu",)}}, "time-slicing", "problem"),
        (DAEMON, {"sharing": {"device_plugin": ("nvidia-gpu.sock",)}}, "time-slicing", "warning"),
    ],
)
def test_one_thing_wrong(
    tmp_path: Path, desired: DesiredState, changed: dict[str, Any], name: str, expected: str
) -> None:
    """The check of the wrong fact reports it, and every warning and problem has a fix."""
    found = preflight(node(tmp_path, **changed), desired)
    assert (name, expected) in faults(found)
    assert all(one.fix for one in found if one.verdict in ("warning", "problem"))


def test_a_driver_by_a_signed_file(tmp_path: Path) -> None:
    """A driver that the engine serves by a file is well; wrong files are warnings, each with its line."""
    rows = Rows((Row("999.01", "/etc/cgpu/drivers.d/a.json", "999.01"),), ("b.json: mode", "c.json: key"))
    unknown = {"loaded": "999.01", "known": False, "rows": rows}
    found = preflight(node(tmp_path, driver=unknown), DAEMON)
    (one,) = (one for one in found if one.name == "driver")
    assert (one.verdict, one.text) == ("ok", "NVIDIA 999.01, open, by /etc/cgpu/drivers.d/a.json")
    assert faults(found) == {("driver-rows", "warning")}
    assert [one.text.partition(";")[0] for one in found if one.name == "driver-rows"] == [*rows.problems]
    found = preflight(node(tmp_path, driver=unknown, ours={"provisional": True}), DAEMON)
    assert faults(found) == {("driver", "warning"), ("driver-rows", "warning")}
    assert any("a.json: is not in force" in one.text for one in found)
    found = preflight(node(tmp_path, driver=unknown, ours={"module_loaded": True}), MODULE)
    assert ("driver-rows", "problem") in faults(found)
    assert any("a.json: is not in force: the driver was refused before it" in one.text for one in found)
    in_force = {"module_loaded": True, "by_row": True}
    found = preflight(node(tmp_path, driver=unknown, ours=in_force), MODULE)
    assert ("driver-rows", "problem") not in faults(found)


def test_a_key_for_modules(tmp_path: Path) -> None:
    """The cure for a missing key makes both of its files; no version of dkms is needed for it."""
    found = preflight(node(tmp_path, kernel={"secure_boot": True}), MODULE)
    (fix,) = (one.fix for one in found if one.name == "module-signature")
    made = fix.partition(";")[0].replace(kernel.DKMS_KEY, str(tmp_path / "mok"))
    must(["/bin/sh", "-c", made])
    assert (tmp_path / "mok.key").stat().st_mode & 0o077 == 0
    must(["openssl", "x509", "-inform", "DER", "-in", tmp_path / "mok.pub", "-noout"])


def test_fixes_on_rhel(tmp_path: Path) -> None:
    """Where os-release says that the distribution is like RHEL, each fix names its package by dnf."""
    root = sound(tmp_path)
    (root / "etc/os-release").write_text('ID="rocky"\nID_LIKE="rhel centos fedora"\n')
    software = {"fuse": None, "low_level": (), "dkms": None}
    headers = {"headers": None}
    found = [
        *preflight(node(root, software=software), DAEMON),
        *preflight(node(root, software=software, kernel=headers), MODULE),
    ]
    assert {one.fix for one in found if one.fix} == {
        "dnf install fuse3",
        "dnf install crun",
        "dnf install dkms",
        f"dnf install kernel-devel-{RELEASE}, or: {kernel.BY_DAEMON}",
    }


STORE_PRESERVED = {"ActiveState": "active", "FileDescriptorStorePreserve": "yes"}


def slice_(name: str = "c1", owner: str = "c1 /group/c1", **entries: str) -> Slice:
    return Slice(name, {"owner": owner, "memsize": "1048576", **entries})


def gpu(*slices: Slice, **entries: str) -> Card:
    sound = {"drift": "0", "mig": "0", "sched": "divided_by=gates", "memtotal": "16777216", "max_inst": "20"}
    return Card(0, {**sound, "free_weight": "19", **entries}, slices)


LOST = gpu(stat=gpu_line("GPU-0", lost=1))


def tree(*cards: Card, unreadable: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot({"engine": "cgpud 0.1.0"}, cards or (gpu(),), unreadable)


@pytest.mark.parametrize(
    ("check", "changed", "expected"),
    [
        (engine.running, {}, "ok"),
        (engine.running, {"status_problem": "it does not answer"}, "problem"),
        (engine.versions, {}, "ok"),
        (engine.enforcing, {}, "ok"),
        (engine.driver, {"status": {"driver_error": None}}, "ok"),
        (engine.driver, {"status": {"driver_error": "Xid 79"}}, "problem"),
        (engine.driver, {}, "skipped"),
        (engine.tree, {"snapshot": tree()}, "ok"),
        (engine.tree, {"snapshot": tree(unreadable=("0/policy: cannot be read",))}, "problem"),
        (engine.tree, {"snapshot": Snapshot()}, "problem"),
        (engine.tree, {"tree_problem": "no answer within 10 s"}, "problem"),
        (engine.listener, {}, "problem"),
        (engine.descriptor_store, {}, "warning"),
        (engine.descriptor_store, {"unit": {"ActiveState": "active"}}, "problem"),
        (engine.descriptor_store, {"unit": STORE_PRESERVED}, "problem"),
        (
            engine.descriptor_store,
            {"unit": {**STORE_PRESERVED, "NFileDescriptorStore": "3", "FileDescriptorStoreMax": "4096"}},
            "ok",
        ),
        (engine.limits, {}, "skipped"),
        (engine.limits, {"status": {"pid": 1 << 80}}, "skipped"),
        (engine.lost, {}, "skipped"),
        (engine.lost, {"snapshot": tree(LOST)}, "problem"),
        (engine.lost, {"snapshot": tree(LOST, gpu(stat=gpu_line("GPU-1")))}, "warning"),
        (engine.lost, {"snapshot": tree(gpu(stat="odd"))}, "ok"),
        (engine.start_at_boot, {}, "warning"),
        (engine.start_at_boot, {"kind": "module"}, "warning"),
        (configuration.valid, {"config_problem": "policy: 9"}, "problem"),
        (configuration.valid, {}, "ok"),
        (configuration.in_force, {"wanted": Effective()}, "ok"),
        (configuration.in_force, {}, "skipped"),
        (engine.drift, {"snapshot": tree(gpu(drift="600000000")), "wanted": Effective()}, "warning"),
        (
            engine.drift,
            {"snapshot": tree(gpu(drift="600000000")), "wanted": Effective(drift_reaction="refuse")},
            "problem",
        ),
        (engine.drift, {"snapshot": tree(gpu(drift="-600000000")), "wanted": Effective()}, "ok"),
        (engine.time_division, {"snapshot": tree(gpu(sched="divided_by=nobody usage_from=none"))}, "problem"),
        (engine.time_division, {"snapshot": tree()}, "ok"),
        (engine.mig, {"snapshot": tree(gpu(mig="1"))}, "problem"),
        (engine.mig, {"snapshot": tree(gpu(mig="1"), gpu())}, "warning"),
        (engine.containers, {"snapshot": tree(gpu(slice_()))}, "problem"),
        (engine.containers, {"snapshot": tree(gpu(slice_())), "cgroups": frozenset({"/group/c1/x"})}, "ok"),
        (engine.containers, {"snapshot": tree(gpu(slice_(owner="c1 -")))}, "ok"),
        (module.built, {}, "skipped"),
        (module.built, {"kind": "module"}, "problem"),
        (places.room, {}, "ok"),
        (places.leftovers, {}, "ok"),
    ],
)
def test_node_checks(tmp_path: Path, check: Any, changed: dict[str, Any], expected: str) -> None:
    """Each check of a node with a running engine gives the expected verdict."""
    report = node_report(tmp_path / "root", **changed)
    assert only_verdict(check(report)) == expected


def with_root(report: NodeReport, root: Path) -> NodeReport:
    return replace(report, node=replace(report.node, root=root))


def test_engine_down(tmp_path: Path) -> None:
    """The checks distinguish an engine that is gone, hangs, has another release, or enforces nothing."""
    down = node_report(tmp_path)
    down = replace(down, node=node(tmp_path, ours={"engine": None}))
    assert only_verdict(engine.running(down)) == "problem"
    assert "still mounted" in engine.running(replace(down, mounted=True))[0].text
    hangs = replace(
        down, node=node(tmp_path, ours={"engine": None, "daemon_running": True, "problem": "slow"})
    )
    assert "does not answer (slow)" in engine.running(hangs)[0].text
    other = node(tmp_path, ours={"engine": "cgpud", "version": "0.0.9", "enforces": False})
    assert only_verdict(engine.versions(replace(down, node=other))) == "warning"
    assert only_verdict(engine.enforcing(replace(down, node=other))) == "problem"


@pytest.mark.parametrize(
    ("word", "verdict"), [("", "skipped"), ("on", "ok"), ("incomplete", "warning"), ("symbols", "skipped")]
)
def test_the_witness(tmp_path: Path, word: str, verdict: str) -> None:
    """What has become of the witness is said with its meaning; what nobody can change is no warning."""
    report = replace(node_report(tmp_path), node=node(tmp_path, ours={"engine": "cgpud", "witness": word}))
    (finding,) = engine.pages(report)
    assert finding.verdict == verdict
    assert meaning(word)[0] in finding.text


def test_configuration_in_force(tmp_path: Path) -> None:
    """The check distinguishes a changed file, an unread file, and a module that is not configured."""
    report = replace(
        node_report(tmp_path, wanted=Effective(policy=0), in_force=Effective()),
        config_file="/etc/cgpu/config.yaml",
    )
    (found,) = configuration.in_force(report)
    assert found.verdict == "problem"
    assert "policy" in found.text
    assert only_verdict(configuration.in_force(replace(report, in_force=None))) == "problem"
    assert "cgpu_km" in configuration.in_force(replace(report, configured=False))[0].text
    assert only_verdict(configuration.in_force(replace(report, in_force=Effective(policy=0)))) == "ok"
    # cgpud's command line may name another tree.
    assert (
        only_verdict(configuration.in_force(replace(report, in_force=Effective(policy=0, tree="/x")))) == "ok"
    )


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), {("settings-docker", "warning"), ("settings-podman", "warning")}),
        (
            (Entry("docker", "d", LAUNCHER), Entry("podman", "p", "/nowhere")),
            {("settings-podman", "problem")},
        ),
        ((Entry("docker", "d", LAUNCHER),), set()),
        (
            (Entry("docker", "d", LAUNCHER), Entry("podman", "p", "/bin/sh")),
            {("settings-podman", "warning")},
        ),
        (
            (Entry("docker", "d", problem="is not JSON"), Entry("podman", "p", LAUNCHER)),
            {("settings-docker", "problem")},
        ),
        (
            (Entry("docker", "d", default="cgpu"), Entry("podman", "p", LAUNCHER)),
            {("settings-docker", "problem")},
        ),
        ((Entry("docker", "d", LAUNCHER, "cgpu"), Entry("podman", "p", LAUNCHER, "cgpu")), set()),
    ],
)
def test_settings(tmp_path: Path, entries: tuple[Entry, ...], expected: set[tuple[str, str]]) -> None:
    """The settings of each installed container engine must name an existing program as OpenCGPU's runtime."""
    assert faults(settings.registered(node_report(tmp_path, settings=entries))) == expected


def test_a_kubelet_is_seen(tmp_path: Path) -> None:
    """A machine is a node of Kubernetes when a kubelet has had pods there."""
    now = node_report(tmp_path)
    assert only_verdict(settings.pod_devices(now)) == "skipped"
    (tmp_path / "var/lib/kubelet/pods").mkdir(parents=True)
    assert node(tmp_path).software.kubelet
    assert not now.node.software.kubelet


def test_default_runtime(tmp_path: Path) -> None:
    """A default runtime that only some engines have gives a warning. The last file of an engine decides."""
    both = (Entry("docker", "d", "/bin/sh", "cgpu"), Entry("podman", "a", "/bin/sh"))
    assert only_verdict(settings.default(node_report(tmp_path, settings=both))) == "warning"
    with_later_file = (*both, Entry("podman", "b", default="cgpu"))
    assert only_verdict(settings.default(node_report(tmp_path, settings=with_later_file))) == "ok"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("opencgpu/0.1.0, 6.1.0-56-amd64, x86_64: installed\n", "ok"),
        ("opencgpu, 0.1.0, 6.1.0-56-amd64, x86_64: installed\n", "ok"),
        ("opencgpu/0.1.0, 6.1.0-56-amd64, x86_64: built\n", "problem"),
        ("opencgpu/0.1.0, 6.1, x86_64: built\nopencgpu/0.2.0, 6.1, x86_64: installed\n", "ok"),
        ("opencgpu/0.1.0: added\nopencgpu/0.2.0, 6.1, x86_64: installed\n", "ok"),
        ("opencgpu/0.1.0, 6.2, x86_64: built\nopencgpu/0.2.0, 6.1, x86_64: installed\n", "problem"),
        ("opencgpu/0.1.0: added\n", "problem"),
        ("opencgpu, 0.1.0: added\n", "problem"),
        ("nvidia/580.142, 6.1.0-56-amd64, x86_64: installed\n", "warning"),
        ("", "warning"),
    ],
)
def test_dkms(output: str, expected: str) -> None:
    """The check reads the output of dkms 2 and dkms 3, and only the lines of OpenCGPU's module."""
    assert only_verdict(module.judge(output)) == expected


def test_module_for_the_next_kernel(tmp_path: Path) -> None:
    """An installed newer kernel that the module is not built for gives a warning; an older one does not."""
    report = node_report(tmp_path, kind="module")
    report = replace(report, node=node(tmp_path, ours={"module_kernels": (report.node.kernel.release,)}))
    assert only_verdict(module.built(report)) == "ok"
    older, newer = "6.1.0-9-amd64", "6.1.0-57-amd64"
    write(tmp_path, {f"lib/modules/{one}/modules.dep": "" for one in (older, newer)})
    write(tmp_path, {f"boot/vmlinuz-{one}": "" for one in (older, newer)})
    (found,) = module.built(report)
    assert found.verdict == "warning"
    assert newer in found.fix
    assert older not in found.fix


def test_hook_and_launcher(tmp_path: Path) -> None:
    """A program that is missing or fails is a problem, and a hook without its part in Python."""
    script = tmp_path / "cgpu-hook"
    assert only_verdict(runtime.hook(str(script))) == "problem"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    assert runtime.hook(str(script))[0].text == f"{tmp_path}/start.py: is not there"
    (tmp_path / "start.py").touch()
    assert only_verdict(runtime.hook(str(script))) == "ok"
    assert only_verdict(runtime.hook()) == "ok"
    assert only_verdict(runtime.launcher(str(script))) == "problem"
    script.write_text("#!/bin/sh\nexit 0\n")
    assert runtime.launcher(str(script))[0].text == f"{tmp_path}/{LOW_LEVEL}: is not there, or no program"
    (tmp_path / LOW_LEVEL).symlink_to(script)
    assert only_verdict(runtime.launcher(str(script))) == "ok"
    assert only_verdict(runtime.launcher(str(tmp_path / "nothing"))) == "problem"


def test_cure_names_the_low_level_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the runtime below does not start, the cure names the one that is set, not runc."""
    script = tmp_path / LOW_LEVEL
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    for program, says in (
        ("/bin/none", "low_level_runtime: /bin/none: "),
        ("/bin/false", "/bin/false --version"),
    ):
        monkeypatch.setattr(effective, "load", lambda program=program: Effective(low_level_runtime=program))
        assert says in runtime.launcher(str(script))[0].fix


def test_interpreter(tmp_path: Path) -> None:
    """An interpreter that is too old or does not run is a problem."""
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 3.9.2\n")
    old.chmod(0o755)
    assert "3.9.2" in runtime.interpreter(str(old))[0].text
    assert only_verdict(runtime.interpreter(str(tmp_path / "none"))) == "problem"
    assert only_verdict(runtime.interpreter()) == "ok"


def test_package_of_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """RHEL has newer versions of Python beside its own, each as a package of that name."""
    monkeypatch.setattr(distribution, "here", lambda: distribution.RPM)
    (found,) = runtime.interpreter("/usr/bin/python3.99")
    assert found.fix == "dnf install python3.99"
    (found,) = runtime.interpreter("/opt/none/bin/python3.99")
    assert found.fix == "dnf install python3"


@pytest.mark.root
def test_ownership(tmp_path: Path) -> None:
    """The finding names each file and folder of a program's path that others than root may write."""
    file = tmp_path / "folder" / "program"
    write(tmp_path, {"folder/program": ""})
    assert only_verdict(runtime.ownership((str(file),), str(tmp_path))) == "ok"
    file.parent.chmod(0o777)
    assert str(file.parent) in runtime.ownership((str(file),), str(tmp_path))[0].text
    file.parent.chmod(0o755)
    os.chown(file, 1000, 0)
    assert only_verdict(runtime.ownership((str(file),), str(tmp_path))) == "problem"


@pytest.mark.root
def test_permissions(tmp_path: Path) -> None:
    """The fix has a chmod for each file and folder to which others than root have access."""
    report = with_root(node_report(tmp_path / "made"), tmp_path)
    write(tmp_path, {"run/cgpu/config.json": "{}", "etc/cgpu/config.yaml": ""})
    (tmp_path / "run/cgpu").chmod(0o700)
    (tmp_path / "run/cgpu/config.json").chmod(0o600)
    assert only_verdict(places.permissions(report)) == "ok"
    (tmp_path / "run/cgpu").chmod(0o755)
    (tmp_path / "etc/cgpu/config.yaml").chmod(0o666)
    (found,) = places.permissions(report)
    assert found.verdict == "problem"
    assert "chmod go-rwx /run/cgpu" in found.fix
    assert "chmod go-w /etc/cgpu/config.yaml" in found.fix


def test_module_at_boot(tmp_path: Path) -> None:
    """The module must be loaded at boot and configured by cgpu-config-apply.service.

    Without that unit the module refuses slices after a boot.
    """
    report = node_report(tmp_path, kind="module")
    assert engine.start_at_boot(report)[0].verdict == "warning"
    write(tmp_path, {"etc/modules-load.d/cgpu.conf": "# ours\ncgpu_km\n"})
    (found,) = engine.start_at_boot(report)
    assert (found.verdict, found.fix) == ("warning", "systemctl enable cgpu-config-apply.service")
    write(tmp_path, {"etc/systemd/system/multi-user.target.wants/cgpu-config-apply.service": ""})
    assert engine.start_at_boot(report)[0].verdict == "ok"


PROC_LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            {}                 1048576              files
Max locked memory         8388608              8388608              bytes
"""


@pytest.mark.parametrize(
    ("soft", "verdict", "text"),
    [
        ("1024", "warning", "cgpud can open only 1024 files"),
        (str(engine.FILES_WANTED), "ok", f"cgpud can open {engine.FILES_WANTED} files"),
        ("unlimited", "ok", "cgpud can open any number of files"),
    ],
)
def test_limits(tmp_path: Path, soft: str, verdict: str, text: str) -> None:
    """The check reads the limit on open files of cgpud's process below the machine's root folder."""
    write(tmp_path, {"proc/42/limits": PROC_LIMITS.format(soft)})
    (found,) = engine.limits(node_report(tmp_path, status={"pid": 42}))
    assert (found.verdict, found.text.split(";")[0]) == (verdict, text)
    (tmp_path / "proc/42/limits").unlink()
    (found,) = engine.limits(node_report(tmp_path, status={"pid": 42}))
    assert (found.verdict, found.text) == ("skipped", "/proc/42/limits cannot be read")


NO_OPT_OUT = Effective(allow_environment=False, allow_disable=False)


@pytest.mark.parametrize(
    ("config", "verdict", "word"),
    [
        (None, "skipped", "cannot be read"),
        (Effective(), "warning", "allow_environment"),
        (NO_OPT_OUT, "warning", "default_memsize: 0"),
        (NO_OPT_OUT.replace(default_memsize=1), "ok", "has a slice"),
        (Effective(shared_node=True), "ok", "has a slice"),
        (Effective(shared_node=True, allow_privileged=True), "warning", "allow_privileged"),
        (Effective(shared_node=True, enforce=False), "warning", "enforce: false"),
        (Effective(default_memsize=1, allow_environment=False), "warning", "allow_disable"),
    ],
)
def test_ways_past_a_slice(tmp_path: Path, config: Effective | None, verdict: str, word: str) -> None:
    """The finding names each way to a GPU without a slice. A node without such ways is ok."""
    (found,) = closed(node_report(tmp_path, wanted=config))
    assert (found.verdict, word in found.text) == (verdict, True)
    # The fix closes every way; with shared_node true one is left, which it does not close.
    assert found.fix.endswith(CLOSE) is (
        verdict == "warning" and config is not None and not config.shared_node
    )


def test_configuration_in_force_counts(tmp_path: Path) -> None:
    """A node is as open as the configuration in force has it, whatever the file says."""
    report = node_report(tmp_path, wanted=Effective(shared_node=True), in_force=Effective())
    assert only_verdict(closed(report)) == "warning"


def test_podman_that_copies_annotations(tmp_path: Path) -> None:
    """With trust_annotations: always, a podman that copies annotations of images leaves the node open."""
    config = Effective(shared_node=True, trust_annotations="always")
    versions = (("4.3.1", "warning"), (None, "warning"), ("4.6.0", "ok"), ("5.0.0-rc1", "ok"))
    for version, expected in versions:
        report = node_report(tmp_path, wanted=config)
        software = replace(report.node.software, engines=(tool("podman", version),))
        (found,) = closed(replace(report, node=replace(report.node, software=software)))
        assert found.verdict == expected
        assert ("copies annotations of images" in found.text) == (expected == "warning")


def test_published_slices(tmp_path: Path) -> None:
    """Where users are to see slices, something must publish them; the fix is one that works on this node."""
    report = node_report(tmp_path, in_force=Effective())
    assert only_verdict(publisher.published(report)) == "ok"
    assert only_verdict(publisher.published(node_report(tmp_path))) == "skipped"
    report = replace(report, in_force=Effective(show_slices="own"))
    (found,) = publisher.published(report)
    assert (found.verdict, found.fix) == ("warning", "cgpu install")
    assert found.text == "show_slices is own, but nothing publishes slices in /run/cgpu-smi/everyone.json"
    for name, folder in ((PUBLISHER, "etc/systemd/system"), (PUBLISHER_STARTS, "lib/systemd/system")):
        write(tmp_path, {f"{folder}/{name}": "[Unit]\n"})
    assert publisher.published(report)[0].fix == publisher.START
    plain = replace(report.node, software=replace(report.node.software, systemd=False))
    (found,) = publisher.published(replace(report, node=plain))
    assert found.fix == "have it run, now and after each boot: cgpu-smi --publish"


def test_published_files(tmp_path: Path) -> None:
    """A file that cgpu-smi would not show is found, whatever is in it."""
    report = node_report(tmp_path, in_force=Effective(show_slices="all"))
    for document, verdict in (
        (f'{{"at": {time.monotonic()}, "gpus": []}}', "ok"),
        ('{"at": 0.0, "gpus": []}', "warning"),
        ('{"at": null}', "warning"),
        ("[" * 100_000, "warning"),
    ):
        write(tmp_path, {"run/cgpu-smi/everyone.json": document})
        assert only_verdict(publisher.published(report)) == verdict
