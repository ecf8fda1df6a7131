# SPDX-License-Identifier: Apache-2.0
"""prestart and createRuntime: register the container with the engine, if it asks for a slice."""

from __future__ import annotations

from cgpu import effective, paths
from cgpu.errors import CgpuError
from cgpu.hook import log
from cgpu.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.effective import Effective
    from cgpu.grants import Grant
    from cgpu.hook.state import State


class RegistrationError(CgpuError):
    """The engine did not take the container. The message holds no value of its environment."""


def register(state: State, grants: Sequence[Grant], natives: Sequence[int], config: Effective) -> None:
    """Register on all GPUs of the grants, or else of the request in the bundle, or on none.

    natives: GPUs that the container has whole besides.

    Does nothing for a container that asks for nothing. Raises CgpuError, after taking back what was done.
    """
    if not grants:
        grants, natives = _from_bundle(state.bundle, config)
    if not grants:
        return
    tree = Tree(paths.tree(config.tree))
    if state.pid == 0:
        raise RegistrationError("state on standard input: pid: 0: the process of the container is needed")
    try:
        tree.register(state.id, state.pid, grants, natives)
    except CgpuError as error:
        raise RegistrationError(str(error)) from error
    try:
        log.event(log.INFO, state.id, f"registered pid={state.pid} {_words(grants, natives)}")
    except BaseException:
        tree.destroy(state.id)
        raise


def _from_bundle(bundle: str, config: Effective) -> tuple[Sequence[Grant], Sequence[int]]:
    from cgpu.hook.spec import read_spec
    from cgpu.request import defers, is_silent, resolve, wants

    spec = read_spec(bundle)
    if not is_silent(spec, config):
        effective.check_started()
    if defers(spec, config):
        config = Tree(paths.tree(config.tree)).refresh(config)
    if not wants(spec, config):
        return (), ()
    request = resolve(spec, Tree(paths.tree(config.tree)).gpus(), config)
    return (request.grants, request.native) if request is not None else ((), ())


def _words(grants: Sequence[Grant], natives: Sequence[int]) -> str:
    slices = [
        f"gpu={gpu} memsize={size} weight={weight} highprio={high}" for gpu, size, weight, high in grants
    ]
    return " ".join([*slices, *(f"native={gpu}" for gpu in natives)])
