# SPDX-License-Identifier: Apache-2.0
"""The kernel of another Debian release, from the archive that apt uses here, with what builds modules for it.

A release's kernel headers carry programs that need the release's C library, and need its compiler. The
packages of all three lie in a folder, which is the root for a build. They are unpacked and not installed,
which takes a minute. For arm64 the compiler is one for that processor, and kernel and libraries are its own.

usage: python -m tests.vm.harness.debian_release RELEASE    makes the folder, or makes it anew after a week
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.integration.commands import hold_lock
from tests.vm.harness.cross import IN_ROOT, TRIPLET
from tests.vm.harness.kernels import (
    ARM64,
    RELEASES,
    Kernel,
    debian_kernels,
    release_folder,
    release_kernel,
)
from tests.vm.harness.mmdebstrap import SECONDS, make_root, own_suite, remove, sources
from tests.vm.harness.store import ROOT, STORE, digest

# Debian 13's headers depend on gcc, later ones only recommend it. Kbuild calls the programs from make on.
TOOLS = ("base-files", "libc-bin", "make", "bash", "coreutils", "dash", "diffutils", "findutils", "gawk",
         "grep", "kmod", "perl-base", "sed")  # fmt: skip
PACKAGES = ("linux-image-amd64", "linux-headers-amd64", "gcc", *TOOLS)
CROSS_PACKAGES = (f"gcc-{TRIPLET}", "libc6-dev-arm64-cross", "python3-minimal", "libpython3-stdlib", *TOOLS,
                  "linux-image-arm64:arm64", "libfuse3-dev:arm64", "busybox-static:arm64")  # fmt: skip
# The headers of arm64 depend on arm64's compiler, and their programs are for it: those of this processor do.
CROSS_HEADERS = r"""
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
needs() { apt-cache depends "$1:arm64" | sed -n "s/.*Depends: <*\\($2\\)[:>].*/\\1/p"; }
folder=$(mktemp -d)
cd "$folder"
headers=$(needs linux-headers-arm64 'linux-headers-.*-arm64')
apt-get -q download "$headers:arm64" $(needs "$headers" 'linux-headers-.*-common') \
	"$(needs "$headers" 'linux-kbuild-[^:]*'):amd64"
for package in *.deb; do dpkg-deb -x "$package" "$1"; done
rm -r "$folder"
"""
KEPT_SECONDS = 7 * 24 * 3600.0
# Runs a command in the root, in the same folder: the checkout and /tmp have their paths there.
IN_ROOT_SCRIPT = """\
#!/bin/sh
exec unshare --mount --propagation private sh -euc '
for place in /dev /proc /tmp {checkout}; do mount --rbind "$place" "{root}$place"; done
exec chroot {root} env -C "$PWD" "$@"' sh "$@"
"""
# The Makefile of a KDIR that builds modules inside the root, by the release's own make and compiler. The
# inner make gets the variables of the command line from MAKEFLAGS.
MAKEFILE = """\
.PHONY: modules
modules:
	+@{in_root} /usr/bin/make -C {headers} {options} modules
"""


def make_release(release: str) -> Kernel:
    """Return a release's kernel. Unpack it, headers and compiler, unless those here are under a week old."""
    place = release_folder(release)
    with hold_lock(STORE / f"{place.name}.lock"):
        stamp = place / "stamp"
        parts = (*packages_of(release), CROSS_HEADERS, IN_ROOT_SCRIPT, MAKEFILE, str(ROOT))
        name = digest(part.encode() for part in (*parts, sources(suite_of(release))))
        is_new = stamp.exists() and time.time() - stamp.stat().st_mtime < KEPT_SECONDS
        if not is_new or stamp.read_text() != name:
            remove(place)
            place.mkdir()
            unpack(release, place)
            stamp.write_text(name)
    return release_kernel(release)


def suite_of(release: str) -> str:
    return own_suite() if release == ARM64 else release


def packages_of(release: str) -> tuple[str, ...]:
    return CROSS_PACKAGES if release == ARM64 else PACKAGES


def unpack(release: str, place: Path) -> None:
    """Fill the folder of a release."""
    root = place / "root"
    options = ["--variant=extract", f"--include={','.join(packages_of(release))}"]
    if release == ARM64:
        options += ["--architectures=amd64,arm64", f"--extract-hook=set -eu{CROSS_HEADERS}"]
    make_root(suite_of(release), root, *options)
    (root / "usr/bin/awk").symlink_to("gawk")  # dpkg makes such links when it installs
    for name in ("dev", "proc", "tmp", str(ROOT).lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    for modules in (root / "lib/modules").iterdir():
        subprocess.run(["/sbin/depmod", "-b", root, modules.name], check=True, timeout=SECONDS)
        headers = (modules / "build").readlink()
        if headers.is_absolute():  # Debian 12's link leads out of the root
            (modules / "build").unlink()
            (modules / "build").symlink_to(f"../../..{headers}")
    kernel = debian_kernels(root)[-1][-1]
    build = place / "build"
    build.mkdir()
    inside = Path("/") / kernel.build.resolve().relative_to(root.resolve())
    (build / "include").symlink_to(f"../root{inside}/include")
    in_root = place / IN_ROOT.name
    in_root.write_text(IN_ROOT_SCRIPT.format(root=root, checkout=ROOT))
    in_root.chmod(0o755)
    prefix = f"CROSS_COMPILE={TRIPLET}-" if release == ARM64 else ""
    (build / "Makefile").write_text(MAKEFILE.format(in_root=in_root, headers=inside, options=prefix))


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in RELEASES:
        print(f"{' '.join(arguments)}: expected one of {', '.join(RELEASES)}", file=sys.stderr)
        return 2
    kernel = make_release(arguments[0])
    print(f"release: {arguments[0]}: Linux {kernel.release}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
