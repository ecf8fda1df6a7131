# SPDX-License-Identifier: Apache-2.0
"""The kernel module: built by dkms, loaded, and configured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cgpu import paths
from cgpu.config import effective
from cgpu.install.places import DKMS, DKMS_NAME
from cgpu.install.runner import must
from cgpu.install.steps.commands import attempt
from cgpu.install.steps.step import Context, Step
from cgpu.node_files import below

BUILD_S = 1800.0
MODULE = "cgpu_km"
CORE = "cgpu_core_"
LOADED = "/sys/module"


@dataclass(slots=True)
class Displace(Step):
    """Another version's modules are not in a kernel's folder. about: VERSION/RELEASE.

    With ours installed over them, dkms would forget that version's core and leave it there. Loaded modules
    and what dkms has built stay.
    """

    kind: ClassVar[str] = "displaced"

    @property
    def title(self) -> str:
        version, release = self.about.split("/", 1)
        return f"dkms takes version {version} out of {release}; what is loaded stays"

    def _words(self, verb: str) -> tuple[str, ...]:
        version, release = self.about.split("/", 1)
        return ("dkms", verb, "-m", DKMS_NAME, "-v", version, "-k", release)

    def is_done(self, context: Context, /) -> bool:
        return self.name in context.store.steps

    def show(self, _context: Context, /) -> Iterator[str]:
        yield f"+ {' '.join(self._words('uninstall'))}"

    def do(self, context: Context, /) -> None:
        attempt(context, self._words("uninstall"))

    def undo_title(self, _context: Context, /) -> str:
        return f"dkms puts version {self.about.split('/')[0]} back"

    def show_undo(self, context: Context, /) -> Iterator[str]:
        if self._is_kept(context):
            yield f"+ {' '.join(self._words('install'))}"

    def undo(self, context: Context, /) -> None:
        if self._is_kept(context):
            # Its kernel's headers may be gone by then, and would never come back.
            attempt(context, self._words("install"), BUILD_S)

    def _is_kept(self, context: Context) -> bool:
        return below(context.root, f"{DKMS}/{self.about.split('/')[0]}").exists()


@dataclass(slots=True)
class Build(Step):
    """dkms has built and installed a version for the kernel that runs. about: the version."""

    kind: ClassVar[str] = "build"

    release: str = ""

    @property
    def title(self) -> str:
        return f"dkms builds the module for {self.release} (about a minute)"

    def _words(self, verb: str) -> tuple[str, ...]:
        return ("dkms", verb, "-m", DKMS_NAME, "-v", self.about)

    def is_done(self, context: Context, /) -> bool:
        return self.release in context.node.ours.module_kernels and self._is_known(context)

    def show(self, _context: Context, /) -> Iterator[str]:
        yield f"+ {' '.join((*self._words('install'), '-k', self.release))}"

    def do(self, context: Context, /) -> None:
        must(context.runner, (*self._words("install"), "-k", self.release), BUILD_S)

    def undo_title(self, _context: Context, /) -> str:
        return "dkms removes the module"

    def show_undo(self, context: Context, /) -> Iterator[str]:
        if self._is_known(context):
            yield f"+ {' '.join((*self._words('remove'), '--all'))}"

    def undo(self, context: Context, /) -> None:
        if self._is_known(context):
            must(context.runner, (*self._words("remove"), "--all"), BUILD_S)

    def _is_known(self, context: Context) -> bool:
        return below(context.root, f"{DKMS}/{self.about}").exists()


@dataclass(slots=True)
class Load(Step):
    """cgpu_km is loaded, which brings its core; unloaded with whatever core an upgrade has brought since."""

    kind: ClassVar[str] = "module"

    about: str = MODULE

    @property
    def title(self) -> str:
        return f"loads {MODULE}"

    def is_done(self, context: Context, /) -> bool:
        return context.node.ours.module_loaded

    def show(self, _context: Context, /) -> Iterator[str]:
        yield f"+ modprobe {MODULE}"

    def do(self, context: Context, /) -> None:
        must(context.runner, ("modprobe", MODULE))

    def undo_title(self, _context: Context, /) -> str:
        return f"unloads {MODULE}"

    def show_undo(self, context: Context, /) -> Iterator[str]:
        yield from (f"+ rmmod {name}" for name in loaded(context))
        if _describes_module(context):
            yield f"+ rm {paths.CDI_DEVICES}"

    def undo(self, context: Context, /) -> None:
        # Not modprobe -r: it would unload NVIDIA's idle driver, too.
        for name in loaded(context):
            must(context.runner, ("rmmod", name))
        below(context.root, paths.UPGRADING).unlink(missing_ok=True)
        if _describes_module(context):
            below(context.root, paths.CDI_DEVICES).unlink()


@dataclass(slots=True)
class Apply(Step):
    """The configuration is in force where no systemd puts it there. about: the command."""

    kind: ClassVar[str] = "apply"

    @property
    def title(self) -> str:
        return "the configuration is put in force"

    def is_done(self, context: Context, /) -> bool:
        return context.node.ours.module_loaded and effective.is_configured()

    def show(self, _context: Context, /) -> Iterator[str]:
        yield f"+ {self.about}"

    def do(self, context: Context, /) -> None:
        must(context.runner, (self.about,))

    def undo(self, _context: Context, /) -> None:
        """Do nothing: what is in force ends with the module."""


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
