# SPDX-License-Identifier: Apache-2.0
"""How each document is carried out: what is typed in place of what it says, and what must come of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.docs.node import PIP_TYPED

SLICE = "-e ALIYUN_COM_GPU_MEM_CONTAINER=6 -e ALIYUN_COM_GPU_MEM_DEV=15"
DOCKER_RUN = f"docker run --runtime=cgpu {SLICE} IMAGE"
PACKAGE = f"/opt/opencgpu/lib/python3.{sys.version_info.minor}/site-packages/cgpu"
LAUNCHER = f"{PACKAGE}/runtime_config/launcher/cgpu-container-runtime"
PROBE = f"{PACKAGE}/kmod/build/cgpu-probe"
PROBE_SIM = f"{PROBE} --dev /run/cgpu/sim"
TRAIN = "cgpu run --mem 6G -- python3 train.py"
AS_ALICE = (
    "cgpu run --mem 4G,2G --gpus 1,0 --weight 3 -- setpriv --reuid=alice --regid=alice --init-groups ./server"
)
INTERRUPTED = "timeout --foreground --preserve-status -s INT 3"
RECORD = "cgpu trace record -o matmul.jsonl --note cuda=12.4 -- python3 matmul.py"
RUN_SIMULATED = "cgpu run --simulate T4 --mem 6G -- cgpu-smi"
SERVES = "until cgpud --status >/dev/null 2>&1; do sleep 0.1; done"
FOREGROUND = f"cgpud --foreground --simulate T4 & {SERVES}; kill $!; wait $!"
RECORDER = f"{PACKAGE}/kmod/build/cgpu-recorder"
ENV = SLICE.replace("-e", "--env")
CTR_RUN = f"ctr run --rm --runc-binary /path/to/cgpu-container-runtime {ENV} IMAGE NAME"
CTR_FIRST = f"ctr run --rm --runc-binary $RUNTIME {ENV} docker.io/library/probe:latest first /cgpu-probe info"
SIX = r"info gpu=0 total=6336544768 free=6336544768 used=0 "
T4 = "cgpud --simulate T4"
DOCKER_KNOWS = ("cgpu install --engine daemon --runtimes docker", "systemctl reload docker", T4)
# With systemd `cgpu install` has docker read its settings itself, and starts cgpud where there is a driver.
AS_SYSTEMD_DOES = ("systemctl reload docker", T4)


@dataclass(frozen=True)
class Expect:
    """What a command must come to. prints: a pattern that its output has."""

    prints: str = ""
    status: int = 0


@dataclass(frozen=True)
class Scenario:
    """One document. All its blocks for a shell are typed, in their order, less those that run elsewhere.

    skipped: headings whose commands are typed under another heading. inline: commands within the text
    that are typed at the end. earlier: commands that another document has too, and that are typed there.
    only: where given, these alone are typed. before: lines typed before a command, which the document
    says in words. typed: what is typed in place of a command. words: what stands for a word of the
    reader's own. shown: what this node prints in place of a text of the document.
    """

    skipped: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Expect] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)


VENV = "python3 -m venv /opt/opencgpu"
PIP = "/opt/opencgpu/bin/pip install ."
# They are here already; without --simulate apt would look for newer ones.
APT = "apt-get install make gcc gcc-multilib libfuse3-dev pkg-config python3-venv runc docker.io"
APT_DEB = "apt-get install make docker.io"
SIMULATED = {one: one.replace("install", "install --simulate") for one in (APT, APT_DEB)}
LENT = "# Node.lend_packages"
IMAGE = {"IMAGE": "cgpu-test:latest"}
INSTALL = "cgpu install"
DAEMON = "cgpu install --engine daemon"

SCENARIOS: Mapping[str, Scenario] = {
    "README.md": Scenario(
        skipped=("OpenCGPU",),
        inline=("cgpud --stop",),
        before={PIP: (LENT,), DOCKER_RUN: AS_SYSTEMD_DOES},
        typed={PIP: PIP_TYPED, APT: SIMULATED[APT]},
        words=IMAGE,
        expect={DOCKER_RUN: Expect(SIX), "cgpu-smi": Expect(r"0 of 15109 MiB promised\nno containers\n")},
    ),
    "docs/quickstart.md": Scenario(
        before={
            "cgpu status": ("systemctl reload docker",),
            "cgpu-smi": ("sleep 2",),
        },
        earlier=(VENV, PIP),
        typed=SIMULATED,
        expect={
            INSTALL: Expect(r"engine: daemon; runtimes: docker, containerd, podman\n"),
            "cgpu status": Expect(r"sliced containers can start: yes\n"),
            f"docker run --rm --runtime=cgpu {SLICE} probe /cgpu-probe info": Expect(SIX),
            f"docker run --rm --runtime=cgpu {SLICE} probe /cgpu-probe alloc=7G": Expect(
                r" status=0x51\n", 3
            ),
            f"podman --runtime cgpu run --rm {SLICE} localhost/probe /cgpu-probe info": Expect(SIX),
            CTR_FIRST: Expect(SIX),
            "cgpu-smi": Expect(r"\n[0-9a-f]{12}  trainer .* 1120 MiB    6043 MiB\n"),
            "cgpu doctor": Expect(r"\n?0 problem"),
            "cgpu uninstall": Expect(r"all is taken back"),
        },
    ),
    "docs/install.md": Scenario(
        inline=("cgpu doctor --fix",),
        expect={
            "cgpu install --dry-run": Expect(r'\+ +"cgpu": \{'),
            INSTALL: Expect(r"installed; cgpu uninstall takes it back"),
            "cgpu uninstall": Expect(r"all is taken back"),
            "cgpu doctor --fix": Expect(status=1),  # no engine runs, and it starts none
        },
    ),
    "docs/container-engines/docker.md": Scenario(
        inline=(
            "cgpu-runtime-config docker --default-runtime",
            "docker ps -aq | xargs -r docker inspect -f '{{.Name}} {{.HostConfig.Runtime}}'",
        ),
        before={DOCKER_RUN: (T4,)},
        words=IMAGE,
        expect={
            DOCKER_RUN: Expect(SIX),
            "cgpu-runtime-config docker --remove --reload": Expect(r"runtime cgpu removed"),
            "docker ps -aq | xargs -r docker inspect -f '{{.Name}} {{.HostConfig.Runtime}}'": Expect(
                r"^/\w+ cgpu\n"
            ),
        },
    ),
    "docs/container-engines/containerd.md": Scenario(
        before={
            CTR_RUN: (
                "docker save cgpu-test:latest | ctr image import -",
                T4,
            )
        },
        words={
            "IMAGE": "docker.io/library/cgpu-test:latest",
            "NAME": "sliced",
            "/path/to/cgpu-container-runtime": LAUNCHER,
        },
        expect={
            CTR_RUN: Expect(SIX),
            "cgpu-runtime-config containerd": Expect(r"config.toml: runtime cgpu added"),
        },
    ),
    "docs/container-engines/crio.md": Scenario(
        expect={"cgpu-runtime-config crio": Expect(r"99-cgpu.conf: runtime cgpu added")}
    ),
    "docs/container-engines/podman.md": Scenario(
        before={
            f"podman --runtime /path/to/cgpu-container-runtime run {SLICE} IMAGE": (
                "docker save cgpu-test:latest | podman load",
                T4,
            )
        },
        words={"IMAGE": "cgpu-test:latest", "/path/to/cgpu-container-runtime": LAUNCHER},
        expect={
            f"podman --runtime /path/to/cgpu-container-runtime run {SLICE} IMAGE": Expect(SIX),
            f"podman --runtime cgpu run {SLICE} IMAGE": Expect(SIX),
            "cgpu-runtime-config hooks": Expect(r"kernel module", 1),
        },
    ),
    "docs/container-engines/nvidia-runtime.md": Scenario(
        before={"cgpu-runtime-config nvidia": ("mkdir -p /etc/nvidia-container-runtime",)},
        expect={"cgpu-runtime-config nvidia": Expect(r"config.toml: runtime cgpu added")},
    ),
    "docs/variables.md": Scenario(
        before={f"{DOCKER_RUN} COMMAND": DOCKER_KNOWS},
        words={**IMAGE, "COMMAND": "/cgpu-probe info"},
        expect={f"{DOCKER_RUN} COMMAND": Expect(SIX)},
    ),
    "docs/cgpud.md": Scenario(
        inline=("cgpu install --engine daemon",),
        before={
            "cgpud --simulate T4": ("cgpud --stop",),
            "cgpud --stop --force": (T4,),
        },
        typed={
            # Without a GPU it has to be told of simulated ones, and the last two would wait for ever.
            "cgpud --foreground": FOREGROUND,
            "cgpud --transient": "cgpud --transient --simulate T4",
        },
        expect={
            "cgpud": Expect(r"load the NVIDIA driver, or start cgpud with --simulate MODEL", 1),
            "cgpud --status": Expect(r'"pid"'),
        },
    ),
    "docs/upgrade.md": Scenario(
        before={"cgpu upgrade": (T4,)},
        words={"PATH": "/opt/opencgpu/bin/cgpud"},
    ),
    "docs/commands/doctor.md": Scenario(
        before={"cgpu doctor": DOCKER_KNOWS},
        words={"FILE": "/tmp/bundle.tar.gz"},
        expect={"cgpu doctor --json": Expect(r'"format": ?"cgpu-doctor"')},
    ),
    "docs/commands/status.md": Scenario(
        before={
            "cgpu status": (
                *DOCKER_KNOWS,
                f"docker run -d --runtime=cgpu {SLICE} cgpu-test:latest /cgpu-probe alloc=512M hold=600",
                "sleep 0.5",
            )
        },
        shown={"NVIDIA 580.142, open": "simulated cards: T4", "docker, podman": "docker"},
        expect={
            "cgpu config explain max_inst": Expect(r"max_inst.*\n(.*\n)*.*default"),
            "cgpu config set max_inst 12 --apply": Expect(r""),
        },
    ),
    "docs/troubleshooting.md": Scenario(
        inline=(
            "cgpu config explain max_mem_container_mib",
            "cgpu config set max_inst 25 --apply",
            "cgpu uninstall --drain",
        ),
        before={"cgpu config explain max_mem_container_mib": (DAEMON, T4)},
        earlier=("cgpu doctor", "cgpu status"),
    ),
    "docs/commands/cgpu-run.md": Scenario(
        before={
            TRAIN: (T4, f'echo \'import os; os.execv("{PROBE}", ["train", "info"])\' >train.py'),
            AS_ALICE: (
                "cgpud --stop",
                "cgpud --simulate T4:2",
                "useradd alice",
                f"printf '#!/bin/sh\\nexec {PROBE} info gpu=1 info\\n' >server; chmod 755 server",
            ),
        },
        expect={
            TRAIN: Expect(r"info gpu=0 total=6442450944 "),
            AS_ALICE: Expect(r"info gpu=0 total=2147483648 (.*\n)+info gpu=1 total=4294967296 "),
        },
    ),
    "docs/architecture.md": Scenario(
        before={"cgpu-probe --dev /run/cgpu/sim group busy=5s:1ms": (f"cp {PROBE} /usr/local/bin", T4)},
        words={"busy=5s:": "busy=1s:"},
        expect={"cgpu-probe --dev /run/cgpu/sim group busy=5s:1ms": Expect(r"busy")},
    ),
    "docs/commands/cgpu-trace.md": Scenario(
        before={
            "docker cp cgpu-recorder NAME:/": (
                *DOCKER_KNOWS,
                f"cp {RECORDER} .",
                f"docker run -d --name sliced --runtime=cgpu {SLICE} {IMAGE['IMAGE']} /cgpu-probe hold=600",
            ),
            "cgpu trace replay --mem 1M FILE": (
                f"cgpu trace record -o /tmp/trace.jsonl --dev /run/cgpu/sim -- {PROBE_SIM} alloc=1M alloc=1M",
            ),
        },
        words={"FILE": "/tmp/trace.jsonl", "NAME": "sliced", "COMMAND": "/cgpu-probe info"},
        expect={"cgpu trace replay --mem 1M FILE": Expect(r"refused by the slice: NV_ERR_NO_MEMORY", 1)},
    ),
    "docs/tree.md": Scenario(
        before={"cat /run/cgpu_km/0/policy": (T4,)},
        expect={
            "cat /run/cgpu_km/0/policy": Expect(r"^1\n$"),
            "ls /run/cgpu_km/0": Expect(r"(.*\n)*policy\n"),
        },
    ),
    "docs/scheduling.md": Scenario(inline=("cgpu config explain policy",)),
    # Manual pages: the examples that no other document has.
    "docs/man/cgpu-install.1.md": Scenario(
        only=("cgpu install --engine daemon --runtimes docker --default-runtime",)
    ),
    "docs/man/cgpu-uninstall.1.md": Scenario(
        only=("cgpu uninstall --dry-run", "cgpu uninstall --drain --timeout 3600"),
        before={"cgpu uninstall --dry-run": (DAEMON,)},
        expect={
            "cgpu uninstall --dry-run": Expect(r"daemon.json"),
            "cgpu uninstall --drain --timeout 3600": Expect(r"all is taken back"),
        },
    ),
    "docs/man/cgpu-runtime-config.8.md": Scenario(
        before={DOCKER_RUN: (T4,)},
        words=IMAGE,
        expect={
            "cgpu-runtime-config docker --dry-run": Expect(r"\+.*cgpu-container-runtime"),
            DOCKER_RUN: Expect(SIX),
        },
    ),
    "docs/man/cgpu-smi.1.md": Scenario(
        only=("cgpu-smi --json -l 5 -i 0",),
        before={"cgpu-smi --json -l 5 -i 0": (T4,)},
        typed={"cgpu-smi --json -l 5 -i 0": f"{INTERRUPTED} cgpu-smi --json -l 5 -i 0"},
        expect={"cgpu-smi --json -l 5 -i 0": Expect(r'^\{.*"gpus".*\}\n$')},
    ),
    "docs/man/cgpu-trace.1.md": Scenario(
        before={RECORD: (T4,)},
        typed={RECORD: RECORD.replace("-- python3 matmul.py", f"--dev /run/cgpu/sim -- {PROBE_SIM} info")},
        expect={
            "cgpu trace show --summary matmul.jsonl": Expect(r"NV_ESC_RM_ALLOC"),
            "cgpu trace replay --model A10 --mem 6G matmul.jsonl": Expect(r" 0 differ\n"),
        },
    ),
    "docs/man/cgpu-run.1.md": Scenario(
        only=(RUN_SIMULATED,), expect={RUN_SIMULATED: Expect(r"6144 of 15109 MiB promised")}
    ),
    "docs/man/cgpu.1.md": Scenario(
        only=("cgpu run --mem 6G -- cgpu-smi",),
        before={"cgpu run --mem 6G -- cgpu-smi": (T4,)},
        expect={"cgpu run --mem 6G -- cgpu-smi": Expect(r"\nrun-[0-9a-f]{8} ")},
    ),
    "docs/man/cgpud.8.md": Scenario(only=("cgpud --simulate T4:2",)),
    "docs/man/cgpu-check-driver.1.md": Scenario(
        before={"cgpu check-driver --dev /run/cgpu/sim": (T4,)},
        expect={"cgpu check-driver --dev /run/cgpu/sim": Expect(r" 0 failed")},
    ),
}
