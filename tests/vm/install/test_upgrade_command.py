# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade with the kernel module: real dkms, modprobe and rmmod, and a core that was in use before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cgpu import __version__, paths
from tests.daemon.upgrades import FIGURES, steady_load
from tests.integration.commands import eventually
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    build_core,
    build_engine,
    insmod,
    keep_few_modules,
    load_engine,
    loaded,
    read,
    rmmod,
    unload_engine,
    write,
)
from tests.vm.harness.process import Process
from tests.vm.harness.slices import GIB, Slice, clear, slice_of, view
from tests.vm.harness.store import ROOT
from tests.vm.life.test_upgrade import of_another_interface, sums_agree

pytestmark = [pytest.mark.two_cpus, pytest.mark.dkms]

# The core of test_upgrade.py, which is built anyway: which number is higher makes no difference.
BEFORE = "0.1.1"
OLD, NEW = "cgpu_core_0_1_1", "cgpu_core_0_1_0"
CHECKS = 2  # of the files, before a cold upgrade changes anything
PYTHON = ROOT / ".venv/bin/python"
TIMEOUT = 120
# Of a call through an upgrade, by the guest's clock: one left unanswered would wait for longer. What is aimed
# at is 200 ms on a real machine; an emulated one on a busy host stands still for longer than that at times.
PAUSE_MS = 10_000.0
# As `dkms build` leaves it: $1 version, $2 folder with modules, $3 core, $4 sources.
SEED = """
built=/var/lib/dkms/opencgpu/$1/$(uname -r)/$(uname -m)
mkdir -p $built/module $built/log /usr/src/opencgpu-$1
cp -r "$4/opencgpu-$1/." /usr/src/opencgpu-$1
ln -sfn /usr/src/opencgpu-$1 /var/lib/dkms/opencgpu/$1/source
cp "$2/cgpu_km.ko" "$3" $built/module
echo seeded >$built/log/make.log
"""
BROKEN = """
mkdir -p /usr/src/opencgpu-$1 /var/lib/dkms/opencgpu
cp -r "$2/opencgpu-$1/." /usr/src/opencgpu-$1
rm /usr/src/opencgpu-$1/abi/nvidia.json
dkms install opencgpu/$1 || status=$?
dkms remove opencgpu/$1 --all || :
[ "$status" ]
"""
AWAY = """
umount "/lib/modules/$(uname -r)"
rm -rf /tmp/few-modules /var/lib/dkms/opencgpu /usr/src/opencgpu-* /run/cgpu-upgrading /run/cgpu /etc/cgpu
"""


@dataclass(frozen=True)
class Upgrades:
    """The command in the guest; see guest/upgrades.py."""

    machine: Machine
    process: Process

    def ask(self, *words: str, **more: Any) -> dict[str, Any]:
        """Run it once; return how it went."""
        seen = len(self.process.finished().stdout.splitlines())
        self.process.write(json.dumps({"words": words, **more}) + "\n")
        done = self.process.until(
            lambda: self.process.out.count(b"\n") > seen or self.process.status is not None,
            self.machine.scaled(TIMEOUT),
        )
        assert done, self.process.finished().text
        assert self.process.running, self.process.finished().text
        found: dict[str, Any] = json.loads(self.process.finished().stdout.splitlines()[seen])
        return found


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the sources of both versions, as dkms has them."""
    folder = tmp_path_factory.mktemp("sources")
    for version in (BEFORE, __version__):
        make = ["make", "-s", "-C", str(ROOT / "kmod/module"), "dkms-source", f"DESTDIR={folder}"]
        subprocess.run([*make, f"CGPU_VERSION={version}"], check=True, timeout=60)
    return folder / "usr/src"


@pytest.fixture(scope="module")
def steady() -> Path:
    """Return a program that allocates without an end."""
    return steady_load()


@pytest.fixture(scope="module")
def before(machine: Machine) -> Path:
    """Return the core that runs before."""
    return build_core(machine, BEFORE)


@pytest.fixture(scope="module")
def modules(machine: Machine, sources: Path, before: Path) -> Iterator[Path]:
    """Have two versions in the tree of dkms, none of them installed; return the folder of the modules."""
    folder = build_engine(machine.kernel)
    keep_few_modules(machine)
    machine.shell(BROKEN, __version__, machine.seen(sources), timeout=TIMEOUT)
    for version, core in ((__version__, folder / f"{NEW}.ko"), (BEFORE, before)):
        machine.shell(SEED, version, *(machine.seen(one) for one in (folder, core, sources)))
    yield folder
    machine.shell(AWAY)


@pytest.fixture(scope="module")
def upgrades(machine: Machine) -> Iterator[Upgrades]:
    """Return the command, ready to be asked."""
    script = 'cd "$1"; exec "$2" -P tests/vm/guest/upgrades.py'
    words = ["/bin/busybox", "sh", "-euc", script, "sh", machine.seen(ROOT), str(PYTHON)]
    process = machine.start(words, input=None, env={"PYTHONPATH": machine.seen(ROOT)})
    process.await_output("ready\n", timeout=machine.scaled(TIMEOUT))
    yield Upgrades(machine, process)
    process.stop()


def load_before(machine: Machine, before: Path) -> None:
    """Have the older core, and nothing else of ours."""
    if any(name.startswith("cgpu") for name in loaded(machine)):
        unload_engine(machine)
    load_engine(machine, before)


@pytest.fixture
def node(driver: Machine, modules: Path, before: Path) -> Iterator[Machine]:
    """Return the machine with the driver and the older core."""
    load_before(driver, before)
    yield driver
    unload_engine(driver)


@pytest.fixture(scope="module")
def installed(machine: Machine, modules: Path) -> None:
    """Have dkms install this version over the one before."""
    del modules
    # As `cgpu install` does it.
    for verb, version in (("install", BEFORE), ("uninstall", BEFORE), ("install", __version__)):
        machine.run(["dkms", verb, f"opencgpu/{version}"], timeout=TIMEOUT)


def cores(machine: Machine) -> list[str]:
    """Return the cores that are loaded."""
    return sorted(name for name in loaded(machine) if name.startswith("cgpu_core_"))


def look(load: Process, machine: Machine) -> tuple[int, int, float]:
    """Return calls, failed ones and the longest in milliseconds since the last look."""
    seen = len(FIGURES.findall(load.finished().stdout))
    load.write("\n")
    assert load.until(lambda: len(FIGURES.findall(load.out.decode())) > seen, machine.scaled(30))
    calls, failed, longest = (int(one) for one in FIGURES.findall(load.finished().stdout)[seen])
    return calls, failed, longest / 1000


def test_what_is_not_installed(node: Machine, upgrades: Upgrades) -> None:
    """A build by dkms that fails installs nothing: the command refuses, and the core in use goes on."""
    refused = upgrades.ask()
    release = node.run(["uname", "-r"]).stdout.strip()
    assert refused["status"] == 1
    assert refused["err"] == (
        f"cgpu upgrade: {NEW}: is not installed for kernel {release}; install it with: "
        f"dkms install opencgpu/{__version__}\n"
    )
    assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])


@pytest.mark.enforcement
@pytest.mark.usefixtures("installed")
def test_hot_under_load(
    node: Machine, upgrades: Upgrades, steady: Path, before: Path, record_property: Any
) -> None:
    """Containers that allocate throughout see no failed call; charges and registrations stay as they were."""
    tenants = [slice_of(node, name, f"0:{GIB}") for name in ("holds", "first", "second")]
    held = tenants[0].hold("alloc=512M")
    loads = [tenant.start(steady, "--dev", "/dev", "1000") for tenant in tenants[1:]]
    for load in loads:
        load.await_output("steady begins\n", timeout=node.scaled(30))
    limits = view(node).limits
    longest: list[float] = []
    for _ in range(count(1, 20)):
        dry = upgrades.ask("--dry-run")
        assert (dry["status"], dry["out"].splitlines()[2:]) == (
            0,
            [f"modprobe {NEW}", "echo 1 > /proc/cgpu_km/upgrade", f"rmmod {OLD}"],
        )
        assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])
        for load in loads:
            look(load, node)
        done = upgrades.ask()
        assert (done["status"], done["err"]) == (0, "")
        assert done["out"].splitlines()[-1] == f"core {__version__} runs"
        assert (read(node, "version"), cores(node)) == (f"{__version__}\n", [NEW])
        figures = [look(load, node) for load in loads]
        assert all(calls > 0 and failed == 0 for calls, failed, _ in figures), figures
        longest.append(max(one for _, _, one in figures))
        assert view(node).limits == limits
        assert view(node).used[0, "holds"] == 512 << 20
        assert is_held(tenants[0])
        back(node, before)
    record_property("longest_ms", longest)
    print(f"the longest call in each upgrade, in ms: {longest}")
    assert max(longest) < PAUSE_MS
    for load in loads:
        load.finish()
    eventually(lambda: sums_agree(node, 512 << 20), "what the others had is free", node.scaled(20))
    held.finish()
    clear(node)


def is_held(tenant: Slice) -> bool:
    """Tell whether a slice of a GiB, half of which is in use, is refused another one."""
    return tenant.probe("expect=0x51", f"alloc={GIB}").returncode == 0


def back(machine: Machine, before: Path) -> None:
    """Have the older core in use again, beside whatever containers run."""
    if OLD not in cores(machine):
        insmod(machine, before)
    if read(machine, "version") != f"{BEFORE}\n":
        assert write(machine, "upgrade", "1").returncode == 0
    eventually(
        lambda: NEW not in cores(machine) or rmmod(machine, NEW, check=False).returncode == 0, "it goes", 20
    )
    assert (read(machine, "version"), cores(machine)) == (f"{BEFORE}\n", [OLD])


@pytest.mark.full_counts
@pytest.mark.enforcement
@pytest.mark.usefixtures("installed")
def test_hot_killed_and_failing(node: Machine, upgrades: Upgrades, before: Path) -> None:
    """Killed after whatever it did, the next one ends well; where a step fails, the core in use goes on."""
    tenant = slice_of(node, "holds", f"0:{GIB}")
    held = tenant.hold("alloc=512M")
    steps = upgrades.ask()["count"]
    assert steps == len(("modinfo", "modprobe", "exchange", "rmmod"))
    for step in range(1, steps + 1):
        back(node, before)
        assert upgrades.ask(kill=step)["status"] == -9
        assert read(node, "version") in (f"{BEFORE}\n", f"{__version__}\n")
        assert sums_agree(node, 512 << 20)
        again = upgrades.ask()
        assert (again["status"], again["err"]) == (0, ""), (step, again)
        assert (read(node, "version"), cores(node)) == (f"{__version__}\n", [NEW]), step
        assert is_held(tenant)
    for failing in ("modinfo", "modprobe"):
        back(node, before)
        refused = upgrades.ask(fail=failing)
        assert (refused["status"], refused["err"].count("\n")) == (1, 1), refused
        assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])
    cold = upgrades.ask("--cold")
    assert cold["err"] == "cgpu upgrade: --cold: 1 sliced container runs; stop them first\n"
    assert sums_agree(node, 512 << 20)
    held.finish()
    clear(node)


@pytest.mark.full_counts
@pytest.mark.usefixtures("installed")
def test_cores_that_do_not_take_over(node: Machine, upgrades: Upgrades, modules: Path) -> None:
    """Another interface, a damaged file, a state that cannot be read: refused beside a container."""
    slice_of(node, "holds", f"0:{GIB}")
    place = f"/lib/modules/$(uname -r)/updates/dkms/{NEW}.ko"
    put = f'cp "$1" {place}; depmod'
    damaged = modules.with_name("damaged.ko")
    good = modules / f"{NEW}.ko"
    damaged.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    for bad, why in (
        (of_another_interface(good), "was made for another cgpu_km"),
        (damaged, "modinfo|loaded"),
    ):
        node.shell(put, node.seen(bad))
        refused = upgrades.ask()
        assert refused["status"] == 1
        assert any(one in refused["err"] for one in (*why.split("|"), "is not installed")), refused
        assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])
    node.shell(put, node.seen(good))
    newer = build_core(node, "0.2.0", "-DCORE_VERSION=10u -DCORE_CONVERTS_FROM=9u")
    insmod(node, newer)
    assert write(node, "upgrade", "1").returncode == 0
    rmmod(node, OLD)
    refused = upgrades.ask()
    assert (refused["status"], refused["err"].count("\n")) == (1, 1)
    assert "it cannot read the state of the one in use" in refused["err"]
    assert refused["err"].endswith("--cold: 1 sliced container runs; stop them first\n")
    assert (read(node, "version"), cores(node)) == ("0.2.0\n", ["cgpu_core_0_2_0"])
    clear(node)
    by_itself = upgrades.ask()
    assert (by_itself["status"], by_itself["err"]) == (0, ""), by_itself
    assert "not while it runs: " in by_itself["out"]
    assert (read(node, "version"), cores(node)) == (f"{__version__}\n", [NEW])


@pytest.mark.full_counts
@pytest.mark.usefixtures("installed")
def test_cold(node: Machine, upgrades: Upgrades, before: Path) -> None:
    """Cold loads all anew, with the configuration in force; killed at a step, the next attempt ends well."""
    node.write_file(paths.CONFIG, "policy: 3\nmax_inst: 7\nallow_zero_weight: true\n")
    done = upgrades.ask("--cold")
    assert (done["status"], done["err"]) == (0, ""), done
    in_force = [read(node, name) for name in ("version", "0/policy", "0/max_inst")]
    assert in_force == [f"{__version__}\n", "3\n", "7\n"]
    assert node.read_file("/sys/module/cgpu_km/parameters/allow_zero_weight") == b"Y\n"
    steps = done["count"]
    assert steps == CHECKS + len(("rmmod", "rmmod", "modprobe", "modprobe", "configure"))
    for step in range(CHECKS, steps + 1):
        load_before(node, before)
        assert upgrades.ask("--cold", kill=step)["status"] == -9
        if step == CHECKS:
            assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])
            continue
        again = upgrades.ask(fix=step % 2 == 0)
        assert again["status"] == 0, (step, again)
        assert (read(node, "version"), cores(node)) == (f"{__version__}\n", [NEW]), (step, again)
        assert node.read_file("/sys/module/cgpu_km/parameters/configured") == b"Y\n"
        assert node.shell("ls /run").stdout.count("cgpu-upgrading") == 0


@pytest.mark.full_counts
@pytest.mark.usefixtures("installed")
def test_cold_that_fails(node: Machine, upgrades: Upgrades, before: Path) -> None:
    """Where the new one does not load, or takes no configuration, the one before runs again."""
    node.write_file(paths.CONFIG, "policy: 3\n")
    for failing in (f"modprobe {NEW}", "modprobe cgpu_km"):
        load_before(node, before)
        refused = upgrades.ask("--cold", fail=failing)
        assert (refused["status"], refused["err"].count("\n")) == (1, 1)
        assert refused["err"].endswith(f"it fails today; see: dmesg; core {BEFORE} runs again\n"), refused
        assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])
        assert read(node, "0/policy") == "3\n"
    node.write_file(paths.CONFIG, "policy: 9\n")
    refused = upgrades.ask("--cold")
    assert (refused["status"], "policy" in refused["err"]) == (1, True)
    assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])
    node.write_file(paths.CONFIG, "policy: 2\n")
    # Somebody keeps hook and runtime from having the configuration.
    node.shell(f"rm -rf {paths.RUN}; touch {paths.RUN}")
    refused = upgrades.ask("--cold")
    node.shell(f"rm -f {paths.RUN}")
    assert (refused["status"], refused["err"].count("\n")) == (1, 1), refused
    assert f"core {BEFORE} runs again, without the configuration" in refused["err"]
    assert (read(node, "version"), cores(node)) == (f"{BEFORE}\n", [OLD])


@pytest.mark.full_counts
@pytest.mark.usefixtures("installed")
def test_dkms_takes_both_back(machine: Machine) -> None:
    """What the version before has installed goes with it, though another one was installed over it."""
    for version in (BEFORE, __version__):
        machine.run(["dkms", "remove", f"opencgpu/{version}", "--all"])
    assert machine.shell('find "/lib/modules/$(uname -r)/" -name "cgpu*"').stdout == ""
