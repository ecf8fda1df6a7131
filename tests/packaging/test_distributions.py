# SPDX-License-Identifier: Apache-2.0
"""scripts/test-distributions where the mirror lacks a release. With one it takes minutes."""

from __future__ import annotations

import io
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import pytest

SCRIPT = "scripts/test-distributions"
# A mirror of one release without packages, and an apt that knows nothing else.
RELEASE = """Origin: Debian
Suite: {name}
Codename: {name}
Date: Thu, 01 Jan 2026 00:00:00 UTC
Components: main
Architectures: amd64
"""
APT = """Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Acquire::http::Proxy::127.0.0.1 "DIRECT";
APT::Sandbox::User "root";
"""


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    """A checkout with nothing but the script."""
    checkout = tmp_path / "checkout"
    (checkout / SCRIPT).parent.mkdir(parents=True)
    shutil.copy2(repository / SCRIPT, checkout / SCRIPT)
    subprocess.run(["git", "init", "-q", checkout], check=True)
    return checkout


class Strict(SimpleHTTPRequestHandler):
    """Serves files, and no path with an empty part, as some mirrors do."""

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        if "//" in self.path:
            self.send_error(400)
            return None
        return super().send_head()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server of the test's folder."""
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(Strict, directory=str(tmp_path)))
    threading.Thread(target=served.serve_forever).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


def make_mirror(folder: Path, name: str, server: str = "file:") -> Path:
    """Make the mirror of a release, and return settings of apt that know it alone."""
    packages = folder / "mirror" / "dists" / name / "main" / "binary-amd64"
    packages.mkdir(parents=True)
    (packages / "Packages").touch()
    (folder / "mirror" / "dists" / name / "Release").write_text(RELEASE.format(name=name))
    address = f"file:{folder}/mirror" if server == "file:" else f"{server}/mirror/"
    (folder / "sources.list").write_text(f"deb [trusted=yes] {address} {name} main\n")
    for place in ("lists/partial", "cache"):
        (folder / place).mkdir(parents=True)
    settings = folder / "apt.conf"
    settings.write_text(APT.format(folder=folder))
    return settings


def short(checkout: Path, release: str, apt: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Try a release with these settings of apt."""
    return subprocess.run(
        [checkout / SCRIPT, "--short", release],
        env={**os.environ, **apt},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.root
@pytest.mark.parametrize(("require", "status"), [("", 0), ("all", 1)])
def test_a_release_that_is_not_there(checkout: Path, tmp_path: Path, require: str, status: int) -> None:
    """It is named and left out; that is a failure where every test is required."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("missing: mmdebstrap; run: scripts/bootstrap test")
    own = platform.freedesktop_os_release()["VERSION_CODENAME"]
    other = "trixie" if own != "trixie" else "bookworm"
    apt = {"APT_CONFIG": str(make_mirror(tmp_path, own)), "CGPU_TEST_REQUIRE": require}
    done = short(checkout, other, apt)
    assert f"{other}: the mirror of this machine's apt sources does not have it" in done.stdout
    assert done.returncode == status, done.stdout + done.stderr
    assert ("CGPU_TEST_REQUIRE is all" in done.stderr) == (require == "all")


@pytest.mark.root
def test_an_address_that_ends_in_a_slash(checkout: Path, tmp_path: Path, server: str) -> None:
    """A release is found, whether or not the mirror's address ends so."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("missing: mmdebstrap; run: scripts/bootstrap test")
    own = platform.freedesktop_os_release()["VERSION_CODENAME"]
    apt = {"APT_CONFIG": str(make_mirror(tmp_path, own, server)), "CGPU_TEST_REQUIRE": ""}
    done = short(checkout, own, apt)
    assert "does not have it" not in done.stdout
    assert f"{own} cannot be made" in done.stdout + done.stderr
