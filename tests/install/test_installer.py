# SPDX-License-Identifier: Apache-2.0
"""The decisions of install and uninstall: engine, steps, work left to the user, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cgpu import paths
from cgpu.config.effective import Effective
from cgpu.config.load import check
from cgpu.errors import CgpuError
from cgpu.install.commands.config import replace_value
from cgpu.install.installer import OPEN, Request, choose_engine
from cgpu.install.node.facts import driver
from cgpu.install.node.machine import Node
from cgpu.install.our_files import first_configuration, modprobe_settings, unit
from cgpu.install.places import program
from cgpu.install.steps.step import Context
from cgpu.install.store import Store
from cgpu.runtime_config.engines.docker import Docker
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER
from tests.install.engines import ENGINES, Lines
from tests.install.machine import card
from tests.install.support import DAEMON, System, facts, installer, is_draining, snapshot


def context(root: Path, node: Node) -> Context:
    return Context(root, node, System(root), Store.load(root), ENGINES)


def test_the_first_configuration_changes_nothing() -> None:
    """The file's comments are all keys with their defaults; it is valid with and without comment marks."""
    text = first_configuration()
    assert check(yaml.safe_load(text), "config.yaml").to_dict() == Effective().to_dict()
    open_lines = [
        line[1:] for line in text.splitlines() if line.startswith("#") and not line.startswith("# ")
    ]
    document = yaml.safe_load("\n".join(open_lines))
    assert check(document, "config.yaml").to_dict() == Effective().to_dict()
    assert set(document) == set(Effective().to_dict())


def test_a_card_in_mig_mode(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card in MIG mode is named before anything is changed; where it is the only one, nothing is."""
    cut, other = card(mig=True), card(bus="0000:02:00.0")
    text = "0000:01:00.0 (NVIDIA A10): in MIG mode, cannot be sliced"
    monkeypatch.setattr(driver, "with_mig", lambda found, _: replace(found, cards=(cut, other)))
    one = installer(root)
    assert list(one.show_install(DAEMON))
    assert f"warning: {text}; the other cards can: nvidia-smi -i GPU-5a1f -mig 0" in one.notes
    monkeypatch.setattr(driver, "with_mig", lambda found, _: replace(found, cards=(cut,)))
    before = snapshot(root)
    with pytest.raises(CgpuError, match="this node is not ready, see above: mig; nothing was changed"):
        one.install(DAEMON)
    assert f"problem: {text}: nvidia-smi -i GPU-5a1f -mig 0" in one.notes
    assert snapshot(root) == before


def test_units_start_our_own_commands() -> None:
    """The command of a unit is that of the environment which the package is in, as systemd takes it."""
    assert "\nExecStart=/opt/x/bin/cgpud\n" in unit("cgpud.service", "/opt/x/bin/cgpud")
    assert '\nExecStart="/opt/my x/50%%/cgpud"\n' in unit("cgpud.service", "/opt/my x/50%/cgpud")
    text = unit("cgpu-config-apply.service", "/opt/x/bin/cgpu-config-apply")
    assert text.count("/opt/x/bin/cgpu-config-apply") == 2
    with pytest.raises(CgpuError, match="no unit can start this path"):
        unit("cgpud.service", '/opt/"/cgpud')


def test_a_daemon_under_systemd(root: Path) -> None:
    """The unit is made and started, the engines are told; uninstall stops it before its unit goes."""
    system = System(root)
    assert installer(root, system).install(DAEMON)
    made = (root / "etc/systemd/system/cgpud.service").read_text()
    assert (root / "var/lib/cgpu/install").stat().st_mode & 0o777 == 0o700
    assert f"ExecStart={program('cgpud')}\n" in made
    assert (root / "system/enabled/cgpud.service").exists()
    assert f"cgpu={LAUNCHER}" in (root / "etc/seal.conf").read_text()
    system.commands.clear()
    installer(root, system).uninstall(None)
    assert [line for line in system.commands if " show " not in line and " is-" not in line] == [
        "systemctl try-restart crate",
        "systemctl try-restart whale",
        "systemctl disable --now cgpu-container-runtime.socket",
        "systemctl stop cgpu-container-runtime.service",
        "systemctl disable --now cgpu-smi-publish.path",
        "systemctl stop cgpu-smi-publish.service",
        "systemctl disable --now cgpud.service",
        "systemctl daemon-reload",
    ]


def test_what_is_left_to_the_user(root: Path) -> None:
    """Without systemd the engine is to be started by hand, and engines to be restarted; nothing is run."""
    system = System(root)
    one = installer(root, system, systemd=False, driver=None)
    one.install(DAEMON)
    left = [line for line in one.notes if line.startswith("To do: ")]
    assert left[:2] == [f"To do: restart {name} to load the new runtime" for name in ("whale", "crate")]
    assert left[2].startswith(f"To do: start the engine, now and after each boot: {program('cgpud')}")
    assert f"{program('cgpud')} --simulate T4" in left[2]
    assert system.commands == []
    assert list((root / "etc/systemd/system").glob("cgpu*")) == []
    assert left[-1] == OPEN


def test_a_shared_node_is_not_told_that_it_is_open(root: Path) -> None:
    """Where the configuration has shared_node, nothing is said of it."""
    path = root / paths.CONFIG.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("shared_node: true\n")
    one = installer(root, System(root))
    one.install(DAEMON)
    assert OPEN not in one.notes


def test_what_comes_later(root: Path) -> None:
    """Without a driver the unit is there and not started; a container engine takes another install."""
    one = installer(root, driver=None, engines={})
    one.install(DAEMON)
    assert (root / "etc/systemd/system/cgpud.service").exists()
    assert not (root / "system/enabled/cgpud.service").exists()
    assert any("systemctl enable --now cgpud" in line for line in one.notes)
    assert "To do: there is no container engine yet; once there is one: cgpu install" in one.notes


def test_docker_of_a_snap(root: Path) -> None:
    """Docker as a snap is no docker here, and is named with what helps."""
    (root / "var/snap/docker").mkdir(parents=True)
    engines = {"docker": Docker(search=())}
    with pytest.raises(CgpuError, match=r"--runtimes docker: is a snap here, .*: snap remove docker"):
        installer(root, engines=engines).install(replace(DAEMON, runtimes=("docker",)))
    one = installer(root, engines=engines)
    assert any("docker: is a snap here" in line for line in one.show_install(replace(DAEMON, runtimes=None)))


def test_dry_run(root: Path) -> None:
    """--dry-run shows each file's diff and each command, and changes nothing; the same for uninstall."""
    before = snapshot(root)
    lines = list(installer(root).show_install(DAEMON))
    assert snapshot(root) == before
    assert f"+cgpu={LAUNCHER}" in lines
    assert "--- /etc/whale/whale.conf" in lines
    assert "+++ /etc/systemd/system/cgpud.service" in lines
    assert [line for line in lines if line.startswith("+ ")] == [
        "+ systemctl daemon-reload",
        "+ systemctl enable --now cgpud.service",
        "+ systemctl enable --now cgpu-smi-publish.path",
        "+ systemctl start cgpu-smi-publish.service",
        "+ systemctl enable --now cgpu-container-runtime.socket",
        "+ systemctl try-restart whale",
        "+ systemctl try-restart crate",
    ]
    installer(root).install(DAEMON)
    installed = snapshot(root)
    lines = list(installer(root).show_uninstall())
    assert snapshot(root) == installed
    assert f"-cgpu={LAUNCHER}" in lines
    assert "+ systemctl disable --now cgpud.service" in lines


def test_an_edited_unit_is_kept(root: Path) -> None:
    """An edited unit stays as it is after another install, and after uninstall."""
    installer(root).install(DAEMON)
    path = root / "etc/systemd/system/cgpud.service"
    path.write_text(path.read_text() + "# mine\n")
    one = installer(root)
    one.install(DAEMON)
    assert path.read_text().endswith("# mine\n")
    assert any("cgpud.service: was edited since" in line for line in one.notes)
    one = installer(root)
    one.uninstall(None)
    assert path.read_text().endswith("# mine\n")
    unit = "/etc/systemd/system/cgpud.service"
    assert f"{unit}: was edited since cgpu install wrote it; it stays (rm {unit} removes it)" in one.notes
    assert not any(line.partition("] ")[2].startswith(f"removes {unit}") for line in one.notes)


def test_a_unit_of_others_is_kept(root: Path) -> None:
    """A unit that others have made under one of our names stays, through uninstall too, and is named."""
    path = root / "etc/systemd/system/cgpu-exporter.service"
    path.write_text("# theirs\n")
    one = installer(root)
    one.install(DAEMON)
    assert "/etc/systemd/system/cgpu-exporter.service: is not of cgpu install; it stays as it is" in one.notes
    installer(root).uninstall(None)
    assert path.read_text() == "# theirs\n"


def test_an_edited_configuration_stays(root: Path) -> None:
    """Uninstall keeps what `cgpu config set` or a person has written, and says so."""
    installer(root).install(DAEMON)
    path = root / "etc/cgpu/config.yaml"
    path.write_text(replace_value(path.read_text(), "policy", 2, "config.yaml"))
    one = installer(root)
    one.uninstall(None)
    assert path.read_text().endswith("policy: 2\n")
    (about,) = [line for line in one.notes if "config.yaml" in line]
    assert about.startswith("/etc/cgpu/config.yaml: was edited since cgpu install wrote it; it stays")
    # Another installation and its removal leave the file as it is.
    installer(root).install(DAEMON)
    installer(root).uninstall(None)
    assert path.read_text().endswith("policy: 2\n")


def test_without_units(root: Path, restored: Path) -> None:
    """systemd gets no unit and starts nothing; a note says what a person starts, and engines are told."""
    system = System(root)
    one = installer(root, system)
    assert one.install(Request("daemon", units=False))
    assert list((root / "system/enabled").iterdir()) == []
    assert not (root / "etc/systemd/system/cgpud.service").exists()
    assert [line for line in system.commands if "cgpu" in line] == []
    assert "systemctl try-restart whale" in system.commands
    assert any(line.startswith("To do: start the engine, now and after each boot: ") for line in one.notes)
    installer(root).uninstall(None)


def test_two_installs_of_one_file(root: Path, restored: Path) -> None:
    """One removal undoes the edits of two installs to one file."""
    installer(root).install(Request("daemon", ("whale",)))
    installer(root).install(Request("daemon", ("whale",), default_runtime=True))
    lines = list(installer(root).show_uninstall())
    assert lines.count("# whale: takes the runtime cgpu out of /etc/whale/whale.conf") == 1
    assert [line for line in lines if line.startswith(("-cgpu=", "+cgpu="))] == [f"-cgpu={LAUNCHER},default"]
    installer(root).uninstall(None)


def test_more_runtimes_later(root: Path, restored: Path) -> None:
    """A second install adds what is missing, and one uninstall takes all of it back."""
    installer(root).install(Request("daemon", ("seal",)))
    assert "cgpu=" not in (root / "etc/whale/whale.conf").read_text()
    assert installer(root).install(Request("auto", ("whale",), default_runtime=True))
    assert ",default" in (root / "etc/whale/whale.conf").read_text()
    assert Store.load(root).facts == {"engine": "daemon", "runtimes": ["seal", "whale"]}
    installer(root).uninstall(None)


@pytest.mark.parametrize("command", ["daemon-reload", "enable", "try-restart whale", "try-restart crate"])
def test_commands_that_fail(root: Path, restored: Path, command: str) -> None:
    """The line names the step and what failed; what was done stays, and the same command does the rest."""
    expected = f".*: systemctl {command}.* does not work today; what was done stays: cgpu install goes on"
    with pytest.raises(CgpuError, match=expected):
        installer(root, System(root, command)).install(DAEMON)
    assert (root / "etc/cgpu/config.yaml").exists()
    assert Store.load(root).command == "install"
    system = System(root)
    assert installer(root, system).install(DAEMON)
    first = next(line for line in system.commands if " is-" not in line)
    assert command in first, "what failed is done again"
    assert not installer(root, system).install(DAEMON)
    installer(root).uninstall(None)


def test_a_step_that_a_later_run_leaves_out(root: Path, restored: Path) -> None:
    """The step at which a run was killed is done again by the first run that has it among its own."""
    installer(root).install(DAEMON)
    Store.load(root).start("install", "engine whale")
    installer(root).install(Request("daemon", ("seal",)))
    assert Store.load(root).command == "install"
    system = System(root)
    assert installer(root, system).install(DAEMON)
    assert "systemctl try-restart whale" in system.commands
    assert Store.load(root).command == ""
    installer(root).uninstall(None)


def test_settings_that_their_engine_refuses(root: Path) -> None:
    """An engine that does not take its new settings has those from before again, and has read them."""
    system = System(root, "try-restart whale")
    with pytest.raises(CgpuError, match="whale: adds the runtime cgpu: systemctl try-restart whale: "):
        installer(root, system).install(DAEMON)
    assert (root / "etc/whale/whale.conf").read_text() == "debug=true\nlog-level=warn\n"
    assert system.commands.count("systemctl try-restart whale") == 2


def test_refusals(root: Path, restored: Path) -> None:
    """The installer refuses an impossible request before it changes anything."""
    one = installer(root)
    gather = one.gather
    one.gather = lambda: replace(gather(), kernel=replace(gather().kernel, headers=None))
    with pytest.raises(CgpuError, match=r"--runtimes boat: .*; expected whale, crate or seal"):
        one.install(Request("daemon", ("boat",)))
    with pytest.raises(CgpuError, match=r"one-engine|dkms|kernel|nothing was changed"):
        one.install(Request("module"))


def test_settings_of_engines_that_are_not_named(root: Path) -> None:
    """An engine whose settings cannot be read keeps no other from being told."""

    class Broken(Lines):
        def is_present(self, root: Path) -> bool:
            raise CgpuError(f"{self.path}: expected a plain file")

    engines = {**ENGINES, "broken": Broken("broken", "etc/broken")}
    with pytest.raises(CgpuError, match="etc/broken: expected a plain file"):
        installer(root, engines=engines).install(DAEMON)
    name = next(iter(ENGINES))
    assert installer(root, engines=engines).install(Request("daemon", (name,)))
    with pytest.raises(CgpuError, match="etc/broken: expected a plain file"):
        installer(root, engines=engines).install(Request("daemon", ("broken",)))


def test_hooks_are_for_who_names_them(root: Path) -> None:
    """Without --runtimes all engines are told, and hooks are left alone; by name they are taken."""
    engines = {**ENGINES, "hooks": Lines("hooks", "etc/hooks.d/cgpu")}
    installer(root, engines=engines).install(DAEMON)
    assert not (root / "etc/hooks.d").exists()
    installer(root, engines=engines).install(Request("daemon", ("hooks",)))
    assert (root / "etc/hooks.d/cgpu").exists()


def test_the_other_engine_is_refused(root: Path) -> None:
    """A node that has one engine is not given the other."""
    installer(root).install(DAEMON)
    with pytest.raises(CgpuError, match="--engine module: this node has the daemon engine: cgpu uninstall"):
        installer(root).install(Request("module"))


def test_auto_takes_the_module_where_it_can(root: Path) -> None:
    """auto is the module where it can be built and loaded and the driver is known, and else the daemon."""
    node = facts(root)
    node = replace(
        node,
        kernel=replace(
            node.kernel, secure_boot=False, lockdown=None, enforces_signatures=False, options=None,
            kprobes=None, ftrace=True,
        ),
    )  # fmt: skip
    assert choose_engine(context(root, node), "auto", ()) == "module"
    worse = [
        replace(node, driver=replace(node.driver, loaded=None)),
        replace(node, driver=replace(node.driver, known=False)),
        replace(node, kernel=replace(node.kernel, headers=None)),
        replace(node, kernel=replace(node.kernel, loads_modules=False)),
        replace(node, kernel=replace(node.kernel, secure_boot=True, signing_key=None)),
        replace(node, software=replace(node.software, dkms=None)),
    ]
    assert [choose_engine(context(root, one), "auto", ()) for one in worse] == ["daemon"] * len(worse)


def test_settings_of_modprobe(root: Path) -> None:
    """The file has the options of the configuration for the load, and hides no softdep of the module."""
    assert all(line.startswith("#") for line in modprobe_settings(root).splitlines())
    (root / "etc/cgpu").mkdir()
    (root / "etc/cgpu/config.yaml").write_text("allow_unknown_driver: false\nenforce: false\npolicy: 2\n")
    assert modprobe_settings(root).endswith("options cgpu_km enforce=0 allow_unknown_driver=0\n")


def a_tree(root: Path, *containers: str) -> Path:
    """Make an engine's tree with these containers on one card."""
    tree = root / "run/cgpu_km"
    (tree / "0").mkdir(parents=True)
    for name in containers:
        (tree / "0" / name).mkdir(parents=True)
    gpus = "index=0 uuid=GPU-1 memtotal=1 max_inst=20"
    for node, text in {"version": "0.1.0", "gpus": gpus, "0/reserved": ""}.items():
        (tree / node).write_text(text + "\n")
    return tree


def test_sliced_containers_are_in_the_way(root: Path) -> None:
    """While sliced containers run uninstall refuses, names them, and has changed nothing."""
    installer(root).install(DAEMON)
    a_tree(root, "3f2a", "9b1c")
    before = snapshot(root)
    with pytest.raises(
        CgpuError, match="sliced containers run: 3f2a, 9b1c: end them, or: cgpu uninstall --drain"
    ):
        installer(root).uninstall(None)
    with pytest.raises(CgpuError, match="after 0 s these containers still have a slice: 3f2a, 9b1c"):
        installer(root).uninstall(0)
    assert snapshot(root) == before


def test_draining(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--drain waits for the last container, and while it waits no slices are given out."""
    installer(root).install(DAEMON)
    tree = a_tree(root, "3f2a")
    marks: list[bool] = []

    def pass_time(seconds: float) -> None:
        marks.append(is_draining(root))
        if len(marks) == 3:
            (tree / "0/3f2a").rmdir()

    monkeypatch.setattr("cgpu.install.drain.time.sleep", pass_time)
    one = installer(root)
    assert one.uninstall(60)
    assert len(marks) >= 4
    assert all(marks)
    assert one.notes.count("waiting for these containers to end: 3f2a") == 1
    assert not is_draining(root)


def test_a_unit_that_the_user_has_started(root: Path, restored: Path) -> None:
    """Uninstall disables a unit that the user enabled later, before it removes the file."""
    installer(root, driver=None).install(DAEMON)
    System(root).run(("systemctl", "enable", "--now", "cgpud.service"))
    installer(root).uninstall(None)
