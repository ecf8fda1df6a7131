# SPDX-License-Identifier: Apache-2.0
"""Files that the daemon writes for hook, wrapper and container engines."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from typing import TYPE_CHECKING

from cgpu import cdi_devices
from cgpu.config import effective, refused
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import cdi
from cgpu.replace import replace_text
from cgpu.runtime_config.oci_runtime import lowlevel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cgpu.config.effective import Effective
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.places import Places

log = logging.getLogger(__name__)


def put_in_force(config: Effective, places: Places) -> None:
    """Put the configuration where hook and wrapper have it. Raises CgpuError."""
    # Here, as its import takes long, and a daemon that is upgraded keeps calls waiting.
    from cgpu.config.load import write_effective

    write_effective(config, places.effective)
    with _warning(places.low_level, "the wrapper looks for the runtime at each call"):
        lowlevel.keep_links(config.low_level_runtime, str(places.low_level), str(places.low_level_plain))


def read_in_force(places: Places) -> Effective | None:
    """Return what the program before this one had in force; None where its keys differ."""
    with contextlib.suppress(CgpuError):
        return effective.load(str(places.effective))
    return None


def publish(engine: Engine, places: Places) -> None:
    """Say which devices a container needs, how --device names GPUs, and which process this is."""
    refused.forget(str(places.refused))
    specification = cdi.specification(list(engine.gpus()), list(engine.nodes()))
    replace_text(places.cdi, json.dumps(specification, indent=1) + "\n")
    # A convenience: the variables name GPUs as well.
    with _warning(places.cdi_devices, "--device knows no GPU by name"):
        cdi_devices.publish(((gpu.index, gpu.uuid) for gpu in engine.gpus()), places.cdi_devices)
    replace_text(places.pid, f"{os.getpid()}\n")


def note_command(by_hand: str | None, places: Places) -> None:
    """Keep the command of the person who has started this daemon, for messages after its end."""
    if by_hand is None:
        places.command.unlink(missing_ok=True)
    else:
        replace_text(places.command, f"{by_hand}\n")


def withdraw(places: Places) -> None:
    """Take the files of publish() away. The settings and the command stay, which count without a daemon."""
    for path in (places.pid, places.cdi, places.cdi_devices):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _warning(path: Path, effect: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        log.warning("%s: cannot be written: %s; %s", path, error.strerror, effect)
