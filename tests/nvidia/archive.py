# SPDX-License-Identifier: Apache-2.0
"""Packages of NVIDIA's software from Debian's archive, unpacked into a folder and never installed.

The sections contrib, non-free and non-free-firmware are not in a plain installation's sources. A private apt
configuration reaches them by the mirrors that apt has here; the machine's own configuration stays as it is.
Fetched packages are kept in kmod/build/nvidia, by package and version.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import hold_lock

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "kmod" / "build" / "nvidia"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SECTIONS = "contrib non-free non-free-firmware"
HERE = "bookworm"
SECONDS = 300


class NotInArchiveError(Exception):
    """Debian's archive, as far as it is reached from here, has not what was asked for; the text says what."""


@dataclass(frozen=True)
class Release:
    """A release of NVIDIA's software as Debian packages it."""

    version: str  # NVIDIA's
    debian: str  # the packages'
    suite: str


RELEASES = (
    Release("535.261.03", "535.261.03-1", HERE),
    Release("550.163.01", "550.163.01-2", "trixie"),
)


def version_of(named: str) -> str:
    """Return the version of the release in the archive that is named by its branch (`535`); else the name."""
    found = (each.version for each in RELEASES if each.version.split(".", maxsplit=1)[0] == named)
    return next(found, named)


def release(version: str) -> Release:
    """Return the release with NVIDIA's version number, or of that branch. Raises NotInArchiveError."""
    for each in RELEASES:
        if each.version == version_of(version):
            return each
    known = ", ".join(each.version for each in RELEASES)
    raise NotInArchiveError(f"{version}: not in Debian's archive; expected one of: {known}")


def mirrors() -> Iterator[tuple[str, str]]:
    """Yield mirror and suite of each source of Debian's current release that apt has here."""
    shape = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"
    command = ["apt-get", "indextargets", "--format", shape, "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    rows = {tuple(line.split()) for line in done.stdout.splitlines()}
    for row in sorted(rows):
        if len(row) == 4 and row[3] == "Debian" and row[2] == "main" and row[1].startswith(HERE):
            yield row[0], row[1]


def sources() -> str:
    """Return the lines of a sources.list with the sections, for each suite that a release comes from.

    Raises NotInArchiveError where apt has no lists of Debian's current release.
    """
    found = list(mirrors())
    if not found:
        raise NotInArchiveError(f"apt has no lists of {HERE} here; run: apt-get update")
    main = {uri for uri, suite in found if suite == HERE}
    found += [(uri, each.suite) for uri in sorted(main) for each in RELEASES if each.suite != HERE]
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    return "".join(f"deb {signed}{uri} {suite} {SECTIONS}\n" for uri, suite in found)


def _apt(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run apt-get with the private configuration."""
    etc = STORE / "apt"
    options = {
        "Dir::Etc::sourcelist": etc / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::Lists": etc / "lists",
        "Dir::Cache": etc / "cache",
        "Acquire::Retries": 3,
        "Acquire::Languages": "none",
        # The archive's own user cannot write into a checkout.
        "APT::Sandbox::User": "root",
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items()), *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=SECONDS)


def _update(*, again: bool = False) -> None:
    """Read the sections' lists, unless that was done for the same sources and is not wanted again."""
    etc = STORE / "apt"
    wanted = sources()
    stamp = etc / "read"
    if not again and stamp.exists() and stamp.read_text() == wanted:
        return
    for name in ("lists/partial", "cache/archives/partial"):
        (etc / name).mkdir(parents=True, exist_ok=True)
    (etc / "sources.list").write_text(wanted)
    done = _apt("update", "--error-on=any", cwd=etc)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines() or ["apt-get update failed"]
        raise NotInArchiveError(f"the sections {SECTIONS} are not reached from here: {reason[0]}")
    stamp.write_text(wanted)


def package(name: str, debian_version: str) -> Path:
    """Return the folder with the files of a package, fetched at most once.

    Raises NotInArchiveError where the archive has no such package.
    """
    folder = STORE / "packages" / f"{name}_{debian_version}"
    with hold_lock(STORE / "lock"):
        if not folder.exists():
            _update()
            _fetch(name, debian_version, folder)
    return folder


def _fetch(name: str, debian_version: str, folder: Path) -> None:
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    done = _apt("download", f"{name}={debian_version}", cwd=part)
    if done.returncode != 0:
        # The lists may be of before a release of Debian's.
        _update(again=True)
        done = _apt("download", f"{name}={debian_version}", cwd=part)
    found = list(part.glob("*.deb"))
    if done.returncode != 0 or len(found) != 1:
        shutil.rmtree(part)
        raise NotInArchiveError(
            f"no package {name} {debian_version} in Debian's archive as it is reached from here"
        )
    files = part / "files"
    subprocess.run(["dpkg-deb", "-x", str(found[0]), str(files)], check=True, timeout=SECONDS)
    files.rename(folder)
    shutil.rmtree(part)
