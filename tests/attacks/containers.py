# SPDX-License-Identifier: Apache-2.0
"""Containers and processes within the container, and what comes into it later."""

from __future__ import annotations

import errno

from tests.attacks.attack import (
    FILL,
    assert_held,
    attack,
    await_nothing,
    expect,
    filled,
    numbers,
    probe,
    rest,
)
from tests.attacks.build import PROBE, alone, client
from tests.attacks.harness import DAEMON, LIMIT, MIB, Harness, Seen
from tests.integration.probe import Printed

LEVELS = 2
HELD = 400 * MIB
# As of sshd: another user, another session, nothing in the environment.
SESSION = ("/usr/bin/setsid", "--wait", "/usr/bin/env", "-i")
NOBODY = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all")
# A child without a parent: its starter has ended when it begins. The first shell stays to tell of the end.
ORPHAN = ("/bin/busybox", "sh", "-c", '(exec 3<&0; "$@" <&3 &) | cat', "sh")
DEPTH, CLIENTS = 4, 8
PROCESSES = 2 ** (DEPTH + 1) - 1
PIECE = 8 * MIB
ALL = LIMIT // PIECE * PIECE


# Containers inside of the container: namespaces, root, device nodes and seccomp filter of their own.
#
# The inner container lacks what a tool gave to the outer one: libraries, files, variables. Users of HAMi:
# https://github.com/Project-HAMi/HAMi/issues/1777.


@attack(limit=True)
def docker_in_docker(harness: Harness) -> None:
    """A container in a container in the slice has the slice; under cgpud it gets no listener of its own."""
    program = (alone("nested", "-static"), LEVELS, harness.scratch, harness.dev, PROBE, "--dev", "/dev")
    printed = assert_held(harness, harness.tenant(), program=program)
    told = next(line for line in printed.stdout.splitlines() if line.startswith("listener"))
    assert numbers(told)["errno"] == (errno.EBUSY if harness.engine == DAEMON else 0)


# Sessions that come into the container later: exec and ssh.
#
# They have neither the environment nor the terminal of the container's first process, nor it as a parent.
# Users of HAMi: https://github.com/Project-HAMi/HAMi/issues/1090,
# https://github.com/Project-HAMi/HAMi/issues/2125.


@attack(limit=True, native=True)
def later_session(harness: Harness) -> None:
    """Memory of the first process and of later sessions is the slice together, to the byte."""
    tenant = harness.tenant()
    first = tenant.start(*probe(harness, f"alloc={HELD}:64k", "hold"))
    first.line("hold")
    for session in (SESSION, (*SESSION, *NOBODY), (*SESSION, *ORPHAN)):
        second = tenant.start(*session, *probe(harness, *FILL, "hold"))
        second.line("hold")
        expect(harness, tenant, LIMIT)
        printed: Printed = second.finish()
        assert filled(printed) == LIMIT - HELD, printed.text
        harness.until(lambda: harness.seen(tenant).card == HELD, "the session's memory is given back")
    expect(harness, tenant, HELD)
    first.finish()
    await_nothing(harness, tenant)


# Processes that start processes, each with many clients, all of which want memory at once.
#
# Each process in itself is below the limit; so many processes break the accounting of a library.
# Users of HAMi-core: https://github.com/Project-HAMi/HAMi-core/issues/241;
# limits per process rather than per container: https://github.com/Project-HAMi/HAMi/issues/2125.


@attack(limit=True)
def fork_bomb(harness: Harness) -> None:
    """All of them get the slice together; a neighbour gets its own to the byte; nothing is left of them."""
    tenant, neighbour = harness.tenant(), harness.tenant()
    bomb = tenant.start(client("bomb"), "--dev", harness.dev, DEPTH, CLIENTS, PIECE)
    told = rest(bomb)
    assert (told["processes"], told["bytes"]) == (PROCESSES, ALL), told
    assert filled(neighbour.run(*probe(harness, *FILL))) == LIMIT
    harness.until(lambda: harness.seen(neighbour).charged == 0, "the neighbour has given back its own")
    seen = harness.seen(tenant)
    assert seen == Seen(ALL, ALL), seen
    bomb.kill()
    await_nothing(harness, tenant)
