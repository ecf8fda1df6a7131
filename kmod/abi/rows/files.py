# SPDX-License-Identifier: Apache-2.0
"""The signed files of a node that hold rows: which of them count, and why others do not."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.files import open_nofollow, read_fd
from cgpu.kmod.abi.generate import DATA, Json, once, version_key
from cgpu.kmod.abi.rows.row import VERSION, line_of

NODE = Path(paths.CONFIG).parent
ROWS, KEYS = "drivers.d", "driver-keys.d"
OWN_KEYS = Path(__file__).with_name("keys")
OPENSSL = paths.OPENSSL
VERIFY_S = 10.0
MAX_FILES = 32  # in one folder; cgpu-check-driver has all rows in one argument of 128 KiB
MAX_BYTES = 1 << 16
FOREIGN = stat.S_IWGRP | stat.S_IWOTH
# An Ed25519 key as openssl writes it: another kind is signed for by other rules.
KEY = re.compile(
    rb"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=\n-----END PUBLIC KEY-----\n"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A version of the driver: the file that has it, and the line for the engine."""

    version: str
    file: str
    line: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that count. problems: one line for each file that does not."""

    rows: tuple[Row, ...] = ()
    problems: tuple[str, ...] = ()

    def text(self) -> str:
        """Return what the engine is given."""
        return "\n".join(row.line for row in self.rows)

    def of(self, version: str | None) -> Row | None:
        """Return the row of a version, by whatever zeros it is written."""
        if version is None or not VERSION.fullmatch(version):
            return None
        return next((row for row in self.rows if version_key(row.version) == version_key(version)), None)


def read(folder: Path = NODE) -> Rows:
    """Read the rows beside a node's configuration. What is wrong with a file costs its own row alone."""
    problems: list[str] = []
    rows: list[Row] = []
    # Without a row neither keys nor the table are read.
    if files := _list(folder / ROWS, ".json", problems):
        data = json.loads(DATA.read_text(), object_pairs_hook=once)
        keys = list(_keys(folder, problems))
        for path in files:
            with _noted(problems):
                rows.append(_row(path, keys, folder, data, Rows(tuple(rows))))
    return Rows(tuple(rows), tuple(problems))


@contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except CgpuError as error:
        problems.append(str(error))


def _row(path: Path, keys: list[bytes], folder: Path, data: Json, others: Rows) -> Row:
    content = _content(path)
    signature = _content(path.with_name(path.name + ".sig"))
    if not any(_verify(content, signature, key) for key in keys):
        raise CgpuError(
            f"{path}: none of {len(keys)} keys has signed it: expected its signer's {folder / KEYS}/NAME.pem"
        )
    try:
        version, line = line_of(content, data)
    except CgpuError as error:
        raise CgpuError(f"{path}: {error}") from error
    if other := others.of(version):
        raise CgpuError(f"{path}: {version} is in {other.file}, too: take one of them away")
    return Row(version, str(path), line)


def _keys(folder: Path, problems: list[str]) -> Iterator[bytes]:
    for place in (OWN_KEYS, folder / KEYS):
        for path in _list(place, ".pem", problems):
            with _noted(problems):
                content = _content(path)
                if not KEY.fullmatch(content):
                    raise CgpuError(f"{path}: expected an Ed25519 key, as openssl pkey -pubout writes it")
                yield content


def _list(folder: Path, suffix: str, problems: list[str]) -> list[Path]:
    """Return the files of a folder that root alone can write; none where it is not there."""
    with _noted(problems):
        if os.path.lexists(folder):
            fd = _open(folder, stat.S_IFDIR)
            names = sorted(name for name in os.listdir(fd) if name.endswith(suffix))
            os.close(fd)
            if len(names) > MAX_FILES:
                raise CgpuError(f"{folder}: {len(names)} files: expected at most {MAX_FILES}")
            return [folder / name for name in names]
    return []


def _open(path: Path, kind: int) -> int:
    """Open a regular file, or a folder, that root alone can write. Raises CgpuError."""
    try:
        fd = open_nofollow(path)
    except OSError as error:
        raise CgpuError(f"{path}: {error.strerror}: expected a regular file of root's") from error
    about = os.fstat(fd)
    if stat.S_IFMT(about.st_mode) == kind and about.st_uid == 0 and not about.st_mode & FOREIGN:
        return fd
    os.close(fd)
    raise CgpuError(
        f"{path}: {stat.filemode(about.st_mode)} of user {about.st_uid}: expected a file or folder that root "
        f"alone can write: chown root {path}; chmod go-w {path}"
    )


def _content(path: Path) -> bytes:
    fd = _open(path, stat.S_IFREG)
    try:
        return read_fd(fd, MAX_BYTES)
    except OSError as error:
        raise CgpuError(f"{path}: {error.strerror}: expected at most {MAX_BYTES} bytes") from error
    finally:
        os.close(fd)


def _verify(content: bytes, signature: bytes, key: bytes) -> bool:
    """Have openssl verify these very bytes, which only memory has. Raises CgpuError."""
    try:
        with ExitStack() as files:
            given = []
            for part in (key, signature, content):
                file = files.enter_context(os.fdopen(os.memfd_create("cgpu-row"), "wb", buffering=0))
                file.write(part)
                given.append(file.fileno())
            options = zip(("-inkey", "-sigfile", "-in"), given, strict=True)
            words = [word for option, fd in options for word in (option, f"/proc/self/fd/{fd}")]
            done = subprocess.run(
                [OPENSSL, "pkeyutl", "-verify", "-pubin", "-rawin", *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=given,
                cwd="/",
                env={},
                timeout=VERIFY_S,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CgpuError(f"{OPENSSL}: {error}; it verifies rows: apt-get install openssl") from error
    return done.returncode == 0 and b"Signature Verified Successfully" in done.stdout
