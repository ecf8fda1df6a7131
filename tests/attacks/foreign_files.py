# SPDX-License-Identifier: Apache-2.0
"""Files of the container's own file system where the engine expects a driver's node.

FUSE asks its server at each close, and no signal ends that wait (fs/fuse/file.c, fuse_flush); the same goes
for memory that such a file is mapped to. An engine that waits so could neither be killed nor replaced. There
is no report of it for a tool for GPUs; servers that never answer are an old trouble of every program that
looks at others' files.
"""

from __future__ import annotations

from pathlib import Path

from tests.attacks.attack import attack, await_nothing, probe, rest
from tests.attacks.build import FUSE, client
from tests.attacks.daemon_harness import DaemonHarness
from tests.attacks.harness import DAEMON, Harness
from tests.attacks.silent import silent_file

SECONDS = 3


def meets(harness: Harness, how: str) -> None:
    """Have cgpud meet such a file, and kill it: it must end at once, and another one serve containers."""
    assert isinstance(harness, DaemonHarness)
    tenant = harness.tenant()
    with silent_file(Path(harness.scratch) / "silent") as (file, _):
        running = tenant.start(client("foreign_file", FUSE), "--dev", harness.dev, file, how, SECONDS)
        rest(running)
        harness.kill_engine()
        assert "status=0x0" in harness.tenant().run(*probe(harness, "alloc=2M")).text
        running.finish()
    await_nothing(harness, tenant)


@attack(limit=False, engines=(DAEMON,))
def file_that_cannot_be_closed(harness: Harness) -> None:
    """A call with a size on such a file leaves nothing in cgpud that has to be closed."""
    meets(harness, "once")


@attack(limit=False, engines=(DAEMON,))
def file_exchanged_for_one_that_cannot_be_closed(harness: Harness) -> None:
    """Nor does one whose descriptor is exchanged for such a file in the midst of the call."""
    meets(harness, "exchange")


@attack(limit=False, engines=(DAEMON,))
def memory_that_is_never_filled_in(harness: Harness) -> None:
    """A call with arguments in memory of such a file keeps cgpud neither from its end nor from a next one."""
    meets(harness, "memory")


@attack(limit=False, engines=(DAEMON,))
def memory_that_others_take_apart(harness: Harness) -> None:
    """A process dies while its list of mappings is read, and its file system keeps the reader waiting.

    The last user of memory takes it apart. That must not be cgpud: others are served, and it can be ended.
    """
    assert isinstance(harness, DaemonHarness)
    tenant = harness.tenant()
    folder = Path(f"{harness.scratch}/dying")
    folder.mkdir()
    running = tenant.start(client("dying_memory", FUSE), "--dev", harness.dev, folder)
    try:
        rest(running, "caught")
        assert "status=0x0" in harness.tenant().run(*probe(harness, "alloc=2M")).text
        harness.seen(tenant)
        harness.kill_engine()
        assert "status=0x0" in harness.tenant().run(*probe(harness, "alloc=2M")).text
    finally:
        running.finish()
    await_nothing(harness, tenant)
