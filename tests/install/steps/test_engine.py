# SPDX-License-Identifier: Apache-2.0
"""Settings of container engines: what others have done to them since; engines that release the runtime."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install.checks import software as checks
from cgpu.install.installer import Installer, Request
from cgpu.install.node.facts import settings, software
from cgpu.install.runner import TIMEOUT_S, Done
from cgpu.install.steps import engine as engine_step
from cgpu.install.steps import named
from cgpu.install.store import Store
from cgpu.replace import temporary
from cgpu.runtime_config.engines.containerd import Containerd
from cgpu.runtime_config.engines.docker import Docker
from cgpu.runtime_config.engines.engine import ContainerEngine
from cgpu.runtime_config.engines.nvidia import Nvidia
from cgpu.runtime_config.engines.registry import ENGINES
from cgpu.runtime_config.engines.systems import system
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER
from tests.install import faults
from tests.install.engines import BETWEEN, WHALE, Lines
from tests.install.support import System, facts, installer, snapshot
from tests.runtime_config.engines.kinds import KINDS, Kind
from tests.runtime_config.engines.nodes import Machine

BEFORE = "debug=true\nlog-level=warn\n"
FOREIGN = "foreign=1\n"


def settle(root: Path, engine: ContainerEngine, system: System | None = None) -> Installer:
    """Return the installer of a node with one engine."""
    return installer(root, system, {engine.name: engine})


def install(root: Path, engine: ContainerEngine = WHALE, *, default: bool = False) -> None:
    settle(root, engine).install(Request("daemon", (engine.name,), default))


def add_foreign(root: Path) -> None:
    with (root / WHALE.path).open("a") as file:
        file.write(FOREIGN)


# --- what others have done to the settings ---


@pytest.mark.parametrize("later", [False, True])
def test_edits_of_others_stay(root: Path, *, later: bool) -> None:
    """Only the runtime goes, whether the edit came after our last change or between two of them."""
    install(root)
    add_foreign(root)
    if later:
        install(root, default=True)
    one = settle(root, WHALE)
    assert "# whale: takes the runtime cgpu out of /etc/whale/whale.conf" in list(one.show_uninstall())
    assert one.uninstall(None)
    assert (root / WHALE.path).read_text() == BEFORE + FOREIGN


def test_settings_that_were_removed_stay_removed(root: Path) -> None:
    """Uninstall does not restore a file that the user has removed."""
    install(root)
    (root / WHALE.path).unlink()
    settle(root, WHALE).uninstall(None)
    assert not (root / WHALE.path).exists()


def docker(root: Path, text: str) -> tuple[Docker, Path]:
    """Return docker without a program, and its settings with that text."""
    path = root / "etc/docker/daemon.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return Docker(search=(str(root / "bin"),)), path


def test_json_that_a_tool_has_written_anew(root: Path) -> None:
    """nvidia-ctk sorts and indents daemon.json, and adds its runtime: ours is found by its name."""
    engine, path = docker(root, '{"log-level": "warn"}\n')
    install(root, engine, default=True)
    settings = json.loads(path.read_text())
    settings["runtimes"]["nvidia"] = {"args": [], "path": "nvidia-container-runtime"}
    path.write_text(json.dumps(settings, indent=4, sort_keys=True) + "\n")
    settle(root, engine).uninstall(None)
    nvidia = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert json.loads(path.read_text()) == {"log-level": "warn", "runtimes": nvidia}


def containerd(root: Path, folder: Path, *, imports: bool) -> tuple[Containerd, Path]:
    """Return containerd 2.2 with settings that import others, or not; and the file that gets the runtime."""
    dump = 'case "$*" in *dump*) echo "version = 3" ;; *) echo "containerd version 2.2.0" ;; esac'
    Machine(folder).program("containerd", dump)
    main = root / "etc/containerd/config.toml"
    main.parent.mkdir(parents=True)
    main.write_text("version = 3\n" + ('imports = ["/etc/containerd/conf.d/*.toml"]\n' if imports else ""))
    engine = Containerd(search=(str(folder / "bin"),))
    return engine, root / "etc/containerd/conf.d/99-cgpu.toml" if imports else main


def without_comments(path: Path) -> None:
    """Write a file as tools do that parse it and print it anew."""
    lines = path.read_text().splitlines()
    assert any(str(LAUNCHER) in line for line in lines)
    path.write_text("".join(f"{line}\n" for line in lines if not line.lstrip().startswith("#")))


@pytest.mark.parametrize("imports", [False, True])
def test_toml_whose_comments_are_lost(root: Path, tmp_path: Path, *, imports: bool) -> None:
    """A tool that writes TOML anew loses comments: the runtime goes by its name and its program."""
    engine, path = containerd(root, tmp_path, imports=imports)
    before = snapshot(root)
    install(root, engine)
    settle(root, engine).uninstall(None)
    assert snapshot(root) == before
    install(root, engine)
    without_comments(path)
    assert settle(root, engine).uninstall(None)
    assert snapshot(root) == before


def test_entries_that_nvidia_ctk_has_copied(root: Path, tmp_path: Path) -> None:
    """nvidia-ctk 1.20 prints config.toml anew and copies all runtimes into its own file: both lose ours."""
    engine, path = containerd(root, tmp_path, imports=False)
    install(root, engine)
    assert str(LAUNCHER) in path.read_text()
    copy = path.with_name("conf.d") / "99-nvidia.toml"
    copy.parent.mkdir()
    path.write_text(f'imports = ["/etc/containerd/conf.d/*.toml"]\nversion = 3\n{rewritten("runc")}')
    copy.write_text(f"version = 3\n{rewritten('nvidia')}")
    assert settle(root, engine).uninstall(None)
    left = [tomllib.loads(one.read_text())["plugins"][CRI]["containerd"]["runtimes"] for one in (path, copy)]
    assert [list(one) for one in left] == [["runc"], ["nvidia"]]


CRI = "io.containerd.cri.v1.runtime"


def rewritten(other: str, default: str = "") -> str:
    """Return the tables of two runtimes in the form in which nvidia-ctk 1.20 prints them."""
    lines = ["", "[plugins]", "", f'  [plugins."{CRI}"]', "", f'    [plugins."{CRI}".containerd]']
    lines += [f'      default_runtime_name = "{default}"'] if default else []
    lines += ["", f'      [plugins."{CRI}".containerd.runtimes]']
    for name, program in (("cgpu", LAUNCHER), (other, f"/usr/bin/{other}")):
        table = f'plugins."{CRI}".containerd.runtimes.{name}'
        lines += ["", f"        [{table}]", '          runtime_type = "io.containerd.runc.v2"']
        lines += ["", f"          [{table}.options]", f'            BinaryName = "{program}"']
    return "\n".join(lines) + "\n"


def test_a_default_of_which_nobody_knows_the_former_one(root: Path, tmp_path: Path) -> None:
    """Without its comment the former default is lost: the file is named, and nothing is taken out."""
    engine, path = containerd(root, tmp_path, imports=False)
    install(root, engine)
    path.write_text(f"version = 3\n{rewritten('runc', 'cgpu')}")
    was = path.read_text()
    with pytest.raises(
        CgpuError, match=r"config\.toml: .*default_runtime_name: cgpu: which one it was before"
    ):
        settle(root, engine).uninstall(None)
    assert path.read_text() == was
    path.write_text(was.replace('"cgpu"', '"runc"'))
    assert settle(root, engine).uninstall(None)
    assert str(LAUNCHER) not in path.read_text()


def test_a_default_that_was_copied(root: Path, tmp_path: Path) -> None:
    """NVIDIA's toolkit copies the default runtime too: our drop-in tells that there was none before."""
    engine, path = containerd(root, tmp_path, imports=True)
    install(root, engine, default=True)
    copy = path.with_name("99-nvidia.toml")
    copy.write_text(f"version = 3\n{rewritten('nvidia', 'cgpu')}")
    assert settle(root, engine).uninstall(None)
    assert "cgpu" not in copy.read_text()
    assert not path.exists()


def test_an_entry_that_cannot_be_taken_out(root: Path, tmp_path: Path) -> None:
    """One in an inline table beside others is named, and the uninstallation has failed."""
    engine, path = containerd(root, tmp_path, imports=False)
    install(root, engine)
    both = f"{{cgpu = {{options = {{BinaryName = '{LAUNCHER}'}}}}, runc = {{}}}}"
    path.write_text(f'version = 3\n[plugins."{CRI}".containerd]\nruntimes = {both}\n')
    was = path.read_text()
    with pytest.raises(CgpuError, match=r"config\.toml: .*runtimes\.cgpu cannot be taken out"):
        settle(root, engine).uninstall(None)
    assert path.read_text() == was


def test_the_list_of_nvidias_runtime_without_comments(root: Path, tmp_path: Path) -> None:
    """nvidia-ctk config --set prints config.toml anew: our program leaves the list, the others stay."""
    Machine(tmp_path).program("nvidia-container-runtime", "true")
    path = root / "etc/nvidia-container-runtime/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[nvidia-container-runtime]\nmode = "auto"\nruntimes = ["docker-runc", "runc"]\n')
    before = snapshot(root)
    engine = Nvidia(search=(str(tmp_path / "bin"),))
    install(root, engine)
    without_comments(path)
    assert settle(root, engine).uninstall(None)
    assert snapshot(root) == before


def test_lines_of_others_between_our_marks(root: Path, tmp_path: Path) -> None:
    """A table that somebody has put between our marks is named, and nothing is taken out with it."""
    engine, path = containerd(root, tmp_path, imports=False)
    before = path.read_text()
    install(root, engine)
    ours = path.read_text()
    mine = f'[plugins."{CRI}".containerd.runtimes.kata]\nruntime_type = "io.containerd.kata.v2"\n'
    path.write_text(ours.replace("# <<<", f"{mine}# <<<"))
    was = path.read_text()
    with pytest.raises(CgpuError, match=r"config\.toml: .*runtimes\.kata.* lies between its marks"):
        settle(root, engine).uninstall(None)
    assert path.read_text() == was
    path.write_text(ours + mine)
    assert settle(root, engine).uninstall(None)
    assert path.read_text() == before + mine


def test_a_file_that_the_engine_does_not_read(root: Path, tmp_path: Path) -> None:
    """A file of the engine's folder that nobody imports is named: it may be read later."""
    engine, _ = containerd(root, tmp_path, imports=False)
    install(root, engine)
    other = root / "etc/containerd/conf.d/50-old.toml"
    other.parent.mkdir()
    other.write_text(f"version = 3\n{rewritten('runc')}")
    with pytest.raises(CgpuError, match=r"/etc/containerd/conf.d/50-old.toml: still has the runtime cgpu"):
        settle(root, engine).uninstall(None)
    other.unlink()
    assert settle(root, engine).uninstall(None)


def test_a_runtime_in_another_imported_file(root: Path, tmp_path: Path) -> None:
    """Uninstall removes an entry that the user moved to another file, and changes nothing else there."""
    engine, path = containerd(root, tmp_path, imports=True)
    install(root, engine)
    theirs = path.with_name("50-site.toml")
    theirs.write_text("version = 3\noom_score = 1\n" + path.read_text().replace("version = 3\n", ""))
    path.unlink()
    settle(root, engine).uninstall(None)
    assert theirs.read_text() == "version = 3\noom_score = 1\n"
    assert not path.exists()


@pytest.mark.parametrize("killed", [False, True])
def test_settings_that_are_refused(root: Path, *, killed: bool) -> None:
    """An engine that refuses its new settings has the former ones again, also after a killed run."""

    class Picky(Lines):
        def check(self, root: Path) -> None:
            raise CgpuError("whale: unknown key cgpu")

    if killed:
        install(root)
        store = Store.load(root)
        store.start("install", "engine whale")
    with pytest.raises(
        CgpuError, match="whale: adds the runtime cgpu: whale: unknown key cgpu; what was done"
    ):
        install(root, Picky("whale", WHALE.path))
    assert (root / WHALE.path).read_text() == BEFORE


# --- an engine that releases the runtime first ---


@pytest.mark.parametrize("foreign", ["", FOREIGN])
def test_killed_in_between(root: Path, foreign: str) -> None:
    """A removal that was killed with the temporary settings in place is ended by the next one."""
    install(root)
    with (root / WHALE.path).open("a") as file:
        file.write(foreign)
    at = 0
    while BETWEEN not in (root / WHALE.path).read_text():
        assert faults.in_child(lambda: settle(root, WHALE).uninstall(None), at)
        at += 1
    system = System(root)
    settle(root, WHALE, system).uninstall(None)
    assert "systemctl try-restart whale" in system.commands
    assert (root / WHALE.path).read_text() == BEFORE + foreign
    assert not temporary(root / WHALE.path).exists()


@pytest.mark.parametrize("releases", [True, False])
def test_an_engine_that_takes_its_time(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, releases: bool
) -> None:
    """The last settings wait until the engine says that it has released; one that never does is named."""
    answers = ['"cgpu"', '"cgpu"', '"runc"'] if releases else ['"cgpu"']
    asked: list[str] = []

    class Slow(System):
        def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
            if words[0] != "ask":
                return super().run(words, timeout)
            asked.append((self.root / WHALE.path).read_text())
            return Done(0, answers[min(len(asked), len(answers)) - 1])

    monkeypatch.setattr(engine_step, "POLL_S", 0)
    monkeypatch.setattr(engine_step, "DEADLINE_S", 60 if releases else 0)
    engine = replace(WHALE, asks=("ask",))
    install(root, engine)
    one = settle(root, engine, Slow(root))
    one.uninstall(None)
    assert len(asked) >= len(answers)
    assert all(BETWEEN in text for text in asked)
    assert ("To do: restart whale, which still has the runtime cgpu" in one.notes) != releases
    assert (root / WHALE.path).read_text() == BEFORE


def test_an_engine_that_does_not_come_up(root: Path) -> None:
    """On the way back a reload that fails is told, and the settings come back all the same."""
    install(root)
    one = settle(root, WHALE, System(root, "whale"))
    one.uninstall(None)
    assert any("To do: reload whale, which still has its old settings" in line for line in one.notes)
    assert (root / WHALE.path).read_text() == BEFORE


# --- places that nobody can write ---

PROTECTED = {
    "read-only": 'mount --bind "$1/etc/whale" "$1/etc/whale"; mount -o remount,bind,ro "$1/etc/whale"',
    "record": 'mount --bind "$1/var" "$1/var"; mount -o remount,bind,ro "$1/var"',
    "immutable": 'chattr +i "$1/etc/whale/whale.conf" || exit 77',
}
TRY = """
import sys
from pathlib import Path
from cgpu.errors import CgpuError
from tests.install.engines import WHALE
from tests.install.support import DAEMON, installer
root = Path(sys.argv[1])
one = installer(root, engines={"whale": WHALE})
print(*one.show_install(DAEMON), sep="\\n")
try:
    one.install(DAEMON)
except CgpuError as error:
    print(error)
"""


@pytest.mark.root
@pytest.mark.parametrize("kind", PROTECTED)
def test_a_file_that_cannot_be_changed(root: Path, kind: str) -> None:
    """--dry-run predicts it, and install refuses before it changes anything."""
    before = snapshot(root)
    script = f'mount --make-rprivate /; {PROTECTED[kind]}; exec "$2" -c "$3" "$1"'
    words = ["unshare", "-m", "bash", "-c", script, "x", str(root), sys.executable, TRY]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    subprocess.run(["chattr", "-i", root / WHALE.path], capture_output=True, check=False)
    if done.returncode == 77:
        # chattr(1) fails on an overlay, and on tmpfs before Linux 6.6; the file system is the machine's.
        pytest.skip("this file system has no immutable files")
    place = {"read-only": f"{root}/etc/whale is on a read-only file system"}.get(
        kind, f"{root / WHALE.path} is immutable: chattr -i {root / WHALE.path}"
    )
    line = f"/etc/whale/whale.conf: cannot be changed: {place}"
    if kind == "record":
        line = "/var/lib/cgpu/install/record.json: cannot be changed: "
    assert f"problem: {line}" in done.stdout, done.stderr
    assert any(
        one.startswith(line) and one.endswith("nothing was changed") for one in done.stdout.splitlines()
    )
    assert snapshot(root) == before


UNDO = """
import sys
from pathlib import Path
from tests.install.engines import WHALE
from tests.install.support import installer
print(*installer(Path(sys.argv[1]), engines={"whale": WHALE}).show_uninstall(), sep="\\n")
"""


@pytest.mark.root
def test_dry_run_of_uninstall_predicts_it(root: Path) -> None:
    """--dry-run of uninstall names a file that cannot be changed back."""
    install(root)
    script = f'mount --make-rprivate /; {PROTECTED["read-only"]}; exec "$2" -c "$3" "$1"'
    words = ["unshare", "-m", "bash", "-c", script, "x", str(root), sys.executable, UNDO]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert f"problem: /etc/whale/whale.conf: cannot be changed: {root}/etc/whale is on" in done.stdout, done


def test_steps_of_another_version(root: Path) -> None:
    """A record with a step or an engine that this version does not know is named in one line."""
    with pytest.raises(CgpuError, match="step wash x: is in the record, and this version does not know it"):
        named("wash x")
    install(root)
    with pytest.raises(CgpuError, match="engine whale: is in the record, and this version"):
        installer(root, engines={}).uninstall(None)


def test_a_system_that_forgets_etc(root: Path) -> None:
    """Container-Optimized OS has /etc in memory: what has to be done after each boot is said."""
    (root / "etc/os-release").write_text("ID=cos\n")
    one = installer(root)
    one.install(Request("daemon", ()))
    assert system(root).after_boot in one.notes


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_nodes_that_bring_their_own_containerd(root: Path, tmp_path: Path, kind: Kind) -> None:
    """cgpu install chooses the engine by its settings; the doctor knows it; uninstall leaves nothing."""
    for path, text in kind.tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    engine = Machine(tmp_path).engine(kind.name, kind.version)
    dump = f'case "$*" in *dump*) echo "version = 3" ;; *) echo "containerd {kind.version}" ;; esac'
    Machine(tmp_path).program("containerd", dump)
    before = snapshot(root)
    installer(root, System(root), {kind.name: engine}).install(Request("daemon"))
    entries = [one for one in settings.gather(root) if one.runtime is not None]
    assert [one.engine for one in entries] == ([] if kind.edited.endswith(".tmpl") else [kind.name])
    assert installer(root, System(root), {kind.name: engine}).uninstall(None)
    assert snapshot(root) == before


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_the_checks_before_an_installation_there(root: Path, kind: Kind) -> None:
    """Such a node has no engine and no runc in the usual folders, and nothing is in the way for that."""
    engine = ENGINES[kind.name]
    for path, text in kind.tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    runc = root / f"{engine.search[0]}/runc".lstrip("/")
    runc.parent.mkdir(parents=True)
    runc.touch(mode=0o755)
    found = software.gather(root, ())
    assert [one.name for one in found.engines] == [kind.name]
    assert [one.path for one in found.low_level] == [Path("/", runc.relative_to(root))]
    node = replace(facts(root), software=found)
    findings = [*checks.container_engines(node, (kind.name,)), *checks.low_level(node)]
    assert [one.verdict for one in findings if one.verdict == "problem"] == []
    assert engine.is_present(root)
