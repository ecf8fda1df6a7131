# SPDX-License-Identifier: Apache-2.0
"""A release, made from its tag in two folders, and verified as docs/install.md says."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cgpu import __version__
from tests.integration.commands import Outcome, call, must
from tests.kubernetes import images
from tests.packages import ROOT

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(3300)]

BUILD_S = 1500  # five minutes where nothing else runs
GIT = (
    "git",
    "-c",
    f"safe.directory={ROOT}",
    "-c",
    "user.name=A",
    "-c",
    "user.email=a@b",
    "-c",
    "core.fsync=none",
)
PUBLIC = "install/packaging/release.pem"
COMMIT_TIME = {f"GIT_{who}_DATE": "2026-11-30T12:00:00Z" for who in ("AUTHOR", "COMMITTER")}
FILES = {
    f"opencgpu-{__version__}-py3-none-linux_x86_64.whl",
    f"opencgpu-{__version__}.tar.gz",
    f"opencgpu-{__version__}-x86_64.tar.gz",
    f"opencgpu_{__version__}_amd64.deb",
    f"opencgpu-dkms_{__version__}_all.deb",
    f"opencgpu-{__version__}-1.x86_64.rpm",
    f"opencgpu-dkms-{__version__}-1.noarch.rpm",
    f"opencgpu-kubernetes-{__version__}.oci.tar",
    f"opencgpu-node-{__version__}.oci.tar",
    f"opencgpu-chart-{__version__}.tgz",
    f"opencgpu-chart-{__version__}.oci.tar",
    f"opencgpu-{__version__}.cdx.json",
    f"opencgpu-node-{__version__}.cdx.json",
    f"opencgpu-kubernetes-{__version__}.cdx.json",
    "SHA256SUMS",
    "SHA256SUMS.sig",
}


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a releaser's key."""
    secret = tmp_path_factory.mktemp("key") / "secret.pem"
    must(["openssl", "genpkey", "-algorithm", "ed25519", "-out", secret])
    return secret


def copy_sources(target: Path, key: Path) -> Path:
    """Copy this checkout with a releaser's public key, as the only commit of a repository."""
    listed = must([*GIT, "-C", ROOT, "ls-files", "-co", "--exclude-standard"]).stdout.splitlines()
    for name in filter(lambda name: os.path.lexists(ROOT / name), listed):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    must(["openssl", "pkey", "-in", key, "-pubout", "-out", target / PUBLIC])
    must([*GIT, "-C", target, "init", "--quiet"])
    must([*GIT, "-C", target, "add", "--all"])
    must([*GIT, "-C", target, "commit", "--quiet", "--message", "release"], COMMIT_TIME)
    kept = ROOT / "kmod/build/bundled"
    kept.mkdir(parents=True, exist_ok=True)
    (target / "kmod/build").mkdir()
    (target / "kmod/build/bundled").symlink_to(kept)
    (target / ".venv").mkdir()
    for path in (ROOT / ".venv").iterdir():
        (target / ".venv" / path.name).symlink_to(path)
    return target


@pytest.fixture(scope="module")
def podman() -> Iterator[list[str]]:
    """Give podman with a storage of its own, in which the images' Debian is."""
    images.fetch()
    with TemporaryDirectory() as folder:
        command = ["podman", "--root", f"{folder}/s", "--runroot", f"{folder}/r", "--storage-driver", "vfs"]
        must([*command, "import", "--quiet", images.base_archive(), images.BASE], timeout=BUILD_S)
        yield command


def release(folder: Path, key: Path, podman: list[str]) -> Path:
    options = ("--isolation", "chroot", "--layers=false", "--build-arg", f"BASE={images.BASE}")
    environment = {"CGPU_PODMAN": " ".join(podman), "CGPU_IMAGE_PYTHON": images.python_version()}
    must([folder / "install/packaging/release", key, folder / "dist/release", *options], environment, BUILD_S)
    return folder / "dist/release"


@pytest.fixture(scope="module")
def releases(key: Path, podman: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make the release twice."""
    first, second = (copy_sources(tmp_path_factory.mktemp(name), key) for name in ("one", "another"))
    for folder in first, second:
        must([*GIT, "-C", folder, "tag", f"v{__version__}"])
    return release(first, key, podman), release(second, key, podman)


def verify(folder: Path) -> Outcome:
    """Type the commands of the document."""
    page = (ROOT / "docs/install.md").read_text()
    found = re.search(r"^(openssl pkeyutl -verify .*)\n(sha256sum .*)$", page, re.MULTILINE)
    assert found
    return call(["sh", "-c", f"cd '{folder}' && {found[1]} && {found[2]}"])


def test_same_anywhere(releases: tuple[Path, Path]) -> None:
    """Two folders give the same files, and each has its checksum."""
    first, second = (sorted(path.name for path in folder.iterdir()) for folder in releases)
    assert first == second
    assert set(first) == FILES
    sums = [(folder / "SHA256SUMS").read_text() for folder in releases]
    assert sums[0].splitlines() == sums[1].splitlines()
    assert len(sums[0].splitlines()) == len(first) - 2


def test_signature(releases: tuple[Path, Path], tmp_path: Path) -> None:
    """The documented commands refuse another bit in a file, its sum or the signature, and another key."""
    folder = tmp_path / "got"
    shutil.copytree(releases[0], folder)
    shutil.copy(releases[0].parents[1] / PUBLIC, folder)
    done = verify(folder)
    assert done.returncode == 0, done.text
    for name in (f"opencgpu-chart-{__version__}.tgz", "SHA256SUMS", "SHA256SUMS.sig"):
        path = folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert verify(folder).returncode != 0, name
        path.write_bytes(whole)
    must(["openssl", "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "other.pem"])
    must(["openssl", "pkey", "-in", tmp_path / "other.pem", "-pubout", "-out", folder / "release.pem"])
    assert verify(folder).returncode != 0


def test_images(releases: tuple[Path, Path], podman: list[str]) -> None:
    """podman loads both images; the chart's layout has the chart, which names them."""
    for name in "kubernetes", "node":
        archive = releases[0] / f"opencgpu-{name}-{__version__}.oci.tar"
        assert "Loaded image" in must([*podman, "load", "--input", archive], timeout=BUILD_S).text
    with tarfile.open(releases[0] / f"opencgpu-chart-{__version__}.oci.tar") as layout:
        names = layout.getnames()
        stream = layout.extractfile("./index.json")
        assert stream is not None
        (manifest,) = json.load(stream)["manifests"]
    assert f"./blobs/{manifest['digest'].replace(':', '/')}" in names


def test_bill(releases: tuple[Path, Path]) -> None:
    """The bill of the bundle names each locked package, and Debian's libraries; an image's its Debian."""
    bill = json.loads((releases[0] / f"opencgpu-node-{__version__}.cdx.json").read_text())
    assert {"dpkg", "libc6", "pyyaml"} <= {part["name"].lower() for part in bill["components"]}
    bill = json.loads((releases[0] / f"opencgpu-{__version__}.cdx.json").read_text())
    kinds = {part["purl"].partition("@")[0] for part in bill["components"]}
    assert {"pkg:pypi/pyyaml", "pkg:deb/debian/libc6", "pkg:deb/debian/openssl"} <= kinds
    locked = (ROOT / "install/packaging/bundled.txt").read_text().count("==")
    assert len([kind for kind in kinds if kind.startswith("pkg:pypi/")]) == locked


def test_refusals(key: Path, tmp_path: Path) -> None:
    """No release comes of a commit without a tag, of changed files, or of another key."""
    folder = copy_sources(tmp_path / "sources", key)
    command = [folder / "install/packaging/release", key, folder / "dist/release"]
    assert f"HEAD has no tag v{__version__}" in call(command).stderr
    must([*GIT, "-C", folder, "tag", f"v{__version__}"])
    must(["openssl", "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "other.pem"])
    other = [command[0], tmp_path / "other.pem", *command[2:]]
    assert "install/packaging/release.pem is not its public half" in call(other).stderr
    (folder / "README.md").write_text("changed")
    assert "changes that are not committed" in call(command).stderr
    assert not (folder / "dist").exists()
