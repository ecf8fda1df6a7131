# SPDX-License-Identifier: Apache-2.0
"""Ways around the limit that users found in other tools. The probe is a static binary in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.attacks.build import alone
from tests.integration.commands import Outcome, eventually
from tests.integration.conftest import Start
from tests.integration.engine import RUN, Engine
from tests.integration.probe import NO_MEMORY, step, steps
from tests.integration.runtimes import Docker, Podman, Runc
from tests.integration.test_slice import LIMIT, SIX, SLICE

# All but sys_resource, which is missing here.
NAMES = """
    chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable
    net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot
    sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_time sys_tty_config mknod lease
    audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read
"""
CAPABILITIES = [f"CAP_{name.upper()}" for name in NAMES.split()]


FILL = ["fill=512M:2m", "fill=1M:64k", "expect=0x51", "alloc=64K:64k"]


def full(words: list[str]) -> list[str]:
    return ["/cgpu-probe", *words, *FILL, "info"]


def assert_held(outcome: Outcome, time: int = 0) -> None:
    """Fail unless the program got its slice to the byte, and not a page more; time: the times before."""
    had = [step(outcome, "fill", 2 * time + number).number("bytes") for number in (0, 1)]
    assert sum(had) == LIMIT
    assert step(outcome, "alloc", time).number("status") == NO_MEMORY


USUAL = ["xfer=off", "magic=0x46", "dir=3"]
WAYS = {
    "plain": [],
    "wrapper": ["xfer"],
    "magic 0": ["magic=0"],
    "magic of another driver": ["magic=0x54"],
    "no direction": ["dir=0"],
    "write only": ["dir=1"],
    "read only": ["dir=2"],
    "wrapper without magic and direction": ["xfer", "magic=0", "dir=0"],
}
each_program = pytest.mark.parametrize("program", ["/cgpu-probe", "/cgpu-probe32"])


@pytest.mark.enforcement
@each_program
def test_ioctl_number_does_not_matter(engine: Engine, runc: Runc, program: str) -> None:
    """The limit holds in the transfer wrapper, with any magic byte and direction, and in 32-bit processes."""
    words = [word for way in WAYS.values() for word in (*USUAL, *way, *FILL, "free=all")]
    outcome = runc.run([program, *words], SLICE)
    for number in range(len(WAYS)):
        assert_held(outcome, number)


@each_program
def test_enforcement_off(start: Start, runc: Runc, program: str) -> None:
    """With enforcement off each of these ways does get more: the test above tests something."""
    start("T4", enforce=False)
    words = [word for way in WAYS.values() for word in (*USUAL, *way, "fill=512M:2m", "free=all")]
    outcome = runc.run([program, *words], SLICE)
    had = [one.number("bytes") for one in steps(outcome) if one.name == "fill"]
    assert len(had) == len(WAYS)
    assert min(had) > LIMIT


def privileged(runc: Runc, command: list[str]) -> dict[str, object]:
    """Make the specification of a --privileged container, as far as this machine can start one."""
    spec: Any = runc.spec(command, SLICE)
    sets = ("bounding", "effective", "permitted", "inheritable")
    spec["process"]["capabilities"] = dict.fromkeys(sets, CAPABILITIES)
    spec["process"]["noNewPrivileges"] = False
    linux = spec["linux"]
    linux.pop("seccomp", None)
    linux["maskedPaths"] = []
    linux["readonlyPaths"] = []
    linux["resources"] = {"devices": [{"allow": True, "access": "rwm"}]}
    result: dict[str, object] = spec
    return result


@pytest.mark.enforcement
def test_privileged(engine: Engine, runc: Runc) -> None:
    """A privileged container is held too."""
    assert_held(runc.run_bundle(runc.bundle(privileged(runc, full([]))), "privileged"))


def with_other_card(spec: dict[str, object]) -> dict[str, object]:
    """Give a container the node of the second card too, as one that can make nodes has it."""
    mounts = spec["mounts"]
    assert isinstance(mounts, list)
    source = "/run/cgpu/sim/nvidia1"
    mounts.append(
        {"destination": "/dev/nvidia1", "type": "bind", "source": source, "options": ["bind", "rw"]}
    )
    return spec


@pytest.mark.parametrize("enforce", [True, False])
def test_privileged_cannot_use_another_card(start: Start, runc: Runc, *, enforce: bool) -> None:
    """With its node, or privileged, a container cannot use a card it was not given; unenforced it can."""
    start("T4:2", enforce=enforce)
    words = ["/cgpu-probe", "gpu=1", "alloc=1M"]
    for name, spec in (("curious", runc.spec(words, SLICE)), ("privileged", privileged(runc, words))):
        outcome = runc.run_bundle(runc.bundle(with_other_card(spec)), name)
        assert (outcome.returncode == 0) is not enforce
        assert "No such file" not in outcome.text


@pytest.mark.enforcement
@pytest.mark.parametrize("option", ["seccomp=unconfined", "no-new-privileges"])
def test_docker_security_options(engine: Engine, docker: Docker, option: str) -> None:
    """The limit holds without the engine's own seccomp profile, and with no new privileges."""
    assert_held(docker.run(full([]), SIX, "--security-opt", option))


@pytest.mark.enforcement
def test_podman_unconfined(engine: Engine, podman: Podman) -> None:
    """The limit holds under podman without its seccomp profile."""
    assert_held(podman.run(full([]), SIX, "--security-opt", "seccomp=unconfined"))


def test_tree_is_not_reachable(engine: Engine, docker: Docker) -> None:
    """A container that mounts /run of the host finds neither the tree nor the engine's sockets in it."""
    started = docker.start("curious", ["/cgpu-probe", "hold=1000"], SIX, "-v", "/run:/run:ro")
    assert started.returncode == 0, started.text
    pid = docker.call("inspect", "--format", "{{.State.Pid}}", "curious").stdout.strip()
    inside = Path("/proc", pid, "root/run")
    assert (inside / "cgpu_km").is_dir()
    assert [list((inside / name).iterdir()) for name in ("cgpu_km", "cgpu")] == [[], []]


def test_tracing(start: Start, docker: Docker) -> None:
    """With CAP_SYS_PTRACE a container takes an exec over before it has the filter; a shared node refuses it.

    Of such a process the engine hears by its memory alone, a second later.
    """
    tracing = ("--cap-add", "SYS_PTRACE", "-v", f"{alone('hijack', '-static')}:/hijack:ro")
    words = ["/hijack", "/cgpu-probe", "alloc=8G", "hold=1000"]
    start("T4")
    assert docker.start("tracing", words, SIX, *tracing).returncode == 0
    eventually(lambda: "waiting" in docker.call("logs", "tracing").stdout, "it waits for an exec")

    def is_taken_over() -> bool:
        docker.exec("tracing", ["/cgpu-probe", "--help"])
        return "hijacked" in docker.call("logs", "tracing").stdout

    eventually(is_taken_over, "an exec is taken over")
    ended = "does not have the engine's filter, and was ended"
    eventually(lambda: ended in (RUN / "cgpud.log").read_text(), "it is ended")
    docker.clear()
    start("T4", shared_node=True, default_memsize=LIMIT)
    refused = docker.start("traced", words, {"NVIDIA_VISIBLE_DEVICES": "all"}, *tracing)
    assert refused.returncode != 0
    assert "process.capabilities: CAP_SYS_PTRACE: by it a process can run without" in refused.text
