# SPDX-License-Identifier: Apache-2.0
"""Virtual machines for the tests here: one for each file, and more where a test asks for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.images import PROBE
from tests.nvidia.archive import RELEASES, NotInArchiveError
from tests.packages import Packages, older
from tests.packages import packages as built_packages
from tests.vm.harness import cross, debian
from tests.vm.harness.bundles import Containers
from tests.vm.harness.counts import CPUS, count
from tests.vm.harness.emulators import EMULATORS
from tests.vm.harness.kernels import (
    VARIABLE,
    Kernel,
    NoKernelError,
    choose_kernel,
    is_debug_kernel_given,
    next_kernel,
)
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    build_engine,
    build_fake_driver,
    load_driver,
    load_engine,
    loaded,
    real_driver,
    unload_driver,
    unload_engine,
)
from tests.vm.harness.packaged_node import PackagedNode
from tests.vm.harness.sliced_node import SlicedNode
from tests.vm.harness.slices import KEPT, Stage, clear, stage
from tests.vm.nvidia.driver import BOOT_ARGUMENTS, build_driver

Boot = Callable[..., Machine]
# The longest first; the others take less than half a minute each.
LONG = (
    "test_package", "test_package_daemon",
    "test_upgrade", "test_slice", "test_enforcement", "test_deaths", "test_life", "test_identity",
    "test_run", "test_races", "test_versions", "test_conformance", "test_next_kernel",
    "test_shares", "test_refusals", "test_config_apply", "test_harness",
)  # fmt: skip
# Set to 1, tests that are marked own_disk run without full counts, too.
PACKAGE = "CGPU_VM_PACKAGE"
# Each with a command or file that must be there.
NEEDED = ("gcc", "make", "runc", "setpriv", "/bin/busybox")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything below this folder needs root, as the guest reads the host's files.

    Tests for a kernel that checks itself are left out on others, not skipped. Files that take long come
    first, so that all who share the work end at about the same time. One process that runs all has the files
    with two processors last, as it boots a machine where the number of processors changes.
    """
    is_shared = hasattr(config, "workerinput")

    def place(item: pytest.Item) -> tuple[bool, int]:
        is_last = not is_shared and item.get_closest_marker("two_cpus") is not None
        return is_last, LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG)

    items.sort(key=place)
    is_full = count(False, True)
    leave_out = [] if is_debug_kernel_given() else ["debug_kernel"]
    if VARIABLE in os.environ:
        leave_out += ["own_disk", "dkms", "next_kernel"]
    elif not is_full and os.environ.get(PACKAGE) != "1":
        leave_out.append("own_disk")
    leave_out.append("real_driver" if real_driver() is None else "fake_driver")
    leave_out.append("native" if cross.IS_FOREIGN else "foreign")
    unsuited = [item for item in items if any(map(item.get_closest_marker, leave_out))]
    config.hook.pytest_deselected(items=unsuited)
    items[:] = [item for item in items if item not in unsuited]
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vm)
            item.add_marker(pytest.mark.root)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the drivers that the chosen tests load: a test's limit of time is too short for that."""
    version = real_driver()
    items = [item for item in session.items if item.get_closest_marker("vm")]
    if version is None or not items or session.config.option.collectonly:
        return
    wanted = [(choose_kernel, version)]
    if any(item.get_closest_marker("other_drivers") for item in items):
        wanted += [(choose_kernel, each.version) for each in RELEASES]
    if any(item.get_closest_marker("next_kernel") for item in items):
        wanted.append((next_kernel, version))
    for choose, each in wanted:
        # A test that needs one that is not there says so itself.
        with suppress(NoKernelError, NotInArchiveError):
            build_driver(choose(), each)


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    try:
        chosen = choose_kernel()
    except NoKernelError as error:
        pytest.skip(str(error))
    emulator = EMULATORS[chosen.machine]
    missing = [name for name in (emulator.program, *NEEDED) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"missing: {', '.join(missing)}; run: scripts/bootstrap test")
    return chosen


@pytest.fixture(scope="session")
def machines() -> list[Machine]:
    """Return the machines that are up, for the check of their logs."""
    return []


def boot_arguments() -> tuple[str, ...]:
    return BOOT_ARGUMENTS if real_driver() is not None else ()


@pytest.fixture(scope="module")
def boot(kernel: Kernel, machines: list[Machine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boot]:
    """Boot machines with options of one's choice; they end with the test file."""
    mine: list[Machine] = []

    def begin(*, wait: bool = True, other: Kernel | None = None, **options: object) -> Machine:
        options["arguments"] = (*boot_arguments(), *options.get("arguments", ()))  # type: ignore[misc]  # words
        machine = Machine(other or kernel, tmp_path_factory.mktemp("vm"), **options)  # type: ignore[arg-type]  # the options are Machine's own
        mine.append(machine)
        machines.append(machine)
        return machine.wait_ready() if wait else machine

    yield begin
    for machine in mine:
        machine.close()
        machines.remove(machine)


def is_clean(machine: Machine) -> bool:
    """Say whether a machine is up, and as it was after its boot as far as modules go."""
    if machine.ended:
        return False
    return not [name for name in loaded(machine) if name.startswith(("nvidia", "cgpu"))]


@pytest.fixture(scope="session")
def common(machines: list[Machine]) -> Iterator[list[Machine]]:
    """Return a place for the machine that test files hand on to each other."""
    mine: list[Machine] = []
    yield mine
    for machine in mine:
        machine.close()
        machines.remove(machine)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks that only the tests here have."""
    config.addinivalue_line("markers", "fake_driver: needs what only the fake driver has; the text says what")
    config.addinivalue_line("markers", "real_driver: needs NVIDIA's driver: CGPU_VM_DRIVER names its version")
    config.addinivalue_line("markers", "other_drivers: loads all versions of NVIDIA's driver that are built")
    config.addinivalue_line("markers", "foreign: needs a guest with a processor of another kind")
    config.addinivalue_line("markers", "native: needs a guest with this machine's kind of processor")
    config.addinivalue_line(
        "markers", "own_disk: takes minutes on Debian's own kernel, from a disk mostly, and on no other"
    )
    config.addinivalue_line(
        "markers", "dkms: needs the kernel's modules and headers in /lib/modules of this machine"
    )
    config.addinivalue_line("markers", "next_kernel: needs the kernel of Debian's next release")
    config.addinivalue_line("markers", "two_cpus: a file of tests in which two processors must be at work")
    config.addinivalue_line(
        "markers", "at_once: a file of tests in which two processors must run at the same time, not in turn"
    )


@pytest.fixture(scope="module")
def cpus(request: pytest.FixtureRequest) -> int:
    return 2 if request.node.get_closest_marker("two_cpus") else CPUS


@pytest.fixture(scope="module")
def at_once(request: pytest.FixtureRequest) -> bool:
    """Say whether the processors of a file's machine run at the same time."""
    return request.node.get_closest_marker("at_once") is not None


@pytest.fixture(scope="module")
def machine(
    kernel: Kernel,
    cpus: int,
    at_once: bool,
    machines: list[Machine],
    common: list[Machine],
    tmp_path_factory: pytest.TempPathFactory,
) -> Machine:
    """Return a machine that is up: the one of the file before this, if that has left it as it was."""
    is_like_it = bool(common) and (common[0].cpus, common[0].at_once) == (cpus, at_once)
    if common and not (is_like_it and is_clean(common[0])):
        machines.remove(common[0])
        common.pop().close()
    if not common:
        folder = tmp_path_factory.mktemp("vm")
        machine = Machine(kernel, folder, cpus=cpus, at_once=at_once, arguments=boot_arguments())
        common.append(machine.wait_ready())
        machines.append(common[0])
        if at_once:
            with machine.one_cpu():
                machine.shell('mkdir "$1"', KEPT)
    return common[0]


@pytest.fixture(autouse=True)
def no_kernel_faults(machines: list[Machine]) -> Iterator[None]:
    """Fail the test in which a kernel warned, oopsed, stalled or ended."""
    yield
    found = [problem for machine in machines if machine.ready.is_set() for problem in machine.problems()]
    if found:
        pytest.fail("kernel log:\n" + "\n\n".join(found), pytrace=False)


@pytest.fixture(scope="session")
def fake_driver(kernel: Kernel) -> Path:
    return build_fake_driver(kernel)


@pytest.fixture(scope="session")
def module(kernel: Kernel) -> Path:
    return build_engine(kernel)


@pytest.fixture
def driver(machine: Machine) -> Iterator[Machine]:
    """Return the machine with the driver loaded, with one T4."""
    with machine.one_cpu():
        load_driver(machine)
    yield machine
    with machine.one_cpu():
        unload_driver(machine)


@pytest.fixture
def engine(driver: Machine, module: Path) -> Iterator[Machine]:
    """Return the machine with driver and engine loaded. Containers that a test leaves end after it."""
    with driver.one_cpu():
        load_engine(driver)
    yield driver
    clear(driver)
    with driver.one_cpu():
        unload_engine(driver)


@pytest.fixture
def staged(machine: Machine) -> Iterator[Stage]:
    """Return driver and engine, freshly loaded: the card's counters are this test's."""
    with stage(machine) as made:
        yield made


@pytest.fixture(scope="module")
def containers(machine: Machine) -> Containers:
    """Return runc behind the wrapper, in the machine."""
    return Containers(machine)


@pytest.fixture(scope="module")
def loaded_node(machine: Machine, containers: Containers, module: Path) -> Iterator[SlicedNode]:
    """Return the machine of a file with driver and engine, which its tests share."""
    node = SlicedNode(machine, containers)
    yield node
    node.unload()


@pytest.fixture
def node(loaded_node: SlicedNode) -> Iterator[SlicedNode]:
    """Return the same with one T4 until the test wants others. Containers that it leaves are ended."""
    loaded_node.use()
    yield loaded_node
    clear(loaded_node.machine)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Packages, Packages]:
    """Return the Debian packages, as those of a version before and as they are."""
    new = built_packages()
    return older(new, tmp_path_factory.mktemp("older")), new


@pytest.fixture
def debian_node(kernel: Kernel, boot: Boot, tmp_path: Path) -> Iterator[PackagedNode]:
    """Return a node with a disk of its own: a clean Debian with NVIDIA's driver and docker."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("missing: mmdebstrap; run: scripts/bootstrap test")
    disk = debian.new_disk(kernel, tmp_path)
    node = PackagedNode(lambda: boot(wait=False, disk=disk, cpus=CPUS))
    node.make_image(PROBE)
    yield node
    disk.unlink()
