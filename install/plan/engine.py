# SPDX-License-Identifier: Apache-2.0
"""The steps by which a node gets its engine: cgpud as a service, or the kernel module by dkms."""

from __future__ import annotations

from pathlib import Path

from cgpu import __version__, paths, replace
from cgpu.config import effective
from cgpu.config.load import load
from cgpu.distribution import install_command
from cgpu.errors import CgpuError
from cgpu.install.places import KMOD, MODPROBE, MODULES_LOAD, PACKAGE_UNITS, SOURCES, UNITS, program
from cgpu.install.plan import PlanContext
from cgpu.install.plan.own_files import plan as own_file
from cgpu.install.plan.own_files import unit as unit_text
from cgpu.install.transaction.journal import make_staging
from cgpu.install.transaction.runner import Runner, must
from cgpu.install.transaction.steps import Plan
from cgpu.install.transaction.steps.file_changes import FilesPlan
from cgpu.install.transaction.steps.system import Command, Commands, LoadModule, Note, Unit
from cgpu.node_files import FileEdit, below

UNIT = "cgpud.service"
RELOAD = Command(("systemctl", "daemon-reload"))
FORGET = Command(RELOAD.words, needed=False)
TRY = "without a GPU, to try it: "
APPLY = "cgpu-config-apply"
PACKAGE = "opencgpu"
DKMS = f"/var/lib/dkms/{PACKAGE}"
BUILD_S = 1800.0
# Given at load; cgpu-config-apply cannot set them later.
AT_LOAD = ("enforce", "allow_zero_weight", "allow_unknown_driver", "count_pages")


def plan_daemon(context: PlanContext, runner: Runner) -> list[Plan]:
    """Return the missing steps. Raises CgpuError."""
    cgpud = str(program("cgpud"))
    has_driver = context.node.driver.loaded is not None
    trial = "" if has_driver else f"; {TRY}{cgpud} --simulate T4"
    if not context.node.software.systemd:
        if context.node.ours.engine == "cgpud":
            return []
        return [Note(f"start the engine, now and after each boot: {cgpud}{trial}")]
    steps = units(context, cgpud, "cgpud.service")
    if not has_driver:
        when = "once NVIDIA's driver is installed: systemctl enable --now cgpud"
        stops = Unit("cgpud", "", "cgpud stops for good", starts=False)
        return [*steps, *([stops] if steps else []), Note(f"start the engine {when}{trial}")]
    is_active = runner.run(("systemctl", "is-active", "--quiet", UNIT)).status == 0
    if context.node.ours.engine == "cgpud" and not is_active:
        raise CgpuError(
            "cgpud runs, and not by systemd: end it with cgpud --stop, then run the same command again"
        )
    if is_active and runner.run(("systemctl", "is-enabled", "--quiet", UNIT)).status == 0:
        again = [Note("have the engine use its new unit: systemctl restart cgpud")] if steps else []
        return [*steps, *again]
    return [*steps, starts("cgpud", "cgpud starts, now and at each boot")]


def units(context: PlanContext, command: str, *names: str) -> list[Plan]:
    """Return the steps that give systemd units; none where a package or an earlier run has put them there.

    command: the absolute path of the program that they start. names: their files.
    """
    files = []
    for name in names:
        in_package = any(below(context.root, f"{folder}/{name}").exists() for folder in PACKAGE_UNITS)
        if not (in_package and command.startswith("/usr/bin/")):
            path = f"{UNITS}/{name}"
            files += own_file(context, path, unit_text(name, command), f"makes {path}")
    if not files:
        return []
    forget = Commands("", undo=(FORGET,), undo_title="systemd forgets its units")
    return [forget, *files, Commands("systemd reads its units", do=(RELOAD,))]


def starts(name: str, title: str) -> Unit:
    """Return the step that starts a unit for good."""
    return Unit(name, title, f"{name} stops for good")


def plan_module(context: PlanContext, runner: Runner) -> list[Plan]:
    """Return the missing steps. Raises CgpuError."""
    steps = [*_sources(context, runner), *_build(context)]
    steps += own_file(context, MODPROBE, modprobe_settings(context.root), f"makes {MODPROBE}")
    if context.node.software.systemd:
        steps += own_file(
            context,
            MODULES_LOAD,
            "# Made by cgpu install.\ncgpu_km\n",
            f"makes {MODULES_LOAD}: cgpu_km is loaded at boot",
        )
        steps += units(context, str(program(APPLY)), f"{APPLY}.service")
    if not context.node.ours.module_loaded:
        steps.append(LoadModule())
    if context.node.software.systemd:
        has_unit = runner.run(("systemctl", "is-enabled", "--quiet", f"{APPLY}.service")).status == 0
        return [
            *steps,
            *([] if has_unit else [starts(APPLY, "the configuration is put in force, now and at each boot")]),
        ]
    if not (context.node.ours.module_loaded and effective.is_configured()):
        steps.append(Commands("the configuration is put in force", do=(Command((str(program(APPLY)),)),)))
    return [*steps, Note(f"load the engine after each boot: modprobe cgpu_km && {program(APPLY)}")]


def modprobe_settings(root: Path) -> str:
    """Return what modprobe has to know. Raises CgpuError for a configuration with a mistake."""
    path = below(root, paths.CONFIG)
    config = load(path)
    # Which core comes with cgpu_km, and that NVIDIA's driver comes first, cgpu_km.ko says itself: a softdep
    # here would take the place of that, and name another core than an upgrade has brought.
    lines = ["# Made by cgpu install: what of the configuration can be given to cgpu_km at load only."]
    given = {key: getattr(config, key) for key in AT_LOAD if getattr(config, key) != effective.DEFAULTS[key]}
    if given:
        words = " ".join(f"{key}={int(value)}" for key, value in given.items())
        lines += [f"options cgpu_km {words}"]
    return "\n".join(lines) + "\n"


def _sources(context: PlanContext, runner: Runner) -> list[Plan]:
    """Return the step that puts the sources where dkms looks, as `make dkms-source` lays them out.

    Debian's packages have them apart, in opencgpu-dkms, which puts them there itself. Raises CgpuError.
    """
    if not (KMOD / "module" / "Makefile").exists():
        packaged = f"{SOURCES}/{PACKAGE}-{__version__}/dkms.conf"
        if below(context.root, packaged).exists():
            return []
        install = install_command("opencgpu-dkms", context.node.software.family)
        raise CgpuError(f"{packaged}: the module's sources are not there: {install}")
    make_staging(context.staging)
    made = context.staging / f"usr/src/{PACKAGE}-{__version__}"
    must(runner, ("make", "-s", "-C", str(KMOD / "module"), "dkms-source", f"DESTDIR={context.staging}"))
    names = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
    if not names:
        raise CgpuError(f"{KMOD / 'module'}: make dkms-source gave no files; install the package again")
    edits = []
    for name in names:
        place = below(context.root, f"{SOURCES}/{made.name}/{name}")
        after, now = (made / name).read_bytes(), replace.read(place)
        if now is None or now[0] != after:
            edits.append(FileEdit(place, now[0] if now else None, after))
    if not edits:
        return []
    what = f"{len(edits)} files of the module's sources to {SOURCES}/{made.name}"
    return [FilesPlan(f"copies {what}", tuple(edits), brief=f"copy {what}")]


def _build(context: PlanContext) -> list[Plan]:
    release = context.node.kernel.release or ""
    tree = f"{DKMS}/{__version__}"
    if release in context.node.ours.module_kernels and below(context.root, tree).exists():
        return []
    named = ("-m", PACKAGE, "-v", __version__)
    return [
        *(_uninstall_other(version, release) for version in _others(context, release)),
        Commands(
            f"dkms builds the module for {release} (about a minute)",
            do=(Command(("dkms", "install", *named, "-k", release), timeout=BUILD_S),),
            undo=(Command(("dkms", "remove", *named, "--all"), where=tree, timeout=BUILD_S),),
            undo_title="dkms removes the module",
        ),
    ]


def _others(context: PlanContext, release: str) -> list[str]:
    folder = below(context.root, DKMS)
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [name for name in names if name != __version__ and (folder / name / release).is_dir()]


def _uninstall_other(version: str, release: str) -> Plan:
    """Return the step that takes another version's modules out of the kernel's folder.

    Installed over them, dkms would forget that version's core and leave it there. Loaded modules and what
    dkms has built stay.
    """
    named = ("-m", PACKAGE, "-v", version, "-k", release)
    again = Command(("dkms", "install", *named), where=f"{DKMS}/{version}", needed=False, timeout=BUILD_S)
    return Commands(
        f"dkms takes version {version} out of {release}; what is loaded stays",
        do=(Command(("dkms", "uninstall", *named), needed=False),),
        # Its kernel's headers may be gone by then, and would never come back.
        undo=(again,),
        undo_title=f"dkms puts version {version} back",
    )
