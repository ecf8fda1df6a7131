# SPDX-License-Identifier: Apache-2.0
"""The wrapper as a program: specs that it leaves alone, its edits, and its refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.config import refused
from cgpu.config.load import load
from cgpu.errors import CgpuError
from cgpu.runtime_config.oci_runtime.main import report
from tests.integration.commands import eventually
from tests.request.shares import by_containerd
from tests.runtime_config.oci_runtime.wrapper import FIRST, RUNNER, Wrapper, refusal
from tests.runtime_config.support import ASKING, OTHER, spec

START = paths.daemon_command("start")


def test_a_sliced_container(wrapper: Wrapper) -> None:
    """A request is resolved, the spec edited, and the low-level runtime called with the same arguments."""
    edited = wrapper.start(*ASKING, "ALIYUN_COM_GPU_VISIBLE_DEVICES=1")
    log = ["--log", str(wrapper.log), "--log-format", "json"]
    assert wrapper.started() == [*log, "create", "--bundle", str(wrapper.place), "c1"]
    assert edited["hooks"]["prestart"][0]["args"][-1] == "create id=c1 gpu=1:6336544768:1:0"
    assert f"NVIDIA_VISIBLE_DEVICES={OTHER}" in edited["process"]["env"]
    assert edited["linux"]["seccomp"]["listenerMetadata"] == "c1"
    assert [mount["destination"] for mount in edited["mounts"]] == ["/proc", "/dev/nvidiactl", "/dev/nvidia1"]
    assert not wrapper.log.exists()


@pytest.mark.parametrize(
    "document",
    [
        spec(),
        spec("NVIDIA_VISIBLE_DEVICES=all"),
        spec(*ASKING, "CGPU_DISABLE=1"),
        spec("ALIYUN_COM_GPU_MEM_CONTAINER=0,0"),
        spec("NVIDIA_VISIBLE_DEVICES=void", annotations=by_containerd()),
        {},
        b' {"a" : 1.0e+5, "b":\t[-0, 1e400] , "\\u0063":"\\/"}\n\n',
    ],
)
def test_a_container_that_is_not_sliced(wrapper: Wrapper, document: object) -> None:
    """A container without a request has the same config.json afterwards, down to the inode."""
    raw = wrapper.bundle(document)
    before = wrapper.config.stat()
    assert wrapper.create().status == 0
    after = wrapper.config.stat()
    assert wrapper.config.read_bytes() == raw
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert wrapper.started()[-1] == "c1"


def test_a_container_that_asks_for_nothing_needs_no_engine(wrapper: Wrapper) -> None:
    """While the engine is down, containers without a request start."""
    shutil.rmtree(wrapper.tree)
    shutil.rmtree(wrapper.run_directory / "cdi.json", ignore_errors=True)
    wrapper.start("NVIDIA_VISIBLE_DEVICES=all")


def only_event(log: Path) -> dict[str, object]:
    """Return the event that was written. A server writes it after its answer."""
    eventually(lambda: log.exists() and log.read_text().endswith("\n"), "an event is written")
    entry: dict[str, object] = json.loads(log.read_text())
    return entry


def test_the_name_of_a_pods_container(wrapper: Wrapper) -> None:
    """A container's name in its pod goes to the event log, where it gets a slice."""
    log = wrapper.run_directory / "events.log"
    names = {"io.kubernetes.cri.sandbox-name": "web", "io.kubernetes.cri.container-name": "main"}
    wrapper.settings(pod_variables=True).bundle(spec(annotations=names))
    assert wrapper.create().status == 0
    assert not log.exists()
    wrapper.bundle(spec(*ASKING, FIRST, annotations=names))
    assert wrapper.create().status == 0
    entry = only_event(log)
    assert (entry["event"], entry["id"], entry["pod"], entry["container"]) == ("named", "c1", "web", "main")


def test_the_nodes_default_makes_a_slice(wrapper: Wrapper) -> None:
    """A container that names a GPU and no amount gets the default that the tree has at that moment."""
    (wrapper.tree / "default_memsize").write_text("1073741824\n")
    wrapper.start(FIRST)
    assert "0:1073741824:1:0" in wrapper.config.read_text()


def test_a_stopped_engine_refuses_slices(wrapper: Wrapper) -> None:
    """While the engine is down a slice is refused with the command that brings it back."""
    wrapper.bundle(spec(*ASKING))
    shutil.rmtree(wrapper.tree)
    assert refusal(wrapper) == (
        f"the engine at {wrapper.tree} is not running, so containers with a GPU slice cannot start; "
        f"start it: {START}"
    )


def test_an_engine_that_refuses_its_configuration(wrapper: Wrapper, tmp_path: Path) -> None:
    """While a wrong configuration keeps the engine down, the refusal names its line."""
    wrapper.bundle(spec(*ASKING))
    shutil.rmtree(wrapper.tree)
    config = tmp_path / "config.yaml"
    config.write_text("policy: 9\n")
    with pytest.raises(CgpuError) as caught:
        load(config)
    refused.note(str(config), str(caught.value), str(wrapper.run_directory / "config-refused.json"))
    line = refusal(wrapper)
    assert f"it refuses its configuration: {config}:1: policy 9 does not exist; expected 0 " in line
    assert line.endswith(f"correct that, then: {START}")
    config.write_text("policy: 2\n")
    assert refusal(wrapper).endswith(f"cannot start; start it: {START}")


@pytest.mark.parametrize("name", ["cdi.json", "seccomp.sock"])
def test_a_half_started_engine_refuses_slices(wrapper: Wrapper, name: str) -> None:
    """Without description or listener the engine is not ready."""
    missing = wrapper.run_directory / name
    missing.unlink()
    restart = paths.daemon_command("restart")
    assert refusal(wrapper) == f"{missing}: missing, so the engine is not ready: {restart}"


def test_an_unknown_engine_refuses_slices(tmp_path: Path) -> None:
    """A tree of an engine that is neither of the two gets no container."""
    wrapper = Wrapper(tmp_path / "node").build("other 1.0")
    assert refusal(wrapper) == f"{wrapper.tree}/engine: other: expected cgpud or cgpu_km"


REFUSED = [
    (spec("ALIYUN_COM_GPU_MEM_CONTAINER=x"), "ALIYUN_COM_GPU_MEM_CONTAINER=x: "),
    (spec(*ASKING), "this node has 2 GPUs; choose with OPENCGPU_GPUS=0 (or 0,1, a UUID, or all)"),
    (spec(*ASKING, FIRST, linux=[]), "config.json: linux: a list: expected an object"),
    (b'{"process":{},"process":{},"x":"OPENCGPU_"}', "the key process appears twice"),
    (
        b'{"Process":{"env":["ALIYUN_COM_GPU_MEM_CONTAINER=6"]}}',
        "the field Process could be taken for process",
    ),
    (b'["OPENCGPU_"]', "config.json: a list: expected one JSON object"),
    (b" " * ((16 << 20) + 1), "config.json: expected at most 16777216 bytes"),
]


@pytest.mark.parametrize(("document", "message"), REFUSED)
def test_what_is_refused(wrapper: Wrapper, document: object, message: str) -> None:
    """A request that cannot be met is refused in one line, on stderr and in the log; nothing is changed."""
    wrapper.bundle(document)
    assert message in refusal(wrapper)


@pytest.mark.parametrize("container", ["a/b", "", "ä", "x" * 200])
def test_ids_that_cannot_be_registered(wrapper: Wrapper, container: str) -> None:
    """An id that no container can have is refused before anything is started."""
    assert refusal(wrapper, container).startswith("container id ")


def test_an_option_that_is_not_known(alone: Wrapper) -> None:
    """A call of which the launcher does not know where the bundle is starts nothing."""
    words = ["", ".", "", str(alone.log), "json", "--new"]
    result = alone.run(*alone.python(RUNNER), *words, "--new", "create", "c1")
    assert (result.status, alone.started()) == (1, [])
    assert result.errors.startswith("opencgpu: option --new: not known here, so the place of the bundle is ")
    assert "option --new" in alone.log.read_text()


def test_a_checkpoint_of_a_slice_is_not_restored(wrapper: Wrapper) -> None:
    """Restoring would start a container that never went through the hook."""
    result = wrapper.call("restore", "--bundle", str(wrapper.place), "c1")
    assert (result.status, wrapper.started()) == (1, [])
    assert "cannot be restored from a checkpoint" in result.errors
    wrapper.bundle(spec())
    assert wrapper.call("restore", "--bundle", str(wrapper.place), "c1").status == 0


def test_the_runtimes_flags_are_asked_for_once(wrapper: Wrapper) -> None:
    """WAIT_KILLABLE_RECV is set where the runtime says it supports it, and the question is put once."""
    flags = '["SECCOMP_FILTER_FLAG_SPEC_ALLOW","SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"]'
    answer = f'{{"linux":{{"seccomp":{{"supportedFlags":{flags}}}}}}}'
    wrapper.runtime(f"[ \"$1\" != features ] || {{ echo x >>{wrapper.base}/asked; echo '{answer}'; }}\n")
    for _ in range(2):
        assert wrapper.start(*ASKING, FIRST)["linux"]["seccomp"]["flags"] == json.loads(flags)
    assert (wrapper.base / "asked").read_text() == "x\n"
    assert [path.name for path in wrapper.run_directory.glob("runtime-*")] == ["runtime-features-runc"]


@pytest.mark.parametrize("script", ["exit 1\n", "echo garbage\n", "kill -9 $$\n", 'echo "[]"\n'])
def test_a_runtime_that_does_not_tell_its_flags(wrapper: Wrapper, script: str) -> None:
    """A runtime without a usable answer gets no flag."""
    wrapper.runtime(f'if [ "$1" = features ]; then {script.rstrip()}; fi\n')
    assert "flags" not in wrapper.start(*ASKING, FIRST)["linux"]["seccomp"]


def test_both_forms_of_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The log gets one line in the form it was asked in, after what it had; stderr gets one in any case."""
    path = tmp_path / "log"
    path.write_text("before\n")
    report('a "b" \\c', str(path), "json")
    report('a "b" \\c', f"file:{path}", "text")
    before, as_json, as_text = path.read_text().splitlines()
    assert (before, json.loads(as_json)["msg"]) == ("before", 'opencgpu: a "b" \\c')
    assert as_text.endswith(' level=error msg="opencgpu: a \\"b\\" \\\\c"')
    assert capfd.readouterr().err == 'opencgpu: a "b" \\c\n' * 2


@pytest.mark.parametrize("log", ["", "journald:x", "syslog:x", "/does/not/exist/log", "/"])
def test_without_a_log_there_is_stderr(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a log file, or a writable one, stderr has to do."""
    report("why", log, "json")
    assert capfd.readouterr().err == "opencgpu: why\n"
