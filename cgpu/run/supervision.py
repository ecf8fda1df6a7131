# SPDX-License-Identifier: Apache-2.0
"""A sliced process under the daemon engine: the filter of containers on it, its listener with cgpud.

What is sent to cgpud is what a container's runtime sends, the OCI container process state:
https://github.com/opencontainers/runtime-spec/blob/v1.2.0/config-linux.md#the-container-process-state
"""

from __future__ import annotations

import errno
import json
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.run import bpf, calls
from cgpu.runtime_config.oci_runtime.seccomp import SIZE_BITS, supervise

if TYPE_CHECKING:
    from cgpu.runtime_config.oci_runtime.fields import Table

OCI_VERSION = "1.2.0"
# A number that the filter sends to the engine, for a descriptor that is none.
QUESTION = SIZE_BITS[0]
NO_FILE = -1


@dataclass(frozen=True, slots=True)
class Supervision:
    """What the child needs for it. program: the filter, as the kernel takes it."""

    container: str
    program: bytes
    socket: str = paths.SECCOMP_SOCKET

    def begin(self) -> None:
        """Put this process under the engine's supervision, for good. Raises CgpuError.

        Until the listener is delivered this process must make no call that the filter notifies.
        """
        state = self._state(os.getpid())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as runtime:
                runtime.connect(self.socket)
                listener = _listen(self.program)
                try:
                    socket.send_fds(runtime, [state], [listener])
                finally:
                    # While this copy is open, the check below cannot see that nothing serves the listener.
                    os.close(listener)
        except OSError as error:
            raise CgpuError(f"{self.socket}: {error.strerror}: {paths.daemon_command('start')}") from error
        self._check()

    def _check(self) -> None:
        # The engine says nothing when it takes a listener. A listener that it closed makes calls fail.
        if calls.ioctl_errno(NO_FILE, QUESTION) == errno.ENOSYS:
            raise CgpuError(
                f"{self.socket}: the engine did not take the listener of {self.container}: its log says why "
                f"({paths.RUN}/cgpud.log, or journalctl -u cgpud)"
            )

    def _state(self, pid: int) -> bytes:
        state = {
            "ociVersion": OCI_VERSION,
            "fds": ["seccompFd"],
            "pid": pid,
            "metadata": self.container,
            "state": {
                "ociVersion": OCI_VERSION,
                "id": self.container,
                "status": "creating",
                "pid": pid,
                "bundle": "/",
            },
        }
        return json.dumps(state).encode()


def profile(container: str, *, shared: bool) -> Table:
    """Return the profile that a container gets which brings none of its own. shared: mappings as well."""
    linux: Table = {}
    supervise(linux, container, (), shared=shared)
    made = linux["seccomp"]
    assert isinstance(made, dict)
    return made


def plan(container: str, *, shared: bool) -> Supervision:
    """Prepare all that can be prepared before the fork. Raises CgpuError."""
    return Supervision(container, bpf.assemble(profile(container, shared=shared)))


def _listen(program: bytes) -> int:
    try:
        return calls.listen(program)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise CgpuError(
                "seccomp: this process has a listener already, and can have only one: start from outside of "
                "other slices and containers"
            ) from error
        raise CgpuError(
            f"seccomp: the filter is refused ({error.strerror}); it takes CAP_SYS_ADMIN"
        ) from error
