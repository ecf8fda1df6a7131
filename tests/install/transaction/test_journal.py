# SPDX-License-Identifier: Apache-2.0
"""Which journal records are trusted; steps on a read-only file system and under signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install.transaction import journal, signals
from cgpu.install.transaction.runner import Done
from cgpu.install.transaction.steps.system import Command, Commands
from tests.install.support import System, snapshot
from tests.install.transaction.conftest import Node

HEAD = '{"format": 1, "version": "1", "state": "installed", "operation": "", "committed": 0,'
# "path" is a number, which no release writes.
WRONG_CHANGE = '{"path": 5, "before": null, "after": null, "mode": 1, "meta": null}'
WRONG_STEP = f'{{"kind": "files", "title": "", "owner": "", "folders": [], "changes": [{WRONG_CHANGE}]}}'


@pytest.mark.parametrize(
    "text",
    [
        f'{HEAD} "facts": {{"runtimes": 7}}, "steps": []}}',
        f'{HEAD} "facts": {{}}, "steps": [{WRONG_STEP}]}}',
    ],
)
def test_a_record_with_wrong_types_is_refused(node: Node, text: str) -> None:
    """journal.load() finds a wrong type, which would otherwise stop a command halfway."""
    node.do(node.edit("etc/first", None, b"1\n"))
    (node.root / "var/lib/cgpu/install/journal.json").write_text(text)
    with pytest.raises(CgpuError, match="is not a record of this version"):
        journal.load(node.root)


def test_a_fifo_or_huge_file_as_record(node: Node) -> None:
    """A FIFO or a file of 1 TiB in the record's place is refused at once: reading it would not end."""
    place = node.root / "var/lib/cgpu/install/journal.json"
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    with pytest.raises(CgpuError, match="is not a record of this version"):
        journal.load(node.root)
    place.unlink()
    place.touch()
    os.truncate(place, 1 << 40)
    with pytest.raises(CgpuError, match="cannot be read"):
        journal.load(node.root)


@pytest.mark.root
@pytest.mark.parametrize(
    "name", ["", "install", "install/journal.json", "install/before", "install/released.json"]
)
def test_a_record_that_others_may_have_written(node: Node, name: str) -> None:
    """A record, its folders and what lies beside it are refused where others own or can write them.

    The line has the fix: root runs the commands of a record. No file of it is a link.
    """
    node.do(node.edit("etc/first", None, b"1\n"))
    place = node.root / "var/lib/cgpu" / name
    if name.endswith("released.json"):
        place.touch(mode=0o600)
    elif name.endswith("before"):
        place.mkdir(mode=0o700, exist_ok=True)
    assert journal.load(node.root) is not None
    mode = place.stat().st_mode
    refused = pytest.raises(
        CgpuError, match=r"others than root may have written.* chown -R root:root /.*/cgpu"
    )
    place.chmod(0o722)
    with refused:
        journal.load(node.root)
    place.chmod(mode)
    os.chown(place, 1000, 1000)
    with refused:
        journal.load(node.root)
    os.chown(place, 0, 0)
    if name in ("install/before", "install/released.json"):
        place.rename(node.root / "elsewhere")
        place.symlink_to(node.root / "elsewhere")
        with pytest.raises(CgpuError, match="is a link, and none of the record is"):
            journal.load(node.root)


@pytest.mark.root
def test_a_saved_content_that_others_own(node: Node) -> None:
    """get() refuses a content that others own or a symbolic link; put() writes the content anew."""
    store = journal.at(node.root).store
    name = store.put(b"1\n")
    os.chown(store.folder / name, 1000, 1000)
    with pytest.raises(CgpuError, match="owner 1000, mode 0600: others than root may have written"):
        store.get(name)
    assert store.put(b"1\n") == name
    assert store.get(name) == b"1\n"
    (store.folder / name).rename(node.root / "content")
    (store.folder / name).symlink_to(node.root / "content")
    with pytest.raises(CgpuError, match="cannot be read"):
        store.get(name)


def test_a_symbolic_link_in_place_of_the_contents(node: Node) -> None:
    """Without a record, sweep() removes the folder with its links, but no file that a link leads to."""
    folder = node.root / "var/lib/cgpu/install"
    folder.mkdir(parents=True)
    (folder / "before").symlink_to(node.root / "etc")
    before = snapshot(node.root / "etc")
    journal.sweep(folder)
    assert snapshot(node.root / "etc") == before
    assert not folder.exists()


@pytest.mark.root
def test_read_only_settings(node: Node, restored: Path) -> None:
    """On a read-only file system an edit fails, all steps are undone, and the node is as before."""
    script = """
mount --make-rprivate /
mount --bind "$1/etc" "$1/etc"
mount -o remount,bind,ro "$1/etc"
exec "$2" -c "$3" "$1"
"""
    work = """
import sys
from pathlib import Path
from cgpu.node_files import FileEdit
from cgpu.errors import CgpuError
from cgpu.install.transaction import journal
from cgpu.install.transaction import execute
from cgpu.install.transaction.steps import Context
from cgpu.install.transaction.steps.file_changes import FilesPlan
root = Path(sys.argv[1])
hosts = root / "etc/hosts"
for edit in FileEdit(hosts, hosts.read_bytes(), b""), FileEdit(root / "etc/new/x", None, b""):
    record = journal.at(root)
    try:
        context = Context(root, None, record.store, {})
        execute.run(record, context, "", [FilesPlan("x", (edit,))], {}, print)
    except CgpuError as error:
        print(error)
"""
    words = ["unshare", "-m", "bash", "-c", script, "x", str(node.root), sys.executable, work]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=True)
    # For each of the two edits the error is printed while the step runs, and at the end.
    assert done.stdout.count("Read-only file system") == 4
    assert "not all could be taken back" not in done.stdout


def test_signals_do_not_interrupt_an_undo(node: Node, restored: Path) -> None:
    """SIGINT, SIGTERM and SIGHUP do not interrupt the undo of a failed step."""

    class Fails(System):
        def run(self, words: Sequence[str], timeout: float = 0) -> Done:
            if words[1] == "stop":
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    os.kill(os.getpid(), number)
            return Done(int(words[1] == "start"), "")

    handler = signal.getsignal(signal.SIGTERM)
    node.system = Fails(node.root)
    start, stop = (Command(("systemctl", word)) for word in ("start", "stop"))
    with signals.interrupting(), pytest.raises(CgpuError, match="systemctl start"):
        node.do(node.edit("etc/first", None, b"1\n"), Commands("starts", do=(start,), undo=(stop,)))
    assert signal.getsignal(signal.SIGTERM) == handler


def test_an_ignored_signal_stays_ignored() -> None:
    """SIGHUP does not end a command under nohup(1), which ignores it, when the terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.interrupting():
            os.kill(os.getpid(), signal.SIGHUP)
            with signals.ignored():
                os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
