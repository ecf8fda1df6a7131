# SPDX-License-Identifier: Apache-2.0
"""Starts of containers: such as ask for a slice in each way, and with one thing changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.runtime_config.oci_runtime.wrapper import FIRST
from tests.runtime_config.support import ASKING, OTHER, UUID, JsonObject, spec

ALLOW = {"defaultAction": "SCMP_ACT_ALLOW"}
DENY = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "architectures": ["SCMP_ARCH_X86_64"],
    "syscalls": [{"names": ["read", "ioctl", "mmap"], "action": "SCMP_ACT_ALLOW"}],
}
LISTENER = {**ALLOW, "listenerPath": "/x"}
CARD = {"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}
NOTE = "opencgpu.io/"


@dataclass(frozen=True)
class Start:
    """A container's start: its config.json, its id, the words before that, and the node's default amount."""

    raw: bytes
    container: str = "c1"
    command: str = "create"
    log_format: str = "json"
    default_memsize: int = 0


# Each part of a request is some variables, or some annotations.
amounts = st.sampled_from(
    [
        ASKING,
        *((f"OPENCGPU_MEM={text}",) for text in ("6G", "512M", "40%", "1.5G", "6442450944", "16G", "2G,1G")),
        ("ALIYUN_COM_GPU_MEM_CONTAINER=1", "ALIYUN_COM_GPU_MEM_DEV=2"),
        (f"{NOTE}mem=3G",),
        ("OPENCGPU_MEM=9G", f"{NOTE}mem=3G"),
        (f"{NOTE}mem-container=6", f"{NOTE}mem-dev=15"),
    ]
)
cards = st.sampled_from(
    [
        *((f"NVIDIA_VISIBLE_DEVICES={text}",) for text in ("0", "1", "all", UUID, OTHER, "0,1")),
        (f"NVIDIA_VISIBLE_DEVICES={UUID},{OTHER}",),
        ("OPENCGPU_GPUS=1", "NVIDIA_VISIBLE_DEVICES=0,1"),
        ("ALIYUN_COM_GPU_VISIBLE_DEVICES=0,1",),
        ("OPENCGPU_CDI_GPU_1=1",),
        (f"{NOTE}gpus=0",),
        (f"{NOTE}visible-devices={OTHER}",),
    ]
)
extras = st.sampled_from(
    [
        (),
        (),
        *((f"OPENCGPU_WEIGHT={text}",) for text in ("1", "7", "20")),
        ("ALIYUN_COM_GPU_SCHD_WEIGHT=3", "ALIYUN_COM_GPU_HIGH_PRIO=1"),
        ("OPENCGPU_PRIORITY=high",),
        (f"{NOTE}weight=2", f"{NOTE}priority=normal"),
        ("CUDA_VERSION=12.4", "NVIDIA_REQUIRE_CUDA=cuda>=12"),
    ]
)
MOUNTS = [
    [{"destination": "/dev/nvidia0", "type": "bind", "source": "/x"}],
    [{"destination": f"/m{at}", "source": "/", "options": ["rbind"]} for at in range(9)],
    [],
    None,
]
HOOKS = [
    {"prestart": [{"path": "/bin/true", "timeout": 1e0}], "poststart": []},
    {"createRuntime": [{"path": "/usr/bin/nvidia-container-runtime-hook"}]},
    {"poststop": [{"path": "/bin/true"}], "prestart": None},
    {},
]
LINUX: dict[str, list[Any]] = {
    "seccomp": [ALLOW, DENY, LISTENER, None],
    "maskedPaths": [["/proc/kcore"], ["/run/cgpu"], None],
    "devices": [[], [CARD], [{**CARD, "path": "/dev/null", "major": 1, "minor": 3}]],
    "resources": [{"devices": [{"allow": False, "access": "rwm"}]}, {}],
}
members = st.fixed_dictionaries(
    {},
    optional={
        "hostname": st.sampled_from(["", "é", 'a"\\', "\n", "\u2028", "x" * 300]),
        "mounts": st.sampled_from(MOUNTS),
        "hooks": st.sampled_from(HOOKS),
        "linux": st.fixed_dictionaries(
            {}, optional={name: st.sampled_from(found) for name, found in LINUX.items()}
        ),
    },
)


def _document(parts: Sequence[Sequence[str]], more: JsonObject) -> JsonObject:
    words = [word for part in parts for word in part]
    document = spec(*(word for word in words if not word.startswith(NOTE)), **more)
    annotations = dict(word.split("=", 1) for word in words if word.startswith(NOTE))
    return {**document, "annotations": annotations} if annotations else document


def _start(
    document: object,
    default: int = 0,
    log_format: str = "json",
    command: str = "create",
    container: str = "c1",
) -> Start:
    return Start(json.dumps(document).encode(), container, command, log_format, default)


commands = st.sampled_from(["create", "create", "create", "run"])
containers = st.sampled_from(["c1", "0123456789abcdef" * 4, "a_b.c+d-e"])
log_formats = st.sampled_from(["json", "json", "text", ""])
asking = st.builds(lambda *parts: _document(parts[:3], parts[3]), amounts, cards, extras, members)
by_default = st.builds(lambda *parts: _document(parts[:2], parts[2]), cards, extras, members)
by_words = (log_formats, commands, containers)
valid = st.builds(_start, asking, st.just(0), *by_words) | st.builds(
    _start, by_default, st.just(5 << 30), *by_words
)
silent = st.builds(_start, members.map(lambda more: spec(**more)), st.just(0), *by_words)

texts = st.sampled_from(
    ["", "0", "1", "6", "15", "all", "2G", "x", "-1", "1" * 30, "٣", "a\nb", "\0", "0,1", "0,0"]
)
names = st.sampled_from(
    [
        *("ALIYUN_COM_GPU_MEM_CONTAINER", "ALIYUN_COM_GPU_MEM_DEV", "ALIYUN_COM_GPU_SCHD_WEIGHT"),
        *("ALIYUN_COM_GPU_VISIBLE_DEVICES", "OPENCGPU_MEM", "OPENCGPU_GPUS", "NVIDIA_VISIBLE_DEVICES"),
        *("CGPU_DISABLE", "OPENCGPU_PRIORITY", "aliyun_com_gpu_mem_container", "OPENCGPU_MEN"),
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
junk = st.sampled_from([b"", b"}", b"\xff", b'"', b"\\u0041", b" ", b"\0"])


def _spoil(start: Start, cut: int, inserted: bytes, dropped: int) -> Start:
    raw = start.raw
    return replace(start, raw=raw[:cut] + inserted + raw[cut + dropped :])


def _add(start: Start, path: Sequence[str], value: Any) -> Start:
    document = json.loads(start.raw)
    place = document
    for name in path[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            return start
    place[path[-1]] = value
    return replace(start, raw=json.dumps(document).encode())


paths = st.sampled_from(
    [
        *(("mounts",), ("hooks",), ("linux",), ("root",), ("process",), ("annotations",), ("Hooks",)),
        *(("process", "env"), ("process", "Env"), ("linux", "seccomp"), ("linux", "maskedPaths")),
        *(("hooks", "prestart"), ("linux", "devices"), ("annotations", "opencgpu.io/mem")),
        *(("annotations", "run.oci.handler"), ("annotations", "opencgpu.io/men"), ("annotations", "x")),
    ]
)
near = (
    st.builds(_spoil, valid, st.integers(0, 600), junk, st.integers(0, 2))
    | st.builds(_add, valid, paths, values)
    | st.builds(
        lambda document, word: _start({**document, "process": {"env": [*ASKING, FIRST, word]}}),
        asking,
        st.tuples(names, texts).map("=".join),
    )
    | st.builds(
        lambda start, container, command: replace(start, container=container, command=command),
        valid,
        st.sampled_from(["policy", "a b", "..", "c1", ""]),
        st.sampled_from(["create", "run", "restore"]),
    )
)
# Half of them ask for a slice as they should.
starts = st.sampled_from([valid] * 5 + [silent] + [near] * 3).flatmap(lambda kind: kind)
