# SPDX-License-Identifier: Apache-2.0
"""What the hook may import. Every module here is paid for at every start of a container."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.client.support import T4
from tests.hook.support import HOOK, FakeTree, code_of_hook
from tests.request.shares import SHARE, asking, by_containerd, put
from tests.request.support import spec

# `import json` is not among them: it brings re and enum, which cost half as much as the interpreter's start.
STANDARD = {"__future__", "errno", "os", "sys", "syslog", "_json"}
PACKAGES = {"cgpu", "cgpu.client", "cgpu.config", "cgpu.hook", "cgpu.request"}
SHARED_BY_ALL = {"cgpu.errors", "cgpu.fastjson", "cgpu.files", "cgpu.paths", "cgpu.request.grants"}
OF_THE_HOOK = {f"cgpu.hook.{name}" for name in ("log", "main", "register", "state")}
OURS = PACKAGES | SHARED_BY_ALL | OF_THE_HOOK | {"cgpu.client.tree", "cgpu.config.effective"}
FROM_BUNDLE = {f"cgpu.request.{name}" for name in ("spec", "resolve", "names", "validate")}
FROM_BUNDLE |= {"cgpu.hook.spec", "cgpu.sizes"}
DEAR = {"json", "re", "enum", "typing", "dataclasses", "pathlib", "subprocess", "logging", "difflib"}
NAME_MODULES = "os.write(2, ' '.join(sys.modules).encode())"


def modules(code: str, *arguments: str, stdin: str = "", folder: Path | None = None) -> set[str]:
    """Return the modules that a program of Python names on standard error."""
    command = ["/usr/bin/python3", "-IS", "-c", code, *arguments]
    done = subprocess.run(command, input=stdin.encode(), capture_output=True, check=True, cwd=folder)
    return set(done.stderr.decode().split())


def interpreter() -> set[str]:
    """Return the modules of the standard library's share of the budget, with what they bring."""
    return modules(f"import {', '.join(sorted(STANDARD))}; {NAME_MODULES}")


GRANTED = ("prestart", "--grant", "0:1048576:1:0")
ASKING = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "NVIDIA_VISIBLE_DEVICES": "all"}
OF_A_POD = {"cgpu.request.pod", "cgpu.request.device_nodes"}
OF_A_SHARE = {"cgpu.request.by_shares", "cgpu.shares"}
FROM_STATE = ("createRuntime",)
SHARED = ("prestart", "--share", SHARE)
# What an engine writes costs one module more, and only where the hook has to read the request itself.
DEVICES: dict[str, Any] = {"linux": {"resources": {"devices": [{"allow": False, "access": "rwm"}]}}}


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    """Return a tree of two T4 cards, for the hook in Python."""
    return FakeTree(tmp_path).build(T4, T4)


@pytest.mark.root
@pytest.mark.parametrize(
    ("arguments", "env", "members", "more"),
    [
        (GRANTED, ASKING, {}, set()),
        (GRANTED, ASKING, DEVICES, set()),
        (SHARED, ASKING, {}, set()),
        (("poststop",), ASKING, {}, set()),
        (FROM_STATE, ASKING, {}, FROM_BUNDLE),
        (FROM_STATE, ASKING, DEVICES, FROM_BUNDLE | {"cgpu.request.device_nodes"}),
        # A container of a pod costs the look at its annotations; only a share costs more.
        (FROM_STATE, ASKING, {"annotations": by_containerd()}, FROM_BUNDLE | OF_A_POD),
        (FROM_STATE, asking(SHARE), {"annotations": by_containerd()}, FROM_BUNDLE | OF_A_POD | OF_A_SHARE),
    ],
)
def test_imports(
    tree: FakeTree, arguments: tuple[str, ...], env: dict[str, str], members: dict[str, Any], more: set[str]
) -> None:
    """The hook imports what the budget allows, and nothing else."""
    put(tree.shares)
    tree.bundle(spec(env, **members))
    found = imported(tree, *arguments)
    assert found - interpreter() == OURS | more
    assert not found & DEAR


def test_imports_for_a_name(tree: FakeTree) -> None:
    """What writes the name of a container is imported where the runtime says one, and nobody has written it.

    The wrapper has written it where it has worked out the grants.
    """
    tree.bundle(spec(ASKING))
    state = tree.state(annotations={"io.kubernetes.cri.sandbox-name": "web"})
    by_docker = tree.state(bundle=str(tree.base / "moby" / "bundle"))
    for arguments, one in ((GRANTED, state), (GRANTED, by_docker), (("poststop",), by_docker)):
        assert imported(tree, *arguments, state=one) - interpreter() == OURS
    assert not tree.events.exists()
    more = {"cgpu.events", "cgpu.events.append", "cgpu.hook.event_log"}
    assert imported(tree, "prestart", state=state) - interpreter() == OURS | FROM_BUNDLE | more
    assert tree.events.exists()


def imported(tree: FakeTree, *arguments: str, state: str | None = None) -> set[str]:
    """Return the modules that the hook has imported at its end."""
    tree.settings["pod_variables"] = True
    tree.command()  # writes the configuration
    code = code_of_hook(f"{NAME_MODULES}; sys.exit(status)")
    return modules(code, *arguments, stdin=state or tree.state(), folder=tree.base)


def test_launcher_is_isolated() -> None:
    """The hook names its interpreter absolutely and starts it without site and environment."""
    assert b"\0/usr/bin/python3\0" in HOOK.read_bytes()
    assert b"\0-IS\0" in HOOK.read_bytes()
