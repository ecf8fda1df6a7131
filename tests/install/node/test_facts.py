# SPDX-License-Identifier: Apache-2.0
"""Facts of a machine: read from the files of a made-up one, and out of hostile texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.distribution import RPM
from cgpu.install.checks import engine as engine_checks
from cgpu.install.checks import module as module_checks
from cgpu.install.node import machine as facts
from cgpu.install.node.facts import driver, files, kernel, ours, programs, software
from cgpu.install.node.report import parse_unit
from cgpu.runtime_config.programs import first_version, numbers
from tests.install.machine import (
    CARD,
    LEGACY,
    OLD_DRIVER,
    OPEN_DRIVER,
    RELEASE,
    UNIFIED,
    card,
    program,
    sound,
    write,
)

TEXT = st.text(max_size=300)
WORDS = st.text(alphabet='{}[]()":,. =/-abcCONFIG_0123456789\n\tKMSGnvidia', max_size=300)


def test_sound_machine(tmp_path: Path) -> None:
    """Everything that is there is found below the root, links with absolute targets too."""
    found = facts.gather(sound(tmp_path))
    assert found.kernel.release == RELEASE
    assert found.kernel.headers == Path(f"/lib/modules/{RELEASE}/build")
    assert found.kernel.options == frozenset(("CONFIG_KPROBES", "CONFIG_KCMP", "CONFIG_PROC_PAGE_MONITOR"))
    assert (found.kernel.loads_modules, found.kernel.modules_disabled) == (True, False)
    assert (found.kernel.ftrace, found.kernel.kprobes, found.kernel.secure_boot) == (True, True, False)
    assert found.kernel.seccomp_notify
    assert found.kernel.fuse
    assert found.kernel.cgroups == "v2"
    assert (found.driver.loaded, found.driver.kind, found.driver.known) == ("580.142", "open", True)
    assert found.driver.installed
    assert found.driver.uvm
    assert [(one.bus, one.model, one.firmware) for one in found.driver.cards] == [
        ("0000:01:00.0", "NVIDIA A10", "580.142")
    ]
    assert found.software.fuse == Path("/usr/lib/x86_64-linux-gnu/libfuse3.so.3")
    assert [one.name for one in found.software.engines] == ["docker", "podman"]
    assert [one.path for one in found.software.low_level] == [Path("/usr/bin/runc")]
    assert found.software.dkms is not None
    assert found.software.systemd
    assert found.ours.engine is None
    assert not found.ours.module_loaded
    assert found.ours.record is None


def test_fuse(tmp_path: Path) -> None:
    """Either libfuse 3 will do, the newer one first; libfuse 2 will not."""
    for name, expected in (
        ("lib64/libfuse.so.2", None),
        ("lib64/libfuse3.so.3", "/usr/lib64/libfuse3.so.3"),
        ("lib/libfuse3.so.4", "/usr/lib/libfuse3.so.4"),
    ):
        write(tmp_path, {f"usr/{name}": ""})
        assert facts.gather(tmp_path).software.fuse == (Path(expected) if expected else None)


def test_distribution(tmp_path: Path) -> None:
    """The family is known by os-release, also through its usual link; without that file it is not known."""
    assert facts.gather(tmp_path).software.family is None
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/os-release").write_text('ID="almalinux"\nID_LIKE="rhel centos fedora"\n')
    assert facts.gather(tmp_path).software.family == RPM
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").symlink_to("../usr/lib/os-release")
    assert facts.gather(tmp_path).software.family == RPM


def test_empty_machine(tmp_path: Path) -> None:
    """Where nothing can be read, nothing is claimed."""
    found = facts.gather(tmp_path)
    assert found.kernel.release is None
    assert found.kernel.headers is None
    assert found.kernel.options is None
    assert found.kernel.secure_boot is None
    assert found.kernel.cgroups is None
    assert not found.kernel.loads_modules
    assert found.driver.loaded is None
    assert not found.driver.known
    assert found.driver.cards == ()
    assert found.software.engines == ()
    assert programs.processes(tmp_path) == ()


def test_this_machine() -> None:
    """On a real root all questions are answered, and the kernel's release is the running one's."""
    found = facts.gather()
    assert found.kernel.release == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert any(one.pid == 1 for one in programs.processes(Path("/")))


@pytest.mark.parametrize(
    ("said", "version", "kind"),
    [(OPEN_DRIVER, "580.142", "open"), (OLD_DRIVER, "470.57.02", "proprietary"), ("NVRM", None, None)],
)
def test_driver_version(said: str, version: str | None, kind: str | None) -> None:
    """Both flavours say their version in their own way."""
    assert driver.parse_version(said) == (version, kind)


def test_card_without_firmware_and_with_instances(tmp_path: Path) -> None:
    """A card without GSP has no firmware; MIG that has instances shows below /proc."""
    write(
        tmp_path,
        {
            "proc/driver/nvidia/version": OLD_DRIVER,
            "proc/driver/nvidia/gpus/0000:01:00.0/information": CARD.replace("580.142", "N/A"),
            "proc/driver/nvidia/capabilities/gpu0/mig/gi3/access": "",
        },
    )
    found = driver.gather(tmp_path, None)
    assert [(one.firmware, one.mig) for one in found.cards] == [(None, True)]
    assert not found.known


def nvidia_smi(folder: Path, script: str) -> Path:
    """Write a program in the place of NVIDIA's."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


ENABLED = 'test "$*" = "--query-gpu=pci.bus_id,mig.mode.current --format=csv,noheader" || exit 1\n'
ENABLED += (
    'echo "00000000:01:00.0, [N/A]"; echo "00000000:C1:00.0, Enabled"; echo "00000000:C2:00.0, Disabled"'
)


def mig_modes() -> list[bool]:
    """Return for four cards, the first with instances, whether they are taken to be in MIG mode."""
    places = {"0000:00:00.0": True, "0000:01:00.0": False, "0000:c1:00.0": False, "0000:c2:00.0": False}
    cards = tuple(card(bus=bus, mig=is_cut) for bus, is_cut in places.items())
    found = replace(driver.gather(Path("/nowhere"), None), cards=cards)
    return [one.mig for one in driver.with_mig(found, Path("/")).cards]


@pytest.mark.root
@pytest.mark.parametrize(
    ("script", "mode", "in_mig"),
    [
        (ENABLED, 0o755, True),
        (ENABLED, 0o775, False),
        (f"{ENABLED}; exit 9", 0o755, False),
        ("echo Enabled; echo ,; echo", 0o755, False),
        (f"{ENABLED}; sleep 60", 0o755, False),
        (None, 0o755, False),
    ],
)
def test_mig_without_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, mode: int, *, in_mig: bool
) -> None:
    """nvidia-smi knows of it; one that fails, hangs, is not there, or that others may write, says nothing."""
    monkeypatch.setattr(programs, "SEARCH", (str(tmp_path),))
    monkeypatch.setattr(driver, "SMI_S", 1.0)
    if script is not None:
        nvidia_smi(tmp_path, script).chmod(mode)
    assert mig_modes() == [True, False, in_mig, False]


@pytest.mark.root
def test_nvidia_smi_in_a_folder_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that others can replace is not run."""
    monkeypatch.setattr(programs, "SEARCH", (str(tmp_path),))
    nvidia_smi(tmp_path, ENABLED)
    tmp_path.chmod(0o777)
    assert mig_modes() == [True, False, False, False]


@pytest.mark.parametrize(
    ("listed", "there"),
    [
        ("updates/dkms/nvidia.ko.xz: x\n", True),
        ("kernel/nvidia-535/nvidia.ko:\n", True),
        ("kernel/drivers/net/forcedeth-nvidia.ko:\nkernel/x/nvidia-uvm.ko: updates/dkms/nvidia.ko\n", False),
        ("", False),
    ],
)
def test_driver_installed(listed: str, *, there: bool) -> None:
    """The driver is its own module, not one of a similar name or one that needs it."""
    assert driver.is_installed(listed) is there


@pytest.mark.parametrize(
    ("mountinfo", "mode"),
    [(UNIFIED, "v2"), (LEGACY, "v1"), (LEGACY + UNIFIED.replace("/cgroup ", "/cgroup/unified "), "hybrid"),
     ("30 1 0:26 / /proc rw - proc proc rw\n", None), ("- - -", None)],
)  # fmt: skip
def test_cgroup_mode(mountinfo: str, mode: str | None) -> None:
    """The mode is told by what is mounted below /sys/fs/cgroup."""
    assert kernel.cgroup_mode(mountinfo) == mode


@pytest.mark.parametrize(("enrolled", "answer"), [(b"xxDERyy", True), (b"xx", False), (None, None)])
def test_secure_boot(tmp_path: Path, *, enrolled: bytes | None, answer: bool | None) -> None:
    """Secure boot and the enrolled key are read from the firmware's variables."""
    write(tmp_path, {kernel.SECURE_BOOT[1:]: b"\x06\0\0\0\x01", "var/lib/dkms/mok.pub": b"DER"})
    if enrolled is not None:
        write(tmp_path, {f"{kernel.VARIABLES[1:]}/MokListRT1-605dab50": b"\x06\0\0\0" + enrolled})
    found = kernel.gather(tmp_path)
    assert found.secure_boot is True
    assert found.signing_key == Path("/var/lib/dkms/mok.pub")
    assert found.key_enrolled is answer


def test_sharing(tmp_path: Path) -> None:
    """MPS, HAMi and replicas of a device plugin are found by files and processes."""
    checkpoint = {"Data": {"RegisteredDevices": {"nvidia.com/gpu": ["GPU-1::0", "GPU-1::1"], "x": ["1"]}}}
    write(
        tmp_path,
        {
            "proc/7/cmdline": b"/usr/bin/nvidia-cuda-mps-control\0-d\0",
            "proc/8/cmdline": b"/k8s-vgpu/bin/vGPUmonitor\0",
            "tmp/nvidia-mps/control": "",
            "etc/ld.so.preload": "/usr/local/vgpu/libvgpu.so # HAMi\n/x/other.so\n",
            "var/lib/kubelet/device-plugins/nvidia-gpu.sock": "",
            "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": json.dumps(checkpoint),
        },
    )
    found = facts.gather(tmp_path).sharing
    assert found.mps == ("nvidia-cuda-mps-control (process 7)", "/tmp/nvidia-mps")
    assert found.hami == ("/etc/ld.so.preload: /usr/local/vgpu/libvgpu.so", "vGPUmonitor (process 8)")
    assert found.device_plugin == ("/var/lib/kubelet/device-plugins/nvidia-gpu.sock",)
    assert found.replicas == ("nvidia.com/gpu",)


def test_engine_of_another_root(tmp_path: Path) -> None:
    """The module's tree is read below the root, and its words are told apart."""
    write(
        tmp_path,
        {"proc/cgpu_km/version": "0.1.0\n", "proc/cgpu_km/engine": "cgpu_km 0.1.0 enforce=off\n"},
    )
    write(tmp_path, {f"lib/modules/{RELEASE}/updates/dkms/cgpu_km.ko.xz": ""})
    found = ours.gather(tmp_path, ())
    assert (found.engine, found.version, found.enforces) == ("cgpu_km", "0.1.0", False)
    assert found.module_loaded
    assert found.module_kernels == (RELEASE,)


def test_links_stay_below_the_root(tmp_path: Path) -> None:
    """A link to an absolute path is looked for below the root; one in a circle is no file."""
    root = tmp_path / "root"
    write(root, {"target/file": "inside"})
    (root / "link").symlink_to("/target")
    (root / "circle").symlink_to("/circle")
    assert files.text(root, "/link/file") == "inside"
    assert files.text(root, "/circle") is None


def test_program_below_a_root_is_not_run(tmp_path: Path) -> None:
    """A program of another root is named and never started."""
    program(tmp_path, "runc")
    (tmp_path / "usr/bin/runc").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho 1.1\n")
    assert facts.gather(tmp_path).software.low_level[0].version is None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("said", "version"),
    [("Docker version 20.10.24+dfsg1, build 297e128", "20.10.24"), ("systemd 252 (252.30-1)", "252.30"),
     ("runc version 1.1.5+ds1\ncommit: x\nspec: 1.0.2", "1.1.5"), ("dkms-3.0.10", "3.0.10"), ("none", None)],
)  # fmt: skip
def test_versions(said: str, version: str | None) -> None:
    """A program's version is the first dotted number of its answer."""
    assert first_version(said) == version


@given(WORDS | TEXT)
def test_parsers_take_any_text(said: str) -> None:
    """Whatever a file holds, a fact is made of it or left out."""
    version, kind = driver.parse_version(said)
    assert (version is None) == (kind is None)
    assert all(isinstance(value, str) for value in driver.parse_card(said).values())
    assert driver.is_installed(said) in (True, False)
    assert kernel.cgroup_mode(said) in ("v1", "v2", "hybrid", None)
    assert kernel.chosen(said) is None or f"[{kernel.chosen(said)}]" in said
    assert all(entry.endswith("libvgpu.so") for entry in software.preloaded(said, "libvgpu.so"))
    assert software.replicated(said) == []
    found = first_version(said)
    assert found is None or found in said
    assert all(isinstance(number, int) for number in numbers(said))
    assert engine_checks.listening(said) <= set(said.split())
    assert parse_unit(said) == {} or "=" in said
    assert module_checks.judge(said)[0].name == "module-dkms"


@given(st.dictionaries(TEXT, st.lists(TEXT | st.integers(), max_size=4), max_size=4))
def test_replicas_are_told_by_their_number(resources: dict[str, list[object]]) -> None:
    """A resource counts when one of its devices is a replica."""
    checkpoint = json.dumps({"Data": {"RegisteredDevices": resources}})
    wanted = sorted(name for name, devices in resources.items() if any("::" in str(one) for one in devices))
    assert software.replicated(checkpoint) == wanted


@pytest.mark.parametrize(("written", "runs"), [("7 400\n", True), ("7 399\n", False), (None, False)])
def test_a_daemons_number_alone_is_no_daemon(tmp_path: Path, written: str | None, *, runs: bool) -> None:
    """An interpreter with the number of a daemon that has ended is none."""
    after_the_name = " ".join(["S", *["0"] * 18, "400", "0"])
    there: dict[str, str | bytes] = {
        "run/cgpu/cgpud.pid": "7\n",
        "proc/7/stat": f"7 (python3) {after_the_name}\n",
    }
    if written is not None:
        there["run/cgpu/cgpud.started"] = written
    write(tmp_path, there)
    found = ours.gather(tmp_path, (programs.Process(7, "python3"),))
    assert found.daemon_running is runs
