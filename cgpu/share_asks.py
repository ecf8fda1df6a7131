# SPDX-License-Identifier: Apache-2.0
"""Questions of the runtime to the node's agent: has a pod got a share meanwhile?

A pod may join a claim that the kubelet has had prepared for other pods; the kubelet does not call the agent
again. So a container that finds its pod missing in the file of its share leaves a file in a folder, which the
agent makes where one runs, and waits until the agent has read the claim anew and taken the file away.
"""

from __future__ import annotations

import os

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.request.grants import is_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "asks"
WAIT_S = 10.0
STEP_S = 0.05


def ask(share: str, pod: str, folder: str = paths.SHARES, wait_s: float = WAIT_S) -> bool:
    """Have the agent look whether a pod has a share; return whether it has looked.

    pod: a UID. No agent can be asked where none has made the folder.
    """
    import time

    path = f"{folder}/{FOLDER}/{share}.{pod}"
    if not is_share(share) or not is_share(pod):  # UIDs of objects have the same form
        return False
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError:
        return False
    end = time.monotonic() + wait_s
    while os.path.exists(path):
        if time.monotonic() >= end:
            _take(path)
            return False
        time.sleep(STEP_S)
    return True


def asked(folder: str = paths.SHARES) -> Iterator[tuple[str, str]]:
    """Yield share and pod of each question; from now on questions are possible. Raises CgpuError."""
    place = f"{folder}/{FOLDER}"
    try:
        for path in (folder, place):
            if not os.path.isdir(path):
                os.mkdir(path, mode=0o700)
        names = os.listdir(place)
    except FileNotFoundError:
        return  # the engine has not been started; it makes what is around
    except OSError as error:
        raise CgpuError(f"{place}: cannot be read ({error.strerror})") from error
    for name in sorted(names):
        share, _, pod = name.partition(".")
        if is_share(share) and is_share(pod):
            yield share, pod


def answer(share: str, pod: str, folder: str = paths.SHARES) -> None:
    """Tell those who ask that their question is answered."""
    _take(f"{folder}/{FOLDER}/{share}.{pod}")


def _take(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
