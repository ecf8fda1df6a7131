# SPDX-License-Identifier: Apache-2.0
"""From a node and what was asked for to the steps of its installation. Nothing here changes the node."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cgpu import __version__, paths
from cgpu.distribution import install_command
from cgpu.errors import CgpuError
from cgpu.install import our_files
from cgpu.install.places import (
    DAEMON_UNIT,
    DKMS_NAME,
    EXPORTER,
    KMOD,
    MODPROBE,
    MODULES_LOAD,
    PACKAGE_UNITS,
    PUBLISHER,
    PUBLISHER_STARTS,
    SERVER,
    SERVER_STARTS,
    SOURCES,
    UNITS,
    program,
)
from cgpu.install.runner import must
from cgpu.install.steps.engine import Engine
from cgpu.install.steps.files import Files
from cgpu.install.steps.module import Build, Load
from cgpu.install.steps.step import Context, Step
from cgpu.install.steps.systemd import Unit, UnitFiles, is_active
from cgpu.node_files import below
from cgpu.runtime_config.engines.engine import Desired
from cgpu.runtime_config.engines.systems import system
from cgpu.runtime_config.oci_runtime.lowlevel import LAUNCHER

APPLY = "cgpu-config-apply"
TRY = "without a GPU, to try it: "
BOOT = b"# Made by cgpu install.\ncgpu_km\n"


@dataclass(slots=True)
class Plan:
    """All steps, whether they are done or not, and what remains to the user."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def make(context: Context, engine: str, runtimes: Sequence[str], *, default: bool, units: bool) -> Plan:
    """Return the plan of an engine with container engines. units: systemd starts it. Raises CgpuError."""
    plan = Plan()
    _add_configuration(context, plan)
    add_engine = _add_module if engine == "module" else _add_daemon
    add_engine(context, plan, units=units)
    plan.steps += [Engine(name, Desired(Path(LAUNCHER), default)) for name in runtimes]
    if after_boot := system(context.root).after_boot:
        plan.notes.append(after_boot)
    return plan


def _add_configuration(context: Context, plan: Plan) -> None:
    if below(context.root, paths.CONFIG).exists():
        return
    folder = below(context.root, str(Path(paths.CONFIG).parents[1]))
    if folder.is_dir() and os.statvfs(folder).f_flag & os.ST_RDONLY:
        plan.notes.append(f"{paths.CONFIG}: its folder is read-only; each key has its default")
        return
    text = our_files.first_configuration().encode()
    title = f"makes {paths.CONFIG}, with every key as a comment"
    plan.steps.append(Files("configuration", {paths.CONFIG: text}, title))


def _add_daemon(context: Context, plan: Plan, *, units: bool) -> None:
    cgpud = str(program("cgpud"))
    has_driver = context.node.driver.loaded is not None
    trial = "" if has_driver else f"; {TRY}{cgpud} --simulate T4"
    if not units:
        if context.node.ours.engine != "cgpud":
            plan.notes.append(f"To do: start the engine, now and after each boot: {cgpud}{trial}")
        return
    if has_driver and context.node.ours.engine == "cgpud" and not is_active(context, DAEMON_UNIT):
        raise CgpuError(
            "cgpud runs, and not by systemd: end it with cgpud --stop, then run the same command again"
        )
    plan.steps += _unit_files(context, {DAEMON_UNIT: cgpud})
    if has_driver:
        plan.steps.append(Unit(DAEMON_UNIT, "cgpud starts, now and at each boot"))
    else:
        when = "once NVIDIA's driver is installed: systemctl enable --now cgpud"
        plan.notes.append(f"To do: start the engine {when}{trial}")
    plan.steps += _beside()


def _add_module(context: Context, plan: Plan, *, units: bool) -> None:
    apply = str(program(APPLY))
    plan.steps += [*_sources(context), Build(__version__, context.node.kernel.release or "")]
    modprobe = our_files.modprobe_settings(context.root).encode()
    plan.steps.append(Files("modprobe", {MODPROBE: modprobe}))
    if not units:
        plan.steps.append(Load())
        plan.notes.append(f"To do: {apply}; and after each boot: modprobe cgpu_km && {apply}")
        return
    boot = f"makes {MODULES_LOAD}: cgpu_km is loaded at boot"
    plan.steps += [Files("modules-load", {MODULES_LOAD: BOOT}, boot)]
    plan.steps += [*_unit_files(context, {f"{APPLY}.service": apply}), Load()]
    plan.steps.append(Unit(f"{APPLY}.service", "the configuration is put in force, now and at each boot"))
    plan.steps += _beside()


def _unit_files(context: Context, engine: dict[str, str]) -> list[Step]:
    """Return the step that gives systemd our units, where no package has put them there. Raises CgpuError.

    engine: the engine's unit, with the absolute path of the program that it starts.
    """
    publisher, server = str(program("cgpu-smi")), str(program("cgpu-container-runtime-server"))
    programs = {
        **engine,
        PUBLISHER: publisher,
        PUBLISHER_STARTS: publisher,
        EXPORTER: str(program("cgpu")),
        SERVER: server,
        SERVER_STARTS: server,
    }
    wanted = {}
    for name, command in programs.items():
        in_package = any(below(context.root, f"{folder}/{name}").exists() for folder in PACKAGE_UNITS)
        if not (in_package and command.startswith(f"{paths.PACKAGED}/")):
            wanted[f"{UNITS}/{name}"] = our_files.unit(name, command).encode()
    return [UnitFiles("systemd", wanted)] if wanted else []


def _beside() -> list[Step]:
    """Return the units of services beside an engine. The exporter's is enabled by users of Prometheus."""
    server = "cgpu-container-runtime-server"
    return [
        Unit(PUBLISHER_STARTS, "show_slices starts cgpu-smi --publish, now and at each boot"),
        Unit(SERVER_STARTS, f"the first start of a container starts {server}, now and at each boot"),
    ]


def _sources(context: Context) -> Iterator[Step]:
    """Yield the step that puts the sources where dkms looks, as `make dkms-source` lays them out.

    The package opencgpu-dkms puts them there itself; a bundle has them laid out. Raises CgpuError.
    """
    place = f"{SOURCES}/{DKMS_NAME}-{__version__}"
    if (laid_out := Path(f"{paths.BUNDLE}/share/module{place}")).exists():
        wanted = _files(laid_out, place)
    elif not (KMOD / "module" / "Makefile").exists():
        if not below(context.root, f"{place}/dkms.conf").exists():
            install = install_command("opencgpu-dkms", context.node.software.family)
            raise CgpuError(f"{place}/dkms.conf: the module's sources are not there: {install}")
        return
    else:
        with tempfile.TemporaryDirectory(prefix="cgpu-") as folder:
            make = ("make", "-s", "-C", str(KMOD / "module"), "dkms-source", f"DESTDIR={folder}")
            must(context.runner, make)
            wanted = _files(Path(folder, place.lstrip("/")), place)
    if not wanted:
        raise CgpuError(f"{KMOD / 'module'}: make dkms-source gave no files; install the package again")
    what = f"{len(wanted)} files of the module's sources to {place}"
    yield Files(f"sources-{__version__}", wanted, f"copies {what}", f"copy {what}")


def _files(made: Path, place: str) -> dict[str, bytes]:
    """Return the files below a folder, by the paths that they have in their place."""
    names = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
    return {f"{place}/{name}": (made / name).read_bytes() for name in names}
