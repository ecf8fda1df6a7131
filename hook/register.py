# SPDX-License-Identifier: Apache-2.0
"""prestart and createRuntime register a container that requests a slice; poststop removes it."""

from __future__ import annotations

from cgpu import paths
from cgpu.client.tree import EngineDownError, Tree
from cgpu.errors import CgpuError
from cgpu.hook import log
from cgpu.hook.state import has_name

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.config.effective import Effective
    from cgpu.hook.state import State
    from cgpu.request.grants import Grant


class RegistrationError(CgpuError):
    """The engine refused the container. The message has no value of the container's environment."""


def register(
    state: State,
    grants: Sequence[Grant],
    passthrough: Sequence[int],
    shares: Sequence[str],
    config: Effective,
) -> None:
    """Register a container for the GPUs of its grants or shares; without, for those that its bundle requests.

    passthrough: GPUs that the container has whole beside its slices.

    Does nothing for a container that requests nothing. Raises CgpuError, after undoing what was done.
    """
    # The runtime wrapper, which gives grants and shares as arguments, has written the container's name.
    is_named = bool(grants or shares)
    if not is_named:
        grants, passthrough, shares = _from_bundle(state.bundle, config)
    if not grants and not shares:
        return
    tree = Tree(paths.tree(config.tree))
    if state.pid == 0:
        raise RegistrationError("state on standard input: pid: 0: the process of the container is needed")
    tree.await_restart(config.hook_timeout)
    try:
        tree.register(state.id, state.pid, grants, passthrough, shares)
    except CgpuError as error:
        raise RegistrationError(str(error)) from error
    try:
        words = f"registered pid={state.pid} {_words(grants, passthrough, shares)}"
        log.event(log.INFO, state.id, words, config.log_format, _fields(grants))
    except BaseException:
        tree.destroy(state.id)
        raise
    if not is_named and has_name(state.bundle, state.annotations):
        from cgpu.hook import event_log

        event_log.named(state.id, state.bundle, state.annotations)


def _from_bundle(bundle: str, config: Effective) -> tuple[Sequence[Grant], Sequence[int], Sequence[str]]:
    from cgpu.hook.spec import read_spec
    from cgpu.request.resolve import allocate
    from cgpu.request.spec import read

    request = read(read_spec(bundle), config)
    tree = Tree(paths.tree(config.tree))
    allocation = allocate(request, tree, config)
    if allocation is None:
        return (), (), ()
    if allocation.shares:
        return (), (), allocation.shares
    return allocation.grants, allocation.passthrough, ()


def _words(grants: Sequence[Grant], passthrough: Sequence[int], shares: Sequence[str]) -> str:
    slices = [
        f"gpu={gpu} memsize={size} ({size >> 20} MiB) weight={weight} highprio={high}"
        for gpu, size, weight, high in grants
    ]
    whole = [f"native={gpu}" for gpu in passthrough]
    return " ".join([*slices, *whole, *(f"share={share}" for share in shares)])


def _fields(grants: Sequence[Grant]) -> dict[str, int]:
    """Return the fields of a structured log line; a line about several GPUs has none of one."""
    if len(grants) != 1:
        return {}
    return dict(zip(("gpu", "memsize", "weight", "highprio"), grants[0], strict=True))


def unregister(container: str, config: Effective) -> None:
    """Remove the registration; a second call is no error. Needs no bundle. Raises CgpuError.

    An engine that is down is no error: when it starts, it drops containers whose processes have ended.
    """
    try:
        Tree(paths.tree(config.tree)).destroy(container)
    except EngineDownError as error:
        words = f"not removed now, the engine will when it is back: {error}"
        log.event(log.WARNING, container, words, config.log_format)
    else:
        log.event(log.INFO, container, "removed", config.log_format)
