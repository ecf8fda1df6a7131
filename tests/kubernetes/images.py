# SPDX-License-Identifier: Apache-2.0
"""The images that the chart installs, built for tests by install/packaging/kubernetes/Containerfile.

Downloads come before there is a cluster: a Debian with Python (by mmdebstrap from this machine's apt sources,
for a week), wheels, and the bundle. An image is built where a test first asks for it, and kept for the
checkout as it is, in kmod/build/images.

usage: python -m tests.kubernetes.images [--without-helm]    fetches; no bundle for tests without the chart
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.commands import Command, hold_lock, must
from tests.packages import ROOT, bundle, digest, older_bundle
from tests.vm.harness.mmdebstrap import make_root, own_suite, remove

STORE = ROOT / "kmod/build/images"
WHEELS = ROOT / "install/packaging/kubernetes/bundled.txt"
WEEK_S = 7 * 24 * 3600
BUILD_S = 240
BASE = "localhost/opencgpu-base:latest"
NAME = "localhost/opencgpu-kubernetes:latest"
NODE_NAME = "localhost/opencgpu-node:latest"
OLDER_NODE_NAME = "localhost/opencgpu-older:latest"
UNREAD = ("doc", "man", "locale")  # below /usr/share
DEBIAN = ("--variant=essential", "--include=python3,libstdc++6", "--dpkgopt=force-unsafe-io",
          *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNREAD))  # fmt: skip


def fetch() -> None:
    """Fetch what an image is made of. Raises AssertionError with the reason."""
    with hold_lock(STORE / "lock"):
        base = base_archive()
        if not base.exists() or time.time() - base.stat().st_mtime > WEEK_S:
            make_base(base)
        wheels = STORE / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        must([ROOT / "scripts/fetch-wheels", WHEELS, wheels, python_version()], timeout=BUILD_S)


def base_archive() -> Path:
    return STORE / f"base-{own_suite()}.tar"


def make_base(archive: Path) -> None:
    root, part = STORE / "base", archive.with_suffix(".part")
    if root.exists():
        remove(root)
    make_root(own_suite(), root, *DEBIAN)
    must(["tar", "-C", root, "-cf", part, "."], timeout=BUILD_S)
    remove(root)
    part.rename(archive)


def python_version() -> str:
    say = "import sys; print('{}.{}'.format(*sys.version_info))"
    return must(["/usr/bin/python3", "-IS", "-c", say]).stdout.strip()


def image() -> Path:
    """Return the archive of the image of this checkout, as `podman save` writes it. No network is needed."""
    return stored(NAME, build_agent)


def node_image() -> Path:
    """Return the archive of the installer's image. Without a network the bundle has to be there."""
    archive = bundle()
    return stored(NODE_NAME, lambda builder: build_installer(builder, archive, NODE_NAME))


def older_node_image() -> Path:
    """Return the archive of the installer's image whose bundle has the version tests.packages.OLD."""
    archive = bundle()

    def build(builder: Command) -> None:
        with tempfile.TemporaryDirectory() as folder:
            build_installer(builder, older_bundle(archive, Path(folder)), OLDER_NODE_NAME)

    return stored(OLDER_NODE_NAME, build)


def stored(name: str, build: Callable[[Command], None]) -> Path:
    short = name.rpartition("-")[2].partition(":")[0]
    with hold_lock(STORE / "lock"):
        archive = STORE / f"{short}-{digest()}.tar"
        if not archive.exists():
            for old in STORE.glob(f"{short}-*"):
                old.unlink()
            # podman takes a path of at most 50 characters here.
            with tempfile.TemporaryDirectory() as runroot:
                podman = ["podman", "--runroot", runroot, "--storage-driver", "vfs"]
                build_by(podman, archive, name, build)
    return archive


def build_by(podman: Command, archive: Path, name: str, build: Callable[[Command], None]) -> None:
    storage, part = STORE / "storage", archive.with_suffix(".part")
    # Layers of earlier builds are of no use: each has our own code in it.
    shutil.rmtree(storage, ignore_errors=True)
    podman = [*podman, "--root", storage]
    must([*podman, "import", "--quiet", base_archive(), BASE], timeout=BUILD_S)
    build([*podman, "build", "--isolation", "chroot", "--layers=false"])
    save = ("save", "--quiet", "--format", "docker-archive", "--output")
    must([*podman, *save, part, name], timeout=BUILD_S)
    shutil.rmtree(storage, ignore_errors=True)
    part.rename(archive)


def build_installer(builder: Command, bundle: Path, name: str) -> None:
    folder = Path("install/packaging/kubernetes")
    with tempfile.TemporaryDirectory() as context:
        (Path(context) / "dist/node").mkdir(parents=True)
        shutil.copy(bundle, Path(context) / "dist/node")
        shutil.copytree(ROOT / folder, Path(context) / folder)
        words = ["--target", "installer", "--build-arg", f"BASE={BASE}", "--tag", name]
        must([*builder, *words, "--file", Path(context) / folder / "Containerfile", context], timeout=BUILD_S)


def build_agent(builder: Command) -> None:
    environment = {
        "CGPU_BOOTSTRAP_OFFLINE": "1",
        "CGPU_IMAGE_BUILDER": " ".join(map(str, builder)),
        "CGPU_IMAGE_PYTHON": python_version(),
    }
    build: list[str | Path] = [
        ROOT / "scripts/kubernetes/build-image",
        "kubernetes",
        "--build-arg",
        f"BASE={BASE}",
        "--tag",
        NAME,
    ]
    must(build, environment, BUILD_S)


if __name__ == "__main__":
    try:
        fetch()
        if "--without-helm" not in sys.argv:
            bundle()
    except AssertionError as error:
        sys.exit(f"test-kubernetes: the image: {error}")
