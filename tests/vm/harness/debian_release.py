# SPDX-License-Identifier: Apache-2.0
"""The kernel of another Debian release, from the archive that apt uses here, with what builds modules for it.

A release's kernel headers carry programs that need the release's C library, and need its compiler. The
packages of all three lie in a folder, which is the root for a build. They are unpacked and not installed,
which takes a minute.

usage: python -m tests.vm.harness.debian_release RELEASE    makes the folder, or makes it anew after a week
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.integration.commands import hold_lock
from tests.vm.harness.kernels import RELEASES, Kernel, debian_kernels, release_folder, release_kernel
from tests.vm.harness.mmdebstrap import SECONDS, make_root, remove, sources
from tests.vm.harness.store import ROOT, STORE, digest

# Debian 13's headers depend on gcc, later ones only recommend it. Kbuild calls the programs from make on.
PACKAGES = ("linux-image-amd64", "linux-headers-amd64", "gcc", "base-files", "libc-bin",
            "make", "bash", "coreutils", "dash", "diffutils", "findutils", "gawk", "grep", "kmod",
            "perl-base", "sed")  # fmt: skip
KEPT_SECONDS = 7 * 24 * 3600.0
# The Makefile of a KDIR that builds modules inside the root, by the release's own make and compiler. The
# checkout has the same path there. The inner make gets the variables of the command line from MAKEFLAGS.
MAKEFILE = """\
.PHONY: modules
modules:
	+@unshare --mount --propagation private sh -euc '\\
		for place in /dev /proc "$$2"; do mount --rbind "$$place" "$$1$$place"; done; \\
		exec chroot "$$1" /usr/bin/make -C "$$3" modules' sh {root} {checkout} {headers}
"""


def make_release(release: str) -> Kernel:
    """Return a release's kernel. Unpack it, headers and compiler, unless those here are under a week old."""
    place = release_folder(release)
    with hold_lock(STORE / f"{place.name}.lock"):
        stamp = place / "stamp"
        name = digest(part.encode() for part in (*PACKAGES, MAKEFILE, str(ROOT), sources(release)))
        is_new = stamp.exists() and time.time() - stamp.stat().st_mtime < KEPT_SECONDS
        if not is_new or stamp.read_text() != name:
            remove(place)
            place.mkdir()
            unpack(release, place)
            stamp.write_text(name)
    return release_kernel(release)


def unpack(release: str, place: Path) -> None:
    """Fill the folder of a release."""
    root = place / "root"
    make_root(release, root, "--variant=extract", f"--include={','.join(PACKAGES)}")
    (root / "usr/bin/awk").symlink_to("gawk")  # dpkg makes such links when it installs
    for name in ("dev", "proc", str(ROOT).lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    for modules in (root / "lib/modules").iterdir():
        subprocess.run(["/sbin/depmod", "-b", root, modules.name], check=True, timeout=SECONDS)
    kernel = debian_kernels(root)[-1][-1]
    build = place / "build"
    build.mkdir()
    headers = Path("/") / kernel.build.resolve().relative_to(root.resolve())
    (build / "include").symlink_to(f"../root{headers}/include")
    (build / "Makefile").write_text(MAKEFILE.format(root=root, checkout=ROOT, headers=headers))


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in RELEASES:
        print(f"{' '.join(arguments)}: expected one of {', '.join(RELEASES)}", file=sys.stderr)
        return 2
    kernel = make_release(arguments[0])
    print(f"release: {arguments[0]}: Linux {kernel.release}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
