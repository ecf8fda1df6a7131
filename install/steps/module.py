# SPDX-License-Identifier: Apache-2.0
"""The kernel module: built by dkms, loaded, and configured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cgpu import paths
from cgpu.config import effective
from cgpu.install.places import DKMS, DKMS_NAME
from cgpu.install.steps.commands import Command, Commands
from cgpu.install.steps.step import Context
from cgpu.node_files import below

BUILD_S = 1800.0
MODULE = "cgpu_km"
CORE = "cgpu_core_"
LOADED = "/sys/module"


@dataclass(slots=True)
class Displace(Commands):
    """Another version's modules are not in a kernel's folder. about: VERSION/RELEASE.

    With ours installed over them, dkms would forget that version's core and leave it there. Loaded modules
    and what dkms has built stay.
    """

    kind: ClassVar[str] = "displaced"

    @property
    def title(self) -> str:
        version, release = self.about.split("/", 1)
        return f"dkms takes version {version} out of {release}; what is loaded stays"

    def is_done(self, context: Context, /) -> bool:
        return self.name in context.store.steps

    def commands(self, _context: Context, /) -> Iterator[Command]:
        yield Command(dkms("uninstall", *self.about.split("/", 1)), needed=False)

    def undo_title(self, _context: Context, /) -> str:
        return f"dkms puts version {self.about.split('/')[0]} back"

    def undo_commands(self, context: Context, /) -> Iterator[Command]:
        version, release = self.about.split("/", 1)
        if below(context.root, f"{DKMS}/{version}").exists():
            # The kernel's headers may be gone by then, and would never come back.
            yield Command(dkms("install", version, release), needed=False, timeout=BUILD_S)


@dataclass(slots=True)
class Build(Commands):
    """dkms has built and installed a version for the kernel that runs. about: the version."""

    kind: ClassVar[str] = "build"

    release: str = ""

    @property
    def title(self) -> str:
        return f"dkms builds the module for {self.release} (about a minute)"

    def is_done(self, context: Context, /) -> bool:
        return self.release in context.node.ours.module_kernels and self._is_known(context)

    def commands(self, _context: Context, /) -> Iterator[Command]:
        yield Command(dkms("install", self.about, self.release), timeout=BUILD_S)

    def undo_title(self, _context: Context, /) -> str:
        return "dkms removes the module"

    def undo_commands(self, context: Context, /) -> Iterator[Command]:
        if self._is_known(context):
            yield Command((*dkms("remove", self.about), "--all"), timeout=BUILD_S)

    def _is_known(self, context: Context) -> bool:
        return below(context.root, f"{DKMS}/{self.about}").exists()


@dataclass(slots=True)
class Load(Commands):
    """cgpu_km is loaded, which brings its core; unloaded with whatever core an upgrade has brought since."""

    kind: ClassVar[str] = "module"

    about: str = MODULE

    @property
    def title(self) -> str:
        return f"loads {MODULE}"

    def is_done(self, context: Context, /) -> bool:
        return context.node.ours.module_loaded

    def commands(self, _context: Context, /) -> Iterator[Command]:
        yield Command(("modprobe", MODULE))

    def undo_title(self, _context: Context, /) -> str:
        return f"unloads {MODULE}"

    def undo_commands(self, context: Context, /) -> Iterator[Command]:
        # modprobe -r would unload NVIDIA's idle driver, too.
        yield from (Command(("rmmod", name)) for name in loaded(context))

    def show_undo(self, context: Context, /) -> Iterator[str]:
        yield from Commands.show_undo(self, context)
        if _describes_module(context):
            yield f"+ rm {paths.CDI_DEVICES}"

    def undo(self, context: Context, /) -> None:
        Commands.undo(self, context)
        below(context.root, paths.UPGRADING).unlink(missing_ok=True)
        if _describes_module(context):
            below(context.root, paths.CDI_DEVICES).unlink()


@dataclass(slots=True)
class Apply(Commands):
    """The configuration is in force where no systemd puts it there. about: the command."""

    kind: ClassVar[str] = "apply"

    @property
    def title(self) -> str:
        return "the configuration is put in force"

    def is_done(self, context: Context, /) -> bool:
        return context.node.ours.module_loaded and effective.is_configured()

    def commands(self, _context: Context, /) -> Iterator[Command]:
        yield Command((self.about,))

    def undo_commands(self, _context: Context, /) -> Iterator[Command]:
        """Yield nothing: what is in force ends with the module."""
        yield from ()


def dkms(verb: str, version: str, release: str = "") -> tuple[str, ...]:
    """Return a command of dkms about a version of ours."""
    return ("dkms", verb, "-m", DKMS_NAME, "-v", version, *(("-k", release) if release else ()))


def loaded(context: Context) -> list[str]:
    """Return our modules that are loaded, in the order in which they can be unloaded."""
    folder = below(context.root, LOADED)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [*sorted(name for name in names if name.startswith(CORE)), *([MODULE] if MODULE in names else [])]


def _describes_module(context: Context) -> bool:
    """Return whether container engines still find the GPUs as cgpu-config-apply has described them.

    A cgpud that runs has made that description its own.
    """
    is_daemon = below(context.root, paths.CONTROL_SOCKET).exists()
    return below(context.root, paths.CDI_DEVICES).exists() and not is_daemon
