# SPDX-License-Identifier: Apache-2.0
"""cgpu-config-apply against a fake module: a tree and parameters of plain files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.cdi_devices import specification
from cgpu.check_driver.run import CheckError, Outcome
from cgpu.config import apply, effective
from cgpu.kmod.abi.rows import files
from tests.abi.signer import Signer
from tests.client.support import T4, PlainTree, uuid
from tests.integration.commands import eventually
from tests.refusal import has_parts

Give = Callable[[str], int]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainTree:
    """Return a loaded module without a configuration."""
    tree = PlainTree(tmp_path).build(T4, T4)
    for gpu in ("0", "1"):
        (tree.path / gpu / "prio_ratio").write_text("80\n")
    (tree.path / "engine").write_text("cgpu_km 0.1.0\n")
    parameters = tmp_path / "parameters"
    parameters.mkdir()
    defaults = {"enforce": "Y", "allow_zero_weight": "N", "allow_unknown_driver": "Y", "managed_memory": "Y"}
    defaults |= {"context_memory": "100663296", "drift_tolerance": "536870912", "drift_reaction": "report"}
    defaults |= {"count_pages": "Y", "page_margin": "16777216", "slice_us": "2000", "configured": "N"}
    for name, value in defaults.items():
        (parameters / name).write_text(f"{value}\n")
    places = {
        "TREE_MODULE": tree.path,
        "TREE_DAEMON": tmp_path / "daemon",
        "PARAMETERS": parameters,
        "DRIVER_MODULE": tmp_path / "none",
        "CONFIGURED": parameters / "configured",
        "EFFECTIVE": tmp_path / "run" / "config.json",
        "CDI_DEVICES": tmp_path / "cdi" / "opencgpu.json",
        "LOW_LEVEL": tmp_path / "low-level",
        "LOW_LEVEL_PLAIN": tmp_path / "low-level.plain",
    }
    for name, place in places.items():
        monkeypatch.setattr(paths, name, str(place))
    return tree


@pytest.fixture
def give(tmp_path: Path) -> Give:
    """Return the command, given the text of a configuration."""

    def run(text: str) -> int:
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return apply.main(["--config", str(path)])

    return run


def test_devices_for_container_engines(module: PlainTree, give: Give, tmp_path: Path) -> None:
    """Container engines get names for the GPUs; where these cannot be written, the rest is in force."""
    assert give("") == 0
    written = json.loads((tmp_path / "cdi" / "opencgpu.json").read_text())
    assert written == specification([(0, uuid(0)), (1, uuid(1))])
    # Names begin with a digit, which CDI 0.5.0 is the first to allow: newer engines ignore an older file.
    assert "0" in [device["name"] for device in written["devices"]]
    assert tuple(map(int, written["cdiVersion"].split("."))) >= (0, 5, 0)
    (tmp_path / "cdi" / "opencgpu.json").unlink()
    (tmp_path / "cdi").rmdir()
    (tmp_path / "cdi").write_text("")
    assert give("policy: 3\n") == 0
    assert (module.path / "0" / "policy").read_text().strip() == "3"


def test_link_to_the_low_level_runtime(module: PlainTree, give: Give, tmp_path: Path) -> None:
    """The wrapper finds the configured runtime by a link; one that cannot be written stops nothing."""
    assert give("low_level_runtime: /bin/true\n") == 0
    links = tmp_path / "low-level", tmp_path / "low-level.plain"
    assert [str(link.readlink()) for link in links] == ["/bin/true"] * 2
    (tmp_path / "low-level").unlink()
    (tmp_path / "low-level").mkdir()
    assert give("low_level_runtime: /bin/false\n") == 0


def values(tree: PlainTree) -> dict[str, str]:
    """Return the content of the tree's entries and of the parameters."""
    folders = (tree.path, tree.path / "0", tree.path / "1", tree.base / "parameters")
    files = [path for folder in folders for path in folder.iterdir() if path.is_file()]
    return {str(path.relative_to(tree.base)): path.read_text().strip() for path in files}


def test_the_first_time(module: PlainTree, give: Give) -> None:
    """Tree, switches, and the file that hook and runtime read get it; then it counts as applied."""
    text = "policy: 3\nmax_inst: 17\nprio_ratio: 60\ndefault_memsize: 1073741824\nallow_disable: false\n"
    assert not effective.is_configured()
    assert give(text + "allow_zero_weight: true\n") == 0
    found = values(module)
    for gpu in ("0", "1"):
        nodes = [found[f"tree/{gpu}/{node}"] for node in ("policy", "max_inst", "prio_ratio")]
        assert nodes == ["3", "17", "60"]
    assert found["tree/default_memsize"] == "1073741824"
    assert [found[f"parameters/{name}"] for name in ("enforce", "allow_zero_weight")] == ["Y", "Y"]
    # The hook and the runtime will read this file.
    assert effective.load(str(module.base / "run" / "config.json")).allow_disable is False
    assert effective.is_configured()
    # Numbers and words go to parameters too, at any time.
    names = ("context_memory", "drift_tolerance", "drift_reaction", "slice_us")
    for text, expected in (
        (
            "context_memory: 0\ndrift_tolerance: 4096\ndrift_reaction: refuse\nslice_us: 500\n",
            ["0", "4096", "refuse", "500"],
        ),
        ("drift_tolerance: 8192\n", ["100663296", "8192", "report", "2000"]),
    ):
        assert give(text) == 0
        assert [values(module)[f"parameters/{name}"] for name in names] == expected


def test_a_later_time_writes_what_changed(module: PlainTree, give: Give) -> None:
    """A node that was written by hand stays, unless its key has another value than before."""
    assert give("policy: 1\nmax_inst: 19\n") == 0
    (module.path / "0" / "policy").write_text("2\n")
    (module.path / "0" / "max_inst").write_text("12\n")
    assert give("policy: 1\nmax_inst: 10\n") == 0
    found = values(module)
    assert (found["tree/0/policy"], found["tree/0/max_inst"]) == ("2", "10")


def test_a_module_loaded_anew_gets_everything(module: PlainTree, give: Give) -> None:
    """After another load the file of the load before says nothing of the tree."""
    assert give("max_inst: 19\n") == 0
    (module.base / "parameters" / "configured").write_text("N\n")
    (module.path / "1" / "max_inst").write_text("20\n")
    assert give("max_inst: 19\n") == 0
    assert values(module)["tree/1/max_inst"] == "19"


def test_a_mistake_changes_nothing(module: PlainTree, give: Give, capsys: pytest.CaptureFixture[str]) -> None:
    """A configuration that is wrong is refused as cgpud refuses it, and a tree elsewhere is not served."""
    before = values(module)
    for text, line in (
        ("enforce: 1\n", "enforce: 1: expected true or false (default true)\n"),
        ("tree: /elsewhere\n", f"the kernel module is loaded; expected {module.path} or null\n"),
    ):
        assert give(text) == 1
        assert capsys.readouterr().err.endswith(line)
        assert values(module) == before
        assert not (module.base / "run").exists()


def test_a_refused_write_is_taken_back(
    module: PlainTree, give: Give, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the engine refuses a value, the nodes written before get back theirs and nothing is in force."""
    before = values(module)
    (module.path / "1" / "prio_ratio").unlink()
    before.pop("tree/1/prio_ratio")
    assert give("policy: 3\nenforce: false\ndefault_memsize: 1\n") == 1
    assert "tree/1/prio_ratio: cannot be read" in capsys.readouterr().err
    assert {key: value.strip() for key, value in values(module).items()} == before
    assert not (module.base / "run").exists()


def test_a_switch_that_the_module_lacks(
    module: PlainTree, give: Give, capsys: pytest.CaptureFixture[str]
) -> None:
    """A switch that a loaded module cannot change is refused with the commands that load it so."""
    (module.base / "parameters" / "enforce").unlink()
    assert give("enforce: false\n") == 1
    said = capsys.readouterr().err
    assert has_parts(
        said.rstrip(), "cgpu-config-apply: enforce: false: cannot be set", "modprobe cgpu_km enforce=0"
    )


def test_without_the_module(module: PlainTree, give: Give, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the module the command says what to do: load it, or tell the daemon."""
    (module.path / "version").unlink()
    assert give("") == 1
    assert capsys.readouterr().err.endswith("the kernel module is not loaded: modprobe cgpu_km\n")
    daemon = Path(paths.TREE_DAEMON)
    daemon.mkdir()
    (daemon / "version").write_text("0.1.0\n")
    (daemon / "engine").write_text("cgpud 0.1.0\n")
    assert give("") == 1
    reload = paths.daemon_command("reload")
    assert capsys.readouterr().err.endswith(f"cgpud reads its configuration itself: {reload}\n")


def test_the_engine_that_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is installed for the running kernel is the engine to load, where none runs."""
    monkeypatch.setattr(paths, "MODULES", str(tmp_path))
    assert paths.start_command(paths.TREE_DAEMON) == paths.daemon_command("start")
    release = tmp_path / Path("/proc/sys/kernel/osrelease").read_text().strip()
    release.mkdir()
    (release / "modules.dep").write_text("updates/dkms/cgpu_km.ko.xz:\n")
    assert paths.start_command(paths.TREE_DAEMON) == "modprobe cgpu_km"
    assert paths.start_command("/elsewhere") == paths.daemon_command("start")


@pytest.mark.parametrize(("known", "told"), [(False, "999.1"), (True, "")])
def test_a_driver_outside_of_the_table_is_checked(
    module: PlainTree, give: Give, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool, told: str
) -> None:
    """The module gets the version that has passed; of a driver of the table it is told nothing."""
    checked = tmp_path / "parameters" / "driver_checked"
    checked.write_text("")
    monkeypatch.setattr(paths, "DRIVER_MODULE", str(tmp_path))
    monkeypatch.setattr(apply, "assure_unknown", lambda _dev, _rows: Outcome("999.1", known, "595.45.04", ()))
    assert give("") == 0
    assert checked.read_text() == told


def test_a_driver_that_fails_its_check(
    module: PlainTree, give: Give, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command fails with the check's own line, and the module is told nothing."""
    monkeypatch.setattr(paths, "DRIVER_MODULE", str(tmp_path))

    def fail(_dev: str, _rows: str) -> Outcome:
        raise CheckError("has not the layouts")

    monkeypatch.setattr(apply, "assure_unknown", fail)
    assert give("") == 1
    assert not (tmp_path / "parameters" / "driver_checked").exists()


@pytest.fixture
def row(module: PlainTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the line for a driver that is loaded, of a signed file."""
    (tmp_path / "version").write_text("999.01\n")
    monkeypatch.setattr(paths, "DRIVER_MODULE", str(tmp_path))
    signer = Signer(tmp_path)
    signer.give({"version": "999.01", "base": "595.45.04"})
    monkeypatch.setattr(apply, "read", lambda: files.read(tmp_path))
    monkeypatch.setattr(apply, "ROW_S", 0.2)
    monkeypatch.setattr(apply, "ROW_ROUND_S", 0.02)
    return files.read(tmp_path).text()


def expect_check(monkeypatch: pytest.MonkeyPatch, expected: str) -> None:
    """Expect that the driver is checked with these rows."""

    def check(_dev: str, rows: str) -> Outcome:
        assert rows == expected
        return Outcome("999.01", bool(rows), "595.45.04", ())

    monkeypatch.setattr(apply, "assure_unknown", check)


def test_a_row_for_the_driver(
    row: str, module: PlainTree, give: Give, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module gets the line, and where it counts nothing is checked or said."""
    expect_check(monkeypatch, row)
    (module.path / "engine").write_text("cgpu_km 0.1.0 driver=row\n")
    assert give("") == 0
    assert (tmp_path / "parameters" / "driver_row").read_text() == f"{row}\n"
    assert not (tmp_path / "parameters" / "driver_checked").exists()


@pytest.mark.parametrize("takes", [True, False])
def test_a_row_that_does_not_count(
    row: str,
    module: PlainTree,
    give: Give,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    takes: bool,
) -> None:
    """Where the module keeps the layouts of an older version, the driver is checked by these."""
    expect_check(monkeypatch, "")
    parameters = Path(paths.PARAMETERS)
    (module.path / "engine").write_text("cgpu_km 0.1.0 driver=provisional\n")
    if not takes:
        (parameters / "driver_row").mkdir()
    assert give("") == 0
    assert (parameters / "driver_checked").read_text() == "999.01"
    said = capsys.readouterr().err
    assert ("driver_row: Is a directory: stop the containers with slices" in said) is not takes
    assert ("driver_row: not taken within 0 seconds: end what is left of removed containers" in said) is takes


def test_a_row_for_a_driver_that_was_refused(
    row: str, give: Give, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A driver that the module has given up is served once it is loaded anew, which one line says."""
    expect_check(monkeypatch, row)
    assert give("") == 0
    (line,) = capsys.readouterr().err.splitlines()
    again = "modprobe -r nvidia_uvm nvidia_drm; modprobe -a nvidia_uvm nvidia_drm; cgpu-config-apply"
    assert has_parts(line, "cgpu-config-apply: NVIDIA driver 999.01: was refused before", again)


def test_a_row_that_is_taken_at_a_later_try(
    row: str,
    module: PlainTree,
    give: Give,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A row that the module has not taken is written again while the command waits."""
    expect_check(monkeypatch, row)
    monkeypatch.setattr(apply, "ROW_S", 60.0)
    engine, written = module.path / "engine", tmp_path / "parameters" / "driver_row"
    engine.write_text("cgpu_km 0.1.0 driver=provisional\n")

    def take() -> None:
        for _ in range(2):
            eventually(written.exists, "the row is written")
            written.unlink()
        engine.write_text("cgpu_km 0.1.0 driver=row\n")

    taking = threading.Thread(target=take)
    taking.start()
    assert give("") == 0
    taking.join()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("row")
@pytest.mark.parametrize("in_force", [True, False])
def test_a_bad_file_of_rows(
    module: PlainTree,
    give: Give,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    in_force: bool,
) -> None:
    """The file is named, and the module keeps what it has: the file's row of before, or none and a check."""
    (module.base / "drivers.d" / "row.json").write_text("{}")
    source = "row" if in_force else "provisional"
    (module.path / "engine").write_text(f"cgpu_km 0.1.0 driver={source}\n")
    expect_check(monkeypatch, "")
    assert give("") == 0
    parameters = module.base / "parameters"
    assert not (parameters / "driver_row").exists()
    assert (parameters / "driver_checked").exists() is not in_force
    assert "row.json: none of 1 keys has signed it" in capsys.readouterr().err


def test_a_row_that_is_taken_away(
    row: str, module: PlainTree, give: Give, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its file the module is told that the driver has no row."""
    (tmp_path / "drivers.d" / "row.json").unlink()
    expect_check(monkeypatch, "")
    assert give("") == 0
    assert (tmp_path / "parameters" / "driver_row").read_text() == "\n"
