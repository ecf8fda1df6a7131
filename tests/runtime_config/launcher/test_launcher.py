# SPDX-License-Identifier: Apache-2.0
"""The C launcher: its decisions without Python, and starts that it hands on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgpu.config.effective import DEFAULTS, Effective
from cgpu.errors import CgpuError
from cgpu.request.spec import read
from cgpu.runtime_config.engines import nvidia
from cgpu.runtime_config.oci_runtime.lowlevel import BELOW, LOW_LEVEL, NAME
from tests.request.shares import SHARE, by_containerd, variable
from tests.request.test_any import entries, notes
from tests.runtime_config.support import Launcher, program, spec

PYTHON = ["python", "-IS"]


def start(launcher: Launcher, document: object) -> str:
    """Return which program a start of this bundle goes to."""
    return launcher.run("create", "--bundle", str(launcher.bundle(document)), "id")[0]


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
    '{"linux":{"devices":[{"major":1,"minor":3},{"major":195}]}}',
    '{"linux":{"devices":[{"major":1.95e2}]}}',
    '{"linux":{"devices":[{"major":null}]}}',
    '{"linux":{"devices":[{"major":-1}]}}',
    '{"linux":{"devices":[{"major":1',
    '{"linux":{"resources":{"devices":[{"allow":true,"access":"rwm"}]}}}',
    '{"linux":{"resources":{"devices":[{"access":"rw","allow" : true}]}}}',
    '{"linux":{"resources":{"devices":[{"allow":false,"access":"rwm"},{"allow":true,"type":"c"}]}}}',
    '{"linux":{"resources":{"devices":[{"allow":tr',
    '{"annotations":{"cdi.k8s.io/x":"nvidia.com/gpu=0"}}',
    '{"process":{"env":["CUDA_VERSION=8.0"]}}',
]
PASSED = [
    # The escapes of Go's encoder, and a spec that only the runtime can judge.
    '{"a":"\\u003c\\u003e\\u0026\\u2028\\u001b"}',
    "{}",
    "",
    "not json",
    '"opencgpu"',
    # The nodes and rules that every container has.
    '{"linux":{"devices":[{"major":1,"minor":195},{"path":"major"}]}}',
    '{"linux":{"resources":{"devices":[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":1}]}}}',
    '{"linux":{"resources":{"devices":[{"allow":true,"type":"c","access":"m"},{"type":"b","allow":true}]}}}',
    '{"linux":{"resources":{"devices":[{"allow":true,"type":"c","major":1950,"access":"rwm"}]}}}',
]


@pytest.mark.parametrize("document", SEEN)
def test_what_may_ask_goes_through_python(launcher: Launcher, document: object) -> None:
    """Each spelling of a request is seen, and each node of the driver."""
    assert start(launcher, document) == "python"


@pytest.mark.parametrize("text", PASSED)
def test_what_holds_no_request_passes(launcher: Launcher, text: str) -> None:
    """A config.json that asks for nothing needs no Python."""
    assert start(launcher, text) == "runc"


def test_files_of_simulated_cards(launcher: Launcher, tmp_path: Path) -> None:
    """A mount of them names a GPU, by whichever path; one of another folder names none."""
    cards = launcher.simulated_cards
    (tmp_path / "link").symlink_to(cards.parent)
    (tmp_path / "other").mkdir()

    def mounting(source: Path | str) -> str:
        return start(launcher, {"mounts": [{"destination": "/x", "type": "bind", "source": str(source)}]})

    before = [mounting(cards), mounting(cards / "card")]
    (cards / "card").mkdir(parents=True)
    assert before == ["runc", "runc"]
    assert mounting(cards) == mounting(cards / "card") == mounting(tmp_path / "link" / cards.name) == "python"
    assert mounting(str(cards).replace("/", "\\/")) == "python"
    assert mounting(tmp_path / "other") == mounting(f"{cards}2") == mounting("tmpfs") == "runc"


def test_a_bundle_that_cannot_be_read(launcher: Launcher, tmp_path: Path) -> None:
    """No config.json, and a named pipe in its place, are Python's to explain, and nothing waits."""
    assert launcher.run("create", "--bundle", str(tmp_path), "id")[:2] == PYTHON
    os.mkfifo(tmp_path / "config.json")
    assert launcher.run("create", "--bundle", str(tmp_path), "id")[:2] == PYTHON


# Misspelt names, and ways to name a GPU that requests of any kind have not.
TRACES = st.sampled_from(
    ["OPENCGPU_MEN=6G", "opencgpu_mem=6G", "OPENCGPU-MEM=6G", "OPENCGPU_SHARE_1=1", "A=<b>", "ALIYUN_COM=1"]
)
NOTES = st.sampled_from(
    [{"opencgpu/mem": "6"}, {"opencgpu.io": "6"}, {"cdi.k8s.io/x": "nvidia.com/gpu=all"}, by_containerd()]
)
RULES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "allow": st.booleans() | st.none(),
            "type": st.sampled_from(["c", "u", "b", "a", "", None]),
            "major": st.sampled_from([195, 226, 1, 19, 1950, -1, None, "195"]),
            "minor": st.sampled_from([0, 255, -1, None]),
            "access": st.sampled_from(["rwm", "rw", "r", "m", "", None]),
        },
    ),
    max_size=3,
)
LINUX = st.builds(lambda nodes, rules: {"devices": nodes, "resources": {"devices": rules}}, RULES, RULES)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(entries | TRACES, max_size=3), notes | NOTES, LINUX, st.booleans(), st.booleans())
def test_the_launcher_never_passes_a_request(
    launcher: Launcher,
    variables: list[str],
    annotations: dict[str, str],
    linux: dict[str, object],
    plain: bool,
    pods: bool,
) -> None:
    """Each bundle that Python would edit or refuse goes through Python."""
    document = spec(*variables, annotations=annotations, linux=linux)
    config = Effective(default_memsize=1 << 30, allow_hami_variables=True, pod_variables=pods)
    try:
        request = read(document, config)
        concerns = bool(request.shares)
        concerns = concerns or request.amounts(config) is not None or request.defers(config)
    except CgpuError:
        concerns = True
    assert start(launcher, json.dumps(document, ensure_ascii=plain)) == "python" or not concerns


def test_the_order_of_low_level_runtimes(launcher: Launcher) -> None:
    """Without a setting the vendor's runtime comes first, then runc, then crun."""
    launcher.tool("crun")
    assert launcher.run("state", "id")[0] == "runc"
    launcher.tool("nvidia-container-runtime")
    assert launcher.run("state", "id")[0] == "nvidia-container-runtime"
    (launcher.bin / "nvidia-container-runtime").unlink()
    (launcher.bin / "runc").unlink()
    assert launcher.run("state", "id")[0] == "crun"


def test_without_a_runtime_python_explains(launcher: Launcher) -> None:
    """When no low-level runtime is found the message comes from Python."""
    (launcher.bin / "runc").unlink()
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


def test_the_launcher_never_starts_itself(launcher: Launcher, tmp_path: Path) -> None:
    """A link called runc to the launcher, or to a copy of it under either of its names, is passed over."""
    copies = [shutil.copy2(launcher.program, tmp_path / name) for name in (NAME, LOW_LEVEL)]
    launcher.tool("crun")
    for target in (launcher.program, *copies):
        (launcher.bin / "runc").unlink()
        (launcher.bin / "runc").symlink_to(target)
        assert launcher.run("state", "id")[0] == "crun"


def test_the_configured_runtime_is_used(launcher: Launcher, tmp_path: Path) -> None:
    """low_level_runtime of the engine's settings comes before any search."""
    other = launcher.tool("other", tmp_path)
    launcher.config.write_text(json.dumps({**DEFAULTS, "low_level_runtime": str(other)}))
    assert launcher.run("state", "id") == ["other", "state", "id"]
    launcher.config.write_text(json.dumps(DEFAULTS, indent=2))
    assert launcher.run("state", "id")[0] == "runc"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"low_level_runtime": "runc"}',
        '{"low_level_runtime": ""}',
        '{"low_level_runtime": 7}',
        '{"low_level_runtime": "/a\\u002fb"}',
        '{"low_level_runtime": ["/bin/sh"]}',
        '{"low_level_runtime": "/bin/sh", "low_level_runtime": "/bin/sh"}',
        '{"a": {"low_level_runtime": "/bin/sh"}}',
        '{"a": 1} x',
        '{"a": 1,}',
        '{"a" 1}',
        '{"a": "\n"}',
        '{"low_level_runtime": "/' + "x" * 5000 + '"}',
        '{"a": "' + "x" * 20000 + '"}',
        '{"low_level_runtime": "/does/not/exist"}',
    ],
)
def test_settings_that_are_not_plain_go_to_python(launcher: Launcher, text: str) -> None:
    """The launcher uses settings only in the engine's own form, and a runtime only where there is one."""
    launcher.config.write_text(text)
    assert launcher.run("state", "id")[:2] == PYTHON


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.binary(max_size=80))
def test_any_settings_file_is_survived(launcher: Launcher, raw: bytes) -> None:
    """No content of the settings makes the launcher fail."""
    launcher.config.write_bytes(raw)
    assert launcher.run("state", "id")[0] in ("runc", "python")


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
    launcher.tool("runc")
    vendor = program(launcher.bin / "nvidia-container-runtime", f'exec {launcher.program} "$@"')
    place = launcher.bundle(spec("ALIYUN_COM_GPU_MEM_CONTAINER=6"))
    assert launcher.run("state", "id") == ["runc", "state", "id"]
    launcher.config.write_text(json.dumps({**DEFAULTS, "low_level_runtime": str(vendor)}))
    assert launcher.run("state", "id") == ["runc", "state", "id"]
    assert launcher.run("create", "-b", str(place), "id")[:2] == PYTHON


@pytest.mark.parametrize("variables", [(), ("ALIYUN_COM_GPU_MEM_CONTAINER=6",)])
@pytest.mark.parametrize("entry", ["vendor", "launcher"])
@pytest.mark.parametrize("configured", [None, "vendor", "other"])
def test_first_in_the_vendors_list(
    launcher: Launcher, variables: tuple[str, ...], entry: str, configured: str | None
) -> None:
    """NVIDIA's runtime with ours first in its list works once, whichever of the two is named."""
    text = nvidia.add('[nvidia-container-runtime]\nruntimes = ["runc"]\n', str(launcher.program))
    first = tomllib.loads(text)["nvidia-container-runtime"]["runtimes"][0]
    script = f'echo pass >>{launcher.base}/passes\nexec {first} "$@"'
    vendor = program(launcher.bin / "nvidia-container-runtime", script)
    other = launcher.tool("other")
    if configured is not None:
        path = {"vendor": vendor, "other": other}[configured]
        launcher.config.write_text(json.dumps({**DEFAULTS, "low_level_runtime": str(path)}))
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
        assert called == ("other" if configured == "other" else "runc")
    passes = (launcher.base / "passes").read_text().split() if (launcher.base / "passes").exists() else []
    # Python goes on to it by itself, and there is no need where another runtime is named.
    needed = entry == "vendor" or (not variables and configured != "other")
    assert passes == ["pass"] * needed


def test_a_mark_of_another_process_means_nothing(launcher: Launcher) -> None:
    """The mark for a call back counts only in the process that set it."""
    place = launcher.bundle(spec("ALIYUN_COM_GPU_MEM_CONTAINER=6"))
    assert launcher.run("create", "-b", str(place), "id", env={"CGPU_RUNTIME_AGAIN": "1"})[:2] == PYTHON


@pytest.mark.root
def test_settings_closed_to_the_caller_mean_defaults() -> None:
    """A rootless container engine may not read the settings; containers without requests run all the same."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        launcher = Launcher(Path(place)).build()
        launcher.tool("runc")
        launcher.config.write_text("{}")
        launcher.config.chmod(0o600)
        subprocess.run([str(launcher.program), "state", "id"], user=65534, env={}, check=True, timeout=60)
        assert (launcher.base / "calls").read_text().split("\0")[0] == "runc"
