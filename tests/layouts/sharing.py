# SPDX-License-Identifier: Apache-2.0
"""The steps that share: memory of the host, and duplicates by another process that was given leave."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.layouts.calls import Client, How, Object, bits
from tests.layouts.machine import HANDLES, HOWS, MIB, PICK, Drawn
from tests.layouts.rules import HEAP_ALLOCS, TILED, TWO, Machine, happened
from tests.layouts.stage import ANSWER, FINE
from tests.sim.abi import HOST

ALL, TO_CLIENT = 1, 3  # RS_SHARE_TYPE_*
PCI: Final = bits("NVOS32_ATTR_LOCATION", 1)
NO_PERMISSION: Final = 0x1B
TYPES = st.sampled_from([ALL, TO_CLIENT])
HOST_SIZES = st.integers(1, 64 * MIB)
FORMS = st.sampled_from([0, *sorted(HEAP_ALLOCS)])


class Sharing(Machine):
    """Random steps, with those of two processes or containers that share."""

    @rule(pick=PICK, at=PICK, form=FORMS, handle=HANDLES, size=HOST_SIZES, drawn=HOWS)
    def host(self, pick: int, at: int, form: int, handle: int, size: int, drawn: Drawn) -> None:
        """Memory of the host, in any form, with any rest of the slice; it costs nothing."""
        client = self.pick(pick, "device")
        if not client:
            return
        parent, how = client.of("device")[at % len(client.of("device"))], self.how(client, drawn)
        if form == 0:
            done, made = self.driver.memory(client, parent, handle, {"size": size, "attr": PCI}, how, HOST)
        else:
            name = HEAP_ALLOCS[form]
            sized = {"height": size, "pitch": 1} if name == TILED else {"size": size}
            asked = {"owner": 1, "attr": PCI, "hMemory": handle, **sized}
            fields = {f"data__{name}__{field}": value for field, value in asked.items()}
            done = self.driver.heap(client, form, {"hObjectParent": parent, **fields}, how)
            made = self.driver.form("NVOS32_PARAMETERS").get(done.top, f"data.{name}.hMemory")
        if how.fault == FINE and not how.between and handle == 0 and form == 0:
            assert done.status == 0
        if happened(done, how):
            client.objects[made] = Object("host", client.objects[parent].gpu, parent)

    def lend(self, owner: Client, which: int, other: Client, kind: int) -> tuple[int, int]:
        """Give another client leave: the status, and of what."""
        handles = owner.of("memory", "host")
        found = handles[which % len(handles)]
        done = self.driver.share(owner, (owner.handle, found), (kind, other.handle), How())
        return done.status, found

    @rule(pick=TWO, which=PICK, kind=TYPES, frees=st.booleans(), drawn=HOWS)
    def shared_dup(self, pick: tuple[int, int], which: int, kind: int, frees: bool, drawn: Drawn) -> None:
        """Another process duplicates after a share; of another container, neither before nor after."""
        owner, other = self.pick(pick[0], "memory"), self.pick(pick[1], "device")
        if not owner or not other:
            return
        status, found = self.lend(owner, which, other, kind)
        apart = owner.process.container != other.process.container
        assert status == (NO_PERMISSION if apart and kind == TO_CLIENT else 0)
        made_of, how = owner.objects[found], self.how(other, drawn)
        parent = other.of("device")[which % len(other.of("device"))]
        done = self.driver.dup(other, parent, 0, (owner.handle, found), how)
        if apart:
            assert (done.verdict, done.status) == (ANSWER, NO_PERMISSION)
            return
        if how.fault == FINE and not how.between:
            assert done.status == 0
        if happened(done, how):
            made = self.driver.form("NVOS55_PARAMETERS").get(done.top, "hObject")
            other.objects[made] = Object(made_of.kind, made_of.gpu, parent)
        if frees and found in owner.objects and owner in self.usable():
            assert self.driver.free(owner, found, How()).status == 0
            owner.drop(found)

    @rule(pick=TWO, which=PICK, kind=TYPES)
    def taken_leave(self, pick: tuple[int, int], which: int, kind: int) -> None:
        """Leave for what another container has cannot be taken, though the driver asks not everybody."""
        owner, other = self.pick(pick[0], "memory"), self.pick(pick[1], "device")
        if not owner or not other or owner.process.container == other.process.container:
            return
        handles = owner.of("memory", "host")
        source = (owner.handle, handles[which % len(handles)])
        done = self.driver.share(other, source, (kind, other.handle), How())
        assert (done.verdict, done.status) == (ANSWER, NO_PERMISSION)
