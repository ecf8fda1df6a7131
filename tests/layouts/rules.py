# SPDX-License-Identifier: Apache-2.0
"""The steps of a history: every path by which memory comes, is shared, and goes."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.layouts.calls import Client, Done, How, Object, bits
from tests.layouts.machine import (
    FAULTS,
    GPUS,
    HANDLES,
    HOWS,
    HUGE,
    NO_MEMORY,
    PAGE,
    PICK,
    SIZES,
    SLICES,
    Base,
    Drawn,
)
from tests.layouts.stage import ANSWER, CARD, CTL, FINE, OUTSIDE, PIECE, REFUSE, UNHEARD
from tests.sim.abi import REGISTER_FD, facts

PAGES = st.sampled_from(["DEFAULT", "DEFAULT", "4KB", "BIG", "HUGE"])
INFO, HEAP_FREE = 5, 3  # NVOS32_FUNCTION_*
TILED = "AllocTiledPitchHeight"
HEAP_ALLOCS = {2: "AllocSize", 6: TILED, 14: "AllocSizeRange"}
HEAP_KINDS = st.tuples(st.sampled_from(sorted(HEAP_ALLOCS)), PAGES)
OFTEN = st.sampled_from([True, True, True, True, True, False])
PLACES = st.integers(0, 3)
LISTED = st.lists(HANDLES, min_size=1, max_size=3)
LISTS = st.lists(PICK, min_size=1, max_size=3)
TWO = st.tuples(PICK, PICK)


def attributes(page: str) -> int:
    return bits(
        "NVOS32_ATTR_PAGE_SIZE", int(facts()["constants"][f"NVOS32_ATTR_PAGE_SIZE_{page}"]["value"], 0)
    )


def rounded(size: int, page: str) -> int:
    """Return what the driver takes for a request: whole pages, of at least 64 KiB."""
    big = page == "HUGE" or (page == "DEFAULT" and size >= HUGE)
    unit = HUGE if big else PAGE
    return -(-size // unit) * unit


def happened(done: Done, how: How) -> bool:
    """Say whether the driver did it and it stays."""
    undone = how.fault == UNHEARD and done.result != 0
    return done.verdict not in (ANSWER, REFUSE) and not undone and done.result in (0, 14) and done.status == 0


class Machine(Base):
    """Random steps."""

    def taken(self, client: Client, parent: int, asked: int, done: Done, how: How, need: int) -> None:
        """An undisturbed request for memory has the result that the limit says."""
        if how.fault != FINE or how.between or parent not in client.objects:
            return
        if asked not in {*client.objects, client.handle} and need:
            assert done.status == (0 if self.fitted else NO_MEMORY), need

    def fits(self, client: Client, parent: int, need: int) -> bool:
        """Say whether a limit, and the card, have room."""
        gpu = client.objects[parent].gpu if parent in client.objects else 0
        return need <= self.room(client.process.container, gpu) and need <= self.card_free(gpu)

    def parent(self, client: Client, at: int) -> int:
        """Return a device or subdevice, once in a while something else."""
        parents = [*client.of("device", "subdevice"), *client.of("device"), client.handle]
        return parents[at % len(parents)]

    @rule(pick=PICK, gpu=st.integers(0, GPUS), handle=HANDLES, drawn=HOWS)
    def device(self, pick: int, gpu: int, handle: int, drawn: Drawn) -> None:
        client = self.pick(pick)
        if not client:
            return
        how = self.how(client, drawn)
        done, made = self.driver.device(client, handle, gpu, how)
        if happened(done, how):
            client.objects[made] = Object("device", gpu, client.handle)

    @rule(pick=PICK, at=PICK, handle=HANDLES, drawn=HOWS)
    def subdevice(self, pick: int, at: int, handle: int, drawn: Drawn) -> None:
        client = self.pick(pick)
        devices = client.of("device") if client else []
        if not client or not devices:
            return
        parent, how = devices[at % len(devices)], self.how(client, drawn)
        gpu = client.objects[parent].gpu
        done, made = self.driver.subdevice(client, parent, handle, how)
        if happened(done, how):
            client.objects[made] = Object("subdevice", gpu, parent)

    @rule(pick=PICK, at=PICK, handle=HANDLES, size=SIZES, page=PAGES, drawn=HOWS)
    def allocate(self, pick: int, at: int, handle: int, size: int, page: str, drawn: Drawn) -> None:
        """RM_ALLOC of memory."""
        client = self.pick(pick)
        if not client:
            return
        parent, how, need = self.parent(client, at), self.how(client, drawn), rounded(size, page)
        self.fitted = self.fits(client, parent, need)
        fields = {"size": size, "attr": attributes(page)}
        done, made = self.driver.memory(client, parent, handle, fields, how)
        self.taken(client, parent, handle, done, how, need)
        if happened(done, how):
            client.objects[made] = Object("memory", client.objects[parent].gpu, parent)

    @rule(kind=HEAP_KINDS, pick=PICK, at=PICK, handle=HANDLES, size=SIZES, drawn=HOWS)
    def heap_allocate(
        self, kind: tuple[int, str], pick: int, at: int, handle: int, size: int, drawn: Drawn
    ) -> None:
        """The older way to memory, in its three forms."""
        client = self.pick(pick)
        if not client:
            return
        function, page = kind
        form, sized = HEAP_ALLOCS[function], {"size": size}
        if form == TILED:
            size = size % (1 << 32) or 1
            sized = {"height": size, "pitch": 1}
        parent, how, need = self.parent(client, at), self.how(client, drawn), rounded(size, page)
        self.fitted = self.fits(client, parent, need)
        named = int(facts()["constants"]["NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED"]["value"], 0)
        asked = {
            "owner": 1,
            "attr": attributes(page),
            "flags": named if handle else 0,
            "hMemory": handle,
            **sized,
        }
        fields = {f"data__{form}__{name}": value for name, value in asked.items()}
        done = self.driver.heap(client, function, {"hObjectParent": parent, **fields}, how)
        self.taken(client, parent, handle, done, how, need)
        if happened(done, how):
            made = self.driver.form("NVOS32_PARAMETERS").get(done.top, f"data.{form}.hMemory")
            client.objects[made] = Object("memory", client.objects[parent].gpu, parent)

    @rule(pick=PICK, at=PICK)
    def info(self, pick: int, at: int) -> None:
        """A container reads its limit on a card, and the rest of that."""
        client = self.pick(pick)
        if not client or not client.of("device"):
            return
        device = client.of("device")[at % len(client.of("device"))]
        container, gpu = client.process.container, client.objects[device].gpu
        room = self.room(container, gpu)
        limit = room + self.charged(container, gpu)
        done = self.driver.heap(client, INFO, {"hObjectParent": device}, How())
        form = self.driver.form("NVOS32_PARAMETERS")
        assert (done.status, form.get(done.top, "total"), form.get(done.top, "free")) == (0, limit, room)
        for handle in client.of("subdevice")[:1]:
            container_gpu = client.objects[handle].gpu
            left = self.room(container, container_gpu)
            whole = left + self.charged(container, container_gpu)
            answer = self.driver.fb_info(client, handle)
            assert answer == (0, whole >> 10 << 10, left >> 10 << 10)

    @rule(pick=TWO, which=PICK, at=PICK, handle=HANDLES, drawn=HOWS)
    def dup(self, pick: tuple[int, int], which: int, at: int, handle: int, drawn: Drawn) -> None:
        """A duplicate in the same client, in another one, or in another container, which is refused."""
        client, source = self.pick(pick[0]), self.pick(pick[1], "memory" if which % 8 else "device")
        if not client or not source:
            return
        if at % 4:
            client = next(c for c in self.clients if c.process is source.process)
        handles = source.of("memory", "host") if which % 8 else source.of("device")
        found = handles[which % len(handles)]
        parent, how = self.parent(client, at), self.how(client, drawn)
        done = self.driver.dup(client, parent, handle, (source.handle, found), how)
        if happened(done, how):
            assert client.process.container == source.process.container
            made = self.driver.form("NVOS55_PARAMETERS").get(done.top, "hObject")
            client.objects[made] = Object(source.objects[found].kind, source.objects[found].gpu, parent)

    @rule(pick=PICK, which=PICK, often=OFTEN, drawn=HOWS)
    def free(self, pick: int, which: int, often: bool, drawn: Drawn) -> None:
        """RM_FREE of memory, or of something above it, or of the client."""
        client = self.pick(pick, "memory" if often else "device")
        if not client:
            return
        above = [*client.of("device", "subdevice"), client.handle, 0x77]
        handles = client.of("memory", "host") if often else above
        handle, how = handles[which % len(handles)], self.how(client, drawn)
        done = self.driver.free(client, handle, how)
        # A freed object stays freed, also when the caller is not told.
        if how.fault in (FINE, UNHEARD) and done.verdict not in (ANSWER, REFUSE) and done.status == 0:
            client.drop(handle)
            if handle == client.handle:
                self.forget(client)

    @rule(pick=PICK, which=PICK, drawn=HOWS)
    def heap_free(self, pick: int, which: int, drawn: Drawn) -> None:
        client = self.pick(pick, "memory")
        if not client:
            return
        handle, how = client.of("memory")[which % len(client.of("memory"))], self.how(client, drawn)
        named = int(facts()["constants"]["NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED"]["value"], 0)
        fields = {"data__Free__owner": 1, "data__Free__hMemory": handle, "data__Free__flags": named}
        done = self.driver.heap(client, HEAP_FREE, fields, how)
        if how.fault in (FINE, UNHEARD) and done.status == 0:
            client.drop(handle)

    def file_of(self, client: Client, at: int) -> int:
        """Return an open file: mostly of the same container, once in a while of another."""
        own = [f for p in self.live if p.container == client.process.container for f in p.files]
        files = own * 4 + [f for p in self.processes for f in p.files]
        return files[at % len(files)]

    @precondition(lambda self: self.in_kernel)
    @rule(pick=PICK, which=LISTS, file=PICK, index=PLACES, most=st.sampled_from([0, 0, 4, 4]), drawn=HOWS)
    def export(self, pick: int, which: list[int], file: int, index: int, most: int, drawn: Drawn) -> None:
        """One object, or some of a list, into a file."""
        client = self.pick(pick, "memory")
        if not client:
            return
        memory, how = client.of("memory", "host"), self.how(client, drawn)
        memory += [0] if most and file % 8 == 0 else []
        handles = [memory[at % len(memory)] for at in which]
        index = index if most and index + len(handles) <= most else 0
        place = (self.file_of(client, file), index, most)
        done = self.driver.export(client, handles, place, how)
        if happened(done, how):
            places = self.exported.setdefault(place[0], set())
            places |= {index + n for n, handle in enumerate(handles) if handle}

    @precondition(lambda self: self.exported)
    @rule(pick=PICK, at=PICK, handles=LISTED, file=PICK, index=PLACES, drawn=HOWS)
    def import_(self, pick: int, at: int, handles: list[int], file: int, index: int, drawn: Drawn) -> None:
        """One object, or some of a list, out of a file."""
        client = self.pick(pick, "device")
        if not client:
            return
        known = [f for p in self.live if p.container == client.process.container for f in p.files]
        known = [f for f in known if self.exported.get(f)]
        chosen = known[file % len(known)] if known and file % 8 else self.file_of(client, file)
        place = index - 1 if index else None
        if index and self.exported.get(chosen) and file % 4:
            places = sorted(self.exported[chosen])
            place = places[0]
            handles = handles[: len(places)]
        parent, how = self.parent(client, at), self.how(client, drawn)
        done, made = self.driver.import_(client, (parent, handles), chosen, place, how)
        # An imported object stays, also when the caller is not told.
        if how.fault in (FINE, UNHEARD) and happened(done, How()) and not self.gone(client):
            client.objects |= {handle: Object("memory", 0, parent) for handle in made}

    def gone(self, client: Client) -> bool:
        """Say whether the client's container was removed while the call ran."""
        return client.process.container in self.dead

    @rule(pick=PICK, link=st.booleans(), gpu=st.integers(0, GPUS - 1))
    def open(self, pick: int, link: bool, gpu: int) -> None:
        """Another client on a file of its own; or a card's file that is linked to the control file."""
        client = self.pick(pick)
        if not client or len(client.process.files) > 5:
            return
        process = client.process
        file = self.library.c.stage_open(self.stage, process.container, CARD if link else CTL, gpu)
        if not file:
            return
        process.files.append(file)
        if link:
            top = self.driver.form("nv_ioctl_register_fd_t").pack(ctl_fd=client.file)
            self.driver.raw((process, file), REGISTER_FD, top)
            return
        made = self.driver.client(process, file, How())
        if made:
            self.clients.append(made)

    @rule(pick=PICK, at=PICK, often=OFTEN)
    def close_one(self, pick: int, at: int, often: bool) -> None:
        client = self.pick(pick)
        if client and not often:
            process = client.process
            self.close(process, process.files[at % len(process.files)])

    @rule(pick=PICK, often=OFTEN)
    def kill(self, pick: int, often: bool) -> None:
        live = self.live
        if live and not often:
            process = live[pick % len(live)]
            self.end(process)
            if process.container not in self.containers():
                self.dead.add(process.container)
                self.library.c.stage_destroy(self.stage, process.container)

    @rule(sizes=st.dictionaries(st.integers(0, GPUS - 1), SLICES, min_size=1))
    def another(self, sizes: dict[int, int]) -> None:
        self.create(sizes)

    @rule(pick=PICK, often=OFTEN)
    def destroy(self, pick: int, often: bool) -> None:
        """A container is removed. Memory of its processes is orphaned, and they get no more."""
        containers = self.containers()
        if not containers or often:
            return
        gone = containers[pick % len(containers)]
        clients = [client for client in self.usable() if client.process.container == gone]
        self.dead.add(gone)
        self.library.c.stage_destroy(self.stage, gone)
        for client in clients[:1]:
            parent = self.parent(client, 0)
            done, _ = self.driver.memory(client, parent, 0, {"size": PAGE}, How())
            assert done.verdict == REFUSE

    @rule(often=OFTEN)
    def recover(self, often: bool) -> None:
        """Taking the records up again changes nothing."""
        assert often or self.library.c.stage_recover(self.stage) == 0

    @precondition(lambda self: self.in_kernel)
    @rule(pick=TWO, which=PICK, fail=st.booleans(), drawn=HOWS)
    def hold(self, pick: tuple[int, int], which: int, fail: bool, drawn: Drawn) -> None:
        """UVM maps memory, by a client of this container or of another."""
        client, source = self.pick(pick[0]), self.pick(pick[1], "memory" if which % 8 else "device")
        if not client or not source:
            return
        handles = source.of("memory", "host") if which % 8 else source.of("device")
        handle, process = handles[which % len(handles)], client.process
        between = self.how(client, drawn).between
        number = self.driver.hold(
            process, (source.handle, handle), fail=fail and which % 3 == 0, between=between
        )
        if number >= 0:
            self.held[number] = process

    @precondition(lambda self: self.held)
    @rule(which=PICK)
    def unhold(self, which: int) -> None:
        self.let_go(sorted(self.held)[which % len(self.held)])

    @precondition(lambda self: self.in_kernel)
    @rule(pick=PICK, pieces=st.integers(1, 8))
    def managed(self, pick: int, pieces: int) -> None:
        """Managed memory that is touched on every card."""
        client = self.pick(pick)
        if not client:
            return
        process, need = client.process, pieces * PIECE
        if min(self.card_free(gpu) for gpu in range(GPUS)) < need:
            return
        number = self.library.c.stage_managed(self.stage, process.container, process.number, pieces)
        if number >= 0:
            self.held[number] = process

    @precondition(lambda self: self.held)
    @rule(which=PICK)
    def shrink(self, which: int) -> None:
        self.library.c.stage_shrink(self.stage, sorted(self.held)[which % len(self.held)])

    @rule(size=SIZES, handle=HANDLES)
    def outside(self, size: int, handle: int) -> None:
        """A process outside takes memory, which is then not there for containers; or gives it back."""
        clients = [client for client in self.clients if client.process.container == OUTSIDE]
        for client in clients[:1]:
            if size % 2:
                self.driver.memory(
                    client, client.of("device")[handle % GPUS], 0x100 + handle, {"size": size}, How()
                )
            else:
                self.driver.free(client, 0x100 + handle, How())

    @rule(pick=TWO, size=SIZES, fault=FAULTS)
    def stranger(self, pick: tuple[int, int], size: int, fault: int) -> None:
        """A process uses the client of another container, whose file it was handed."""
        client, other = self.pick(pick[0]), self.pick(pick[1])
        if client and other and other.process.container != client.process.container:
            handed = Client(other.process, client.file, client.handle, client.objects)
            done, _ = self.driver.memory(handed, self.parent(client, 0), 0, {"size": size}, How(fault=fault))
            assert done.verdict == ANSWER or not client.objects
