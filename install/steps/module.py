# SPDX-License-Identifier: Apache-2.0
"""The kernel module: built by dkms, and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cgpu import paths
from cgpu.install.places import DKMS, DKMS_NAME
from cgpu.install.steps.step import Context, Step
from cgpu.node_files import below

BUILD_S = 1800.0
MODULE = "cgpu_km"
CORE = "cgpu_core_"
LOADED = "/sys/module"


@dataclass(slots=True)
class Build(Step):
    """dkms has built and installed a version for the kernel that runs. about: the version."""

    kind: ClassVar[str] = "build"

    release: str = ""

    @property
    def title(self) -> str:
        return f"dkms builds the module for {self.release} (about a minute)"

    def undo_title(self, _context: Context, /) -> str:
        return "dkms removes the module"

    def is_done(self, context: Context, /) -> bool:
        return self.release in context.node.ours.module_kernels and self._is_known(context)

    def do(self, context: Context, /) -> None:
        """Build it, without another version in that kernel's folder: dkms would leave its core there.

        Loaded modules and what dkms has built of the other version stay.
        """
        folder = below(context.root, DKMS)
        for place in sorted(folder.iterdir()) if folder.is_dir() else ():
            if place.name != self.about and (place / self.release).is_dir():
                context.run(*dkms("uninstall", place.name), "-k", self.release, needed=False)
        context.run(*dkms("install", self.about), "-k", self.release, timeout=BUILD_S)

    def undo(self, context: Context, /) -> None:
        if self._is_known(context):
            context.run(*dkms("remove", self.about), "--all", timeout=BUILD_S)

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

    def undo_title(self, _context: Context, /) -> str:
        return f"unloads {MODULE}"

    def is_done(self, context: Context, /) -> bool:
        return context.node.ours.module_loaded

    def do(self, context: Context, /) -> None:
        context.run("modprobe", MODULE)

    def undo(self, context: Context, /) -> None:
        for name in _loaded(context):
            # modprobe -r would unload NVIDIA's idle driver, too.
            context.run("rmmod", name)
        context.remove(paths.UPGRADING)
        # cgpu-config-apply has described the GPUs to container engines; a cgpud has made that its own.
        if not below(context.root, paths.CONTROL_SOCKET).exists():
            context.remove(paths.CDI_DEVICES)


def dkms(verb: str, version: str) -> tuple[str, ...]:
    """Return a command of dkms about a version of ours."""
    return ("dkms", verb, "-m", DKMS_NAME, "-v", version)


def _loaded(context: Context) -> list[str]:
    """Return our modules that are loaded, in the order in which they can be unloaded."""
    folder = below(context.root, LOADED)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [*sorted(name for name in names if name.startswith(CORE)), *([MODULE] if MODULE in names else [])]
