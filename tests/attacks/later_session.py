# SPDX-License-Identifier: Apache-2.0
"""Sessions that come into the container later: exec and ssh.

They have neither the environment nor the terminal of the container's first process, nor it as a parent.
Users of HAMi: https://github.com/Project-HAMi/HAMi/issues/1090,
https://github.com/Project-HAMi/HAMi/issues/2125.
"""

from __future__ import annotations

from tests.attacks.arena import LIMIT, MIB, Arena
from tests.attacks.attack import FILL, attack, await_nothing, expect, filled, probe
from tests.integration.probe import Printed

HELD = 400 * MIB
# As of sshd: another user, another session, nothing in the environment.
SESSION = ("/usr/bin/setsid", "--wait", "/usr/bin/env", "-i")
NOBODY = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all")
# A child of nobody: what started it is no more when it begins. The first shell stays to tell of the end.
ORPHAN = ("/bin/busybox", "sh", "-c", '(exec 3<&0; "$@" <&3 &) | cat', "sh")


@attack(limit=True)
def later_session(arena: Arena) -> None:
    """What the first process holds and what later sessions get is the slice together, to the byte."""
    tenant = arena.tenant()
    first = tenant.start(*probe(arena, f"alloc={HELD}:64k", "hold"))
    first.line("hold")
    for session in (SESSION, (*SESSION, *NOBODY), (*SESSION, *ORPHAN)):
        second = tenant.start(*session, *probe(arena, *FILL, "hold"))
        second.line("hold")
        expect(arena, tenant, LIMIT)
        printed: Printed = second.finish()
        assert filled(printed) == LIMIT - HELD, printed.text
        arena.until(lambda: arena.seen(tenant).card == HELD, "the session's memory is given back")
    expect(arena, tenant, HELD)
    first.finish()
    await_nothing(arena, tenant)
