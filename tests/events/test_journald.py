# SPDX-License-Identifier: Apache-2.0
"""Lines with `log_format: journal`, as a real journald has them.

journald runs in a mount namespace with a /run of its own, in which cgpud, the hook and the exporter find its
socket where it always is. journald reads neither the kernel's log nor the audit log of this machine.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.commands import must

pytestmark = pytest.mark.root

JOURNALD = Path("/usr/lib/systemd/systemd-journald")
MACHINE_ID = Path("/etc/machine-id")
ID = "4a4b4c4d4e4f" + "0" * 52
MIB = 1 << 20
# $1: the interpreter, $2: the checkout, $3: a configuration, $4: id of the container. Its process is a sleep.
NODE = """
set -eu
mount -t tmpfs tmpfs /run
mkdir -p /run/log/journal /run/systemd/journald.conf.d
printf '[Journal]\\nStorage=volatile\\nReadKMsg=no\\nAudit=no\\n' >/run/systemd/journald.conf.d/test.conf
cd "$2"
cgpud() { "$1" -m cgpu.kmod.daemon.main "${@:2}" >&2; }
state() { printf '{"ociVersion":"1.0.2","id":"%s","status":"created","pid":%d,"bundle":"/"}' "$1" "$2"; }
JOURNALD >&2 & journald=$!
sleep 600 & process=$!
trap 'cgpud "$1" --stop --force || true; kill $process $journald' EXIT
for _ in $(seq 100); do [ -S /run/systemd/journal/socket ] && break; sleep 0.1; done
cgpud "$1" --simulate T4 --config "$3"
hook() { hook/cgpu-hook "$1" /run/cgpu_km "$2"; }
state "$4" $process | hook prestart "create id=$4 gpu=0:1048576:2:1"
state "$4" 0 | hook poststop "destroy id=$4"
state refused $process | hook prestart "create id=refused gpu=9:1048576:1:0" 2>/dev/null && exit 1
"$1" -m cgpu.main exporter --listen 192.0.2.1:1 && exit 1
journalctl --sync
journalctl --output json --no-pager _TRANSPORT=journal
""".replace("JOURNALD", str(JOURNALD))


@pytest.fixture(scope="module")
def entries(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Return what journald has of a node on which a slice started and ended, and another was refused."""
    if not JOURNALD.exists() or shutil.which("journalctl") is None:
        pytest.skip(f"{JOURNALD} or journalctl is not there; install: apt-get install systemd")
    if not MACHINE_ID.exists():
        pytest.skip(f"{MACHINE_ID} is not there, without which journald keeps nothing")
    config = tmp_path_factory.mktemp("journald") / "config.yaml"
    config.write_text("log_format: journal\n")
    command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", NODE, "node"]
    done = must([*command, sys.executable, repository, config, ID], timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


def own(entry: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that the sender has set."""
    return {key: value for key, value in entry.items() if not key.startswith("_")}


def of(entries: list[dict[str, str]], component: str) -> list[dict[str, str]]:
    return [own(one) for one in entries if one["SYSLOG_IDENTIFIER"] == component]


CONTAINER = {"CONTAINER_ID": ID[:12], "CONTAINER_ID_FULL": ID}
SLICE = {"GPU": "0", "MEMSIZE": str(MIB), "WEIGHT": "2", "HIGHPRIO": "1"}


def test_daemon(entries: list[dict[str, str]]) -> None:
    """cgpud's lines have the fields of docs/configuration.md, and so have the events."""
    found = of(entries, "cgpud")
    assert {one["PRIORITY"] for one in found} == {"6"}
    common = {"PRIORITY": "6", "SYSLOG_IDENTIFIER": "cgpud", **CONTAINER}
    events = {one["EVENT"]: one for one in found if "EVENT" in one}
    assert list(events) == ["ready", "started", "ended"]
    uuid = events["started"]["GPU_UUID"]
    assert uuid.startswith("GPU-")
    assert events["started"] == {
        **common,
        **SLICE,
        "GPU_UUID": uuid,
        "EVENT": "started",
        "MESSAGE": f"GPU 0: slice of container {ID} started",
    }
    assert (events["ended"]["PEAK"], events["ended"]["GPU_UUID"]) == ("0", uuid)
    registered = next(one for one in found if " registered on " in one["MESSAGE"])
    assert registered == {**common, "GPU": "0", "MESSAGE": registered["MESSAGE"]}


def test_hook(entries: list[dict[str, str]]) -> None:
    """The hook's line has the container that was refused, and the severity; of slices the engine tells."""
    (refused,) = of(entries, "cgpu-hook")
    expected = {"PRIORITY": "3", "CONTAINER_ID": "refused", "CONTAINER_ID_FULL": "refused"}
    assert refused | expected == refused
    assert refused["MESSAGE"].startswith("container refused: no GPU 9 here")


def test_exporter(entries: list[dict[str, str]]) -> None:
    """The exporter's line says at which severity it ended, and why."""
    (failed,) = of(entries, "cgpu-exporter")
    assert failed["PRIORITY"] == "3"
    assert failed["MESSAGE"].startswith("192.0.2.1:1: cannot listen (Cannot assign requested address)")
