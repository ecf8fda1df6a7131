# SPDX-License-Identifier: Apache-2.0
"""The C launcher: its decisions without Python, and starts that it hands on."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request.request import decide
from cgpu.request.spec import read
from cgpu.runtime_config.engines import nvidia
from cgpu.runtime_config.oci_runtime.lowlevel import BELOW
from tests.request.shares import SHARE, by_containerd, variable
from tests.request.test_any import entries, notes
from tests.runtime_config.support import Launcher, program, spec

PYTHON = ["python", "-IS"]


def start(launcher: Launcher, document: object) -> str:
    """Return which program a start of this bundle goes to."""
    return launcher.run("create", "--bundle", str(launcher.bundle(document)), "id")[0]


def rules(*found: str) -> str:
    return '{"linux":{"resources":{"devices":[' + ",".join(found) + "]}}}"


SEEN = [
    # Variables that can make a slice, or be refused.
    spec("ALIYUN_COM_GPU_MEM_CONTAINER=6"),
    spec("ALIYUN_COM_GPU_SCHD_WEIGHT="),
    spec("OPENCGPU_MEM=6G"),
    spec("CUDA_DEVICE_MEMORY_LIMIT_0=1g"),
    # The same misspelt, which Python refuses.
    spec("opencgpu_mem=6G"),
    spec("OPENCGPU-MEM=6G"),
    spec("aliyun_com_gpu_mem_container=6"),
    spec("ALIYUN-COM-GPU-MEM-CONTAINER=6"),
    '{"annotations":{"opencgpu/mem":"6G"}}',
    '{"annotations":{"opencgpu\\/mem":"6G"}}',
    '{"annotations":{"opencgpu.com/mem":"6G"}}',
    spec("NVIDIA_VISIBLE_DEVICES=all"),
    spec("CGPU_DISABLE=true"),
    # The variable of a share, alone and however it is written.
    spec(f"{variable(SHARE)}={SHARE}", annotations=by_containerd()),
    spec(f"{variable(SHARE).replace('6F1C', '6f1c')}={SHARE}"),
    spec("OPENCGPU_SHARE_="),
    '{"process":{"env":["\\u004fPENCGPU_SHARE_6F1C=x"]}}',
    '{"process":{"env":["OPENCGPU\\u005fSHARE_6F1C=x"]}}',
    # JSON's ways to write a letter.
    '{"annotations":{"opencgpu.io/mem-container":"6"}}',
    '{"annotations":{"opencgpu.io\\/mem-container":"6"}}',
    '{"annotations":{"\\u006fpencgpu.io/mem-container":"6"}}',
    '{"process":{"env":["ALIYUN\\u005fCOM_GPU_MEM_CONTAINER=6"]}}',
    '{"process":{"env":["\\u0041LIYUN_COM_GPU_MEM_CONTAINER=6"]}}',
    '{"x":"\\u00',
    # A node or rule of the driver, of the DRM, of every device, or one that is not plain.
    '{"linux":{"devices":[{"path":"/dev/x","type":"c","major":195,"minor":0}]}}',
    '{"linux":{"devices":[{"major" :\n\t195}]}}',
    '{"linux":{"devices":[{"major":226,"minor":128}]}}',
    '{"linux":{"devices":[{"major":511,"minor":0}]}}',
    '{"linux":{"devices":[{"major":1,"minor":3},{"major":195}]}}',
    '{"linux":{"devices":[{"major":1,"major":195}]}}',
    *(
        f'{{"linux":{{"devices":[{{"major":{major}}}]}}}}'
        for major in ("1.95e2", "null", "-1", "9" * 30, "", "0x1")
    ),
    '{"linux":{"devices":[{"major":1',
    '{"linux":{"devices":[{"m\\u0061jor":195}]}}',
    rules('{"allow":true,"access":"rwm"}'),
    rules('{"access":"rw","allow" : true}'),
    rules('{"allow":true,"type":"a","access":"rwm"}'),
    rules('{"allow":true,"type":"c","access":"rm"}'),
    rules('{"allow":true,"type":"c","access":"m","access":"r"}'),
    rules('{"allow":false,"access":"rwm"}', '{"allow":true,"type":"c"}'),
    rules('{"allow":1}'),
    '{"linux":{"resources":{"devices":[{"allow":tr',
    '{"annotations":{"cdi.k8s.io/x":"nvidia.com/gpu=0"}}',
    '{"process":{"env":["CUDA_VERSION=8.0"]}}',
    # A string that ends otherwise than it seems.
    '{"process":{"env":["a\\\\","OPENCGPU_MEM=6G","\\""]}}',
    '{"a":"\\\\","linux":{"devices":[{"major": 195}]}}',
    b'\xff{"process":{"env":["OPENCGPU_MEM=6G"]}}',
    b"\0" * 5000 + b'{"process":{"env":["OPENCGPU_MEM=6G"]}}' + b"\0" * 70000,
    b" " * ((16 << 20) + 1),
]
PASSED = [
    # The escapes of Go's encoder, and a spec that only the runtime can judge.
    '{"a":"\\u003c\\u003e\\u0026\\u2028\\u001b"}',
    "{}",
    "",
    "not json",
    '"cgpu"',
    # The nodes and rules that every container has, as Go writes them and with blanks.
    '{"linux":{"devices":[{"major":1,"minor":195},{"path":"major"},{"type":"b","major": 8}]}}',
    rules('{"allow":false,"access":"rwm"}', '{"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"}'),
    rules('{"allow": true,\n\t"type": "c",\n\t"major": 136,\n\t"access": "rwm"}'),
    rules('{"allow":true,"type":"c","access":"m"}', '{"allow":true,"type":"b","access":"m"}'),
    rules('{"allow":true,"type":"b","major":8,"access":"rwm"}'),
    # What only looks like a rule.
    '{"process":{"env":["X={\\"allow\\":true,\\"major\\":195}"]}}',
]


@pytest.mark.parametrize("document", SEEN)
def test_what_may_ask_goes_through_python(launcher: Launcher, document: object) -> None:
    """Each spelling of a request is seen, and each node of the driver."""
    assert start(launcher, document) == "python"


@pytest.mark.parametrize("text", PASSED)
def test_what_holds_no_request_passes(launcher: Launcher, text: str) -> None:
    """A config.json that asks for nothing needs no Python."""
    assert start(launcher, text) == "runc"


def test_simulated_cards(launcher: Launcher) -> None:
    """Where there are simulated cards, Python looks at mounts of the host: they give one by any path."""
    mounts = [{"destination": "/x", "type": "bind", "source": "/x"}]
    mounting = [json.dumps({"mounts": mounts}), json.dumps({"mounts": mounts}, indent=1)]
    mounting.append(mounting[0].replace('"/x", "type', '"/x", "Type').replace(': "/x"}', ': "\\/x"}'))
    assert {start(launcher, text) for text in mounting} == {"runc"}
    launcher.simulated_cards.mkdir(parents=True)
    try:
        assert {start(launcher, text) for text in mounting} == {"python"}
        assert start(launcher, spec()) == "runc"
    finally:
        launcher.simulated_cards.rmdir()


def test_a_bundle_that_cannot_be_read(launcher: Launcher, tmp_path: Path) -> None:
    """No config.json, and a named pipe in its place, are Python's to explain, and nothing waits."""
    assert launcher.run("create", "--bundle", str(tmp_path), "id")[:2] == PYTHON
    os.mkfifo(tmp_path / "config.json")
    assert launcher.run("create", "--bundle", str(tmp_path), "id")[:2] == PYTHON


# Misspelt names, and ways to name a GPU that requests of any kind have not.
TRACES = st.sampled_from(
    ["OPENCGPU_MEN=6G", "opencgpu_mem=6G", "OPENCGPU-MEM=6G", "OPENCGPU_SHARE_1=1", "A=<b>", "ALIYUN_COM=1"]
)
# As an image may try to have the rest of the file read otherwise.
HOSTILE = st.sampled_from(["\\", '"', '\\"', '","', "a\\\\", "\\u0041", "\0", "\ud800", "\u0130", "{", "]"])
NOTES = st.sampled_from(
    [{"opencgpu/mem": "6"}, {"opencgpu.io": "6"}, {"cdi.k8s.io/x": "nvidia.com/gpu=all"}, by_containerd()]
)
RULE = st.fixed_dictionaries(
    {},
    optional={
        "allow": st.booleans() | st.none(),
        "type": st.sampled_from(["c", "u", "b", "a", "", None]),
        "major": st.sampled_from([195, 226, 1, 19, 194, 1950, -1, None, "195", 1.0, 1e300]),
        "minor": st.sampled_from([0, 255, -1, None]),
        "access": st.sampled_from(["rwm", "rw", "r", "m", "", None]),
    },
)
# In any order of the members.
RULES = st.lists(
    RULE.flatmap(lambda rule: st.permutations(list(rule.items())).map(dict)) | RULE,
    max_size=3,
)
LINUX = st.builds(lambda nodes, rules: {"devices": nodes, "resources": {"devices": rules}}, RULES, RULES)
WRITERS = st.sampled_from(
    [{}, {"ensure_ascii": False}, {"indent": "\t"}, {"indent": 1}, {"separators": (",", ":")}]
)


def asks(document: dict[str, object], config: Effective) -> bool:
    """Return whether Python finds a request in a specification, or refuses it."""
    try:
        return decide(read(document, config), config) is not None
    except CgpuError:
        return True


@settings(suppress_health_check=list(HealthCheck))
@given(
    st.lists(entries | TRACES | HOSTILE, max_size=3),
    notes | NOTES | st.dictionaries(HOSTILE, HOSTILE, max_size=2),
    LINUX,
    WRITERS,
    st.booleans(),
)
def test_the_launcher_never_passes_a_request(
    launcher: Launcher,
    variables: list[str],
    annotations: dict[str, str],
    linux: dict[str, object],
    writer: dict[str, Any],
    pods: bool,
) -> None:
    """Each bundle that Python would edit or refuse goes through Python."""
    document = spec(*variables, annotations=annotations, linux=linux)
    config = Effective(default_memsize=1 << 30, allow_hami_variables=True, pod_variables=pods)
    raw = json.dumps(document, **writer).encode("utf-8", "surrogatepass")
    assert start(launcher, raw) == "python" or not asks(document, config)


@pytest.mark.parametrize("target", ["/does/not/exist", "runc", None])
def test_without_a_runtime_python_explains(launcher: Launcher, target: str | None) -> None:
    """Where the engine's link leads nowhere, or there is none, Python looks for a runtime."""
    launcher.lead_to(None if target is None else Path(target))
    assert launcher.run("state", "id")[:2] == PYTHON


@pytest.mark.root
def test_without_its_own_files(launcher: Launcher) -> None:
    """A launcher that does not find its script says why, and nothing of Python."""
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "launcher"]
    command += [str(launcher.program), "create", "--bundle", "/nowhere", "id"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    line = b"opencgpu: /proc/self/exe: No such file or directory; this program finds its other files by it\n"
    # Sanitizers miss the name, too.
    assert (done.returncode, line in done.stderr, b"Python" in done.stderr) == (1, True, False)


def test_the_launcher_never_starts_itself(launcher: Launcher) -> None:
    """A link that leads to the launcher, by whichever name, is Python's to explain."""
    for target in (launcher.program, launcher.low_level):
        launcher.lead_to(target)
        assert launcher.run("state", "id")[:2] == PYTHON


def test_the_environment_goes_on_unchanged(launcher: Launcher) -> None:
    """The runtime gets the environment that the container engine set."""
    launcher.run("state", "id", env={"NOTIFY_SOCKET": "/n", "LD_LIBRARY_PATH": "/l", "PYTHONPATH": "/p"})
    assert {"NOTIFY_SOCKET=/n", "LD_LIBRARY_PATH=/l", "PYTHONPATH=/p"} <= set(launcher.environment())


def test_python_is_started_without_loader_variables(launcher: Launcher) -> None:
    """LD_ variables wait under another name while Python runs, and lose no byte."""
    launcher.run(
        "create", "--bundle", "/does/not/exist", "id", env={"LD_PRELOAD": "", "LD_AUDIT": "/a=b", "A": "1"}
    )
    kept = [entry for entry in launcher.environment() if "LD_" in entry or entry.startswith("A=")]
    assert sorted(kept) == ["A=1", "CGPU_KEPT_LD_AUDIT=/a=b", "CGPU_KEPT_LD_PRELOAD="]


def test_the_vendors_runtime_may_call_back(launcher: Launcher) -> None:
    """A call that comes back from the vendor's runtime in the same process goes on to runc."""
    vendor = program(launcher.bin / "nvidia-container-runtime", f'exec {launcher.program} "$@"')
    place = launcher.bundle(spec("ALIYUN_COM_GPU_MEM_CONTAINER=6"))
    launcher.lead_to(vendor, plain=launcher.tool("runc"))
    assert launcher.run("state", "id") == ["runc", "state", "id"]
    assert launcher.run("create", "-b", str(place), "id")[:2] == PYTHON


@pytest.mark.parametrize("variables", [(), ("ALIYUN_COM_GPU_MEM_CONTAINER=6",)])
@pytest.mark.parametrize("entry", ["vendor", "launcher"])
@pytest.mark.parametrize("linked", ["vendor", "other"])
def test_first_in_the_vendors_list(
    launcher: Launcher, variables: tuple[str, ...], entry: str, linked: str
) -> None:
    """NVIDIA's runtime with ours first in its list works once, whichever of the two is named."""
    text = nvidia.add('[nvidia-container-runtime]\nruntimes = ["runc"]\n', str(launcher.program))
    first = tomllib.loads(text)["nvidia-container-runtime"]["runtimes"][0]
    script = f'echo pass >>{launcher.base}/passes\nexec {first} "$@"'
    vendor = program(launcher.bin / "nvidia-container-runtime", script)
    runc, other = launcher.tool("runc"), launcher.tool("other")
    launcher.lead_to(*((vendor, runc) if linked == "vendor" else (other, None)))
    place = launcher.bundle(spec(*variables))
    for name in ("calls", "passes"):
        (launcher.base / name).unlink(missing_ok=True)
    start = {"vendor": vendor, "launcher": launcher.program}[entry]
    subprocess.run([str(start), "create", "-b", str(place), "id"], check=True, timeout=60)
    called = (launcher.base / "calls").read_text().split("\0")[0]
    if variables:
        assert called == "python"
        marked = any(one.startswith(f"{BELOW}=") for one in launcher.environment())
        assert marked == (entry == "vendor")
    else:
        assert called == ("other" if linked == "other" else "runc")
    passes = (launcher.base / "passes").read_text().split() if (launcher.base / "passes").exists() else []
    # Python goes on to it by itself, and there is no need where another runtime is named.
    needed = entry == "vendor" or (not variables and linked != "other")
    assert passes == ["pass"] * needed


def test_a_mark_of_another_process_means_nothing(launcher: Launcher) -> None:
    """The mark for a call back counts only in the process that set it."""
    place = launcher.bundle(spec("ALIYUN_COM_GPU_MEM_CONTAINER=6"))
    assert launcher.run("create", "-b", str(place), "id", env={"CGPU_RUNTIME_AGAIN": "1"})[:2] == PYTHON


@pytest.mark.root
def test_a_rootless_container_engine() -> None:
    """Whoever calls, a container without a request needs no right but to follow the engine's link."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        launcher = Launcher(Path(place)).build()
        launcher.lead_to(launcher.tool("runc"))
        bundle = launcher.bundle(spec())
        for words in (["state", "id"], ["create", "-b", str(bundle), "id"]):
            subprocess.run([str(launcher.program), *words], user=65534, env={}, check=True, timeout=60)
            assert (launcher.base / "calls").read_text().split("\0")[0] == "runc"
            (launcher.base / "calls").unlink()
