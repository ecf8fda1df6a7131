# SPDX-License-Identifier: Apache-2.0
"""The low-level runtime: its choice, the links to it, its features, and handing over to it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what signal is made of, which is slow to import
import os

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEARCH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Folders of those that others bring: CRI-O's packages, k3s, RKE2, k0s and microk8s (engines/nodes.py).
BROUGHT = (
    "/usr/libexec/crio",
    "/var/lib/rancher/k3s/data/current/bin",
    "/var/lib/rancher/rke2/bin",
    "/var/lib/k0s/bin",
    "/snap/microk8s/current/bin",
)
PLACES = (*SEARCH, *BROUGHT)
VENDOR = "nvidia-container-runtime"
ORDER = (VENDOR, "runc", "crun")
LAUNCHER = paths.lasting(
    os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + "/launcher/cgpu-container-runtime"
)
# As in launcher/launcher.h.
NAME = "cgpu-container-runtime"
LOW_LEVEL = NAME + ".low-level"
BELOW = "CGPU_RUNTIME_BELOW"  # the vendor's wrapper has called us out of its list of low-level runtimes
AGAIN = "CGPU_RUNTIME_AGAIN"  # the vendor's wrapper, which we started in this process, has called us again
KEPT = "CGPU_KEPT_"
CACHE = paths.RUN + "/runtime-features"
FEATURES_MAX_BYTES = 1 << 18
FEATURES_TIMEOUT_MS = 5000
SIGKILL = 9
IGNORED = (13, 25)  # SIGPIPE and SIGXFSZ, by Python at its start


def low_level(path: str) -> str:
    """Return the path of our runtime by its name for the vendor's list of low-level runtimes."""
    return os.path.join(os.path.dirname(path), LOW_LEVEL)


def is_vendor(path: str) -> bool:
    """Return whether a runtime is the vendor's wrapper, which may call us again."""
    return os.path.basename(path).startswith(VENDOR)


def find(configured: str | None, *, plain: bool, search: Sequence[str] = PLACES) -> str:
    """Return the path of the low-level runtime; plain: only of one that never calls us. Raises CgpuError."""
    if configured is not None and not (plain and is_vendor(configured)):
        if configured.startswith("/") and _usable(configured):
            return configured
        raise CgpuError(
            f"low_level_runtime: {show(configured)}: expected the absolute path of a program other than "
            f"this one; set it in {paths.CONFIG}, then: {paths.config_command('reload')}"
        )
    for name in ORDER[1:] if plain else ORDER:
        for directory in search:
            if _usable(f"{directory}/{name}"):
                return f"{directory}/{name}"
    from cgpu.distribution import here, install_command

    install = install_command("runc", here())
    raise CgpuError(
        f"no low-level runtime in {':'.join(search)}: expected one of {', '.join(ORDER)}; {install}"
    )


def check(configured: str | None) -> None:
    """Raise CgpuError where low_level_runtime is set to what cannot be one."""
    if configured is not None:
        find(configured, plain=False)


def keep_links(configured: str | None, link: str, plain_link: str, search: Sequence[str] = PLACES) -> None:
    """Keep the launcher's links to what find() returns; where it finds nothing there is none.

    For an engine that starts, or reads its configuration again. Without a link the launcher leaves each call
    to Python, which says what is wrong. Raises OSError.
    """
    for place, plain in ((link, False), (plain_link, True)):
        fresh = f"{place}.{os.getpid()}"
        try:
            os.symlink(find(configured, plain=plain, search=search), fresh)
            os.rename(fresh, place)
        except CgpuError:
            if os.path.islink(place):
                os.unlink(place)


def _usable(path: str) -> bool:
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    if os.path.basename(os.path.realpath(path)) in (NAME, LOW_LEVEL):
        return False
    return not os.path.exists(LAUNCHER) or not os.path.samefile(path, LAUNCHER)


def is_marked(environment: Mapping[str, str], name: str) -> bool:
    """Return whether a variable marks this very process: BELOW or AGAIN."""
    return environment.get(name) == str(os.getpid())


def execute(path: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Become the low-level runtime. Raises CgpuError."""
    handed = {name.removeprefix(KEPT): value for name, value in environment.items() if name != BELOW}
    if is_vendor(path):
        handed[AGAIN] = str(os.getpid())
    try:
        _handle_as(_signal.SIG_DFL)
        os.execve(path, [path, *arguments], handed)
    except OSError as error:
        _handle_as(_signal.SIG_IGN)
        raise CgpuError(f"{path}: cannot be started ({error.strerror})") from error


def _handle_as(action: int) -> None:
    # An ignored signal stays ignored beyond the exec.
    for number in IGNORED:
        _signal.signal(number, action)


def seccomp_flags(path: str, cache: str = CACHE) -> list[str]:
    """Return the seccomp flags a runtime says it supports; none where it does not say.

    The answer is cached for the file that gave it, so that only the first call starts a process.
    """
    cache = f"{cache}-{os.path.basename(path)}"
    status = os.stat(path)
    key = f"{path} {status.st_ino} {status.st_mtime_ns} {status.st_size}"
    kept = _cached(cache, key)
    if kept is not None:
        return kept
    flags = _asked(path)
    _keep(cache, f"{key}\n{' '.join(flags)}\n")
    return flags


def _cached(cache: str, key: str) -> list[str] | None:
    try:
        lines = read_bounded(cache, 1 << 14).decode("utf-8", "replace").split("\n")
    except OSError:
        return None
    return lines[1].split() if len(lines) == 3 and lines[0] == key else None


def _keep(cache: str, text: str) -> None:
    temporary = f"{cache}.{os.getpid()}"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, text.encode("utf-8", "replace"))
        finally:
            os.close(fd)
        os.rename(temporary, cache)
    except OSError:
        return  # without the directory the next start asks again


def _asked(path: str) -> list[str]:
    from cgpu.fastjson import loads

    try:
        document = loads(_output(path))
    except (ValueError, OSError):
        return []
    for name in ("linux", "seccomp", "supportedFlags"):
        document = document.get(name) if isinstance(document, dict) else None
    return [flag for flag in document if isinstance(flag, str)] if isinstance(document, list) else []


def _output(path: str) -> bytes:
    """Return what `RUNTIME features` prints, within bounds of time and size. Raises OSError."""
    import select

    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate((null, writer, null))]
    pid = os.posix_spawn(path, [path, "features"], {"PATH": ":".join(SEARCH)}, file_actions=actions)
    os.close(writer)
    os.close(null)
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    output = b""
    while len(output) < FEATURES_MAX_BYTES and poll.poll(FEATURES_TIMEOUT_MS):
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        output += chunk
    os.close(reader)
    os.kill(pid, SIGKILL)  # without effect after its end
    os.waitpid(pid, 0)
    return output
