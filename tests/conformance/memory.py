# SPDX-License-Identifier: Apache-2.0
"""Cases about slices: grants and refusals to programs in containers, and the tree's figures."""

from __future__ import annotations

from tests.conformance.steps import (
    CARD,
    MIB,
    PAGE,
    Case,
    case,
    containers,
    create,
    destroy,
    directory,
    fails,
    finish,
    go,
    kill,
    line,
    read,
    release,
    sliced,
    start,
    write,
)

LIMIT = 6043 * MIB
SIX = f"gpu=0:{LIMIT}"
HOME = directory(1)
NO_MEMORY = "status=0x51"
OK = "status=0x0"
GIB = 1 << 30
CONTEXT = 96 * MIB  # context_memory, where nothing else is configured
WHOLE = ("gpu=1", "info", "fill=64M:2m", "info")
NUMBERS = r"[a-z_]+=[0-9]+(?: [a-z_]+=[0-9]+)*"
TIMES = " ".join(
    rf"{name}_ns=[0-9]+ {name}_times=(?:[0-9]+,){{11}}[0-9]+"
    for name in ("executed", "continued", "answered")
)
ROOT = rf"{NUMBERS} registered=[0-9]+ {NUMBERS} calls_now=[0-9]+ (?:{NUMBERS} )?{TIMES}\n"
# Three are refused. With cgpud a call that is interrupted is made again by the kernel, and counts again: seen
# once, at a load of 50.
STAT = (
    rf"id=\S+ memsize={LIMIT} weight=1 highprio=0 (?:{NUMBERS} )?used={GIB} charged={GIB} peak={5 * GIB} "
    r"usage=[0-9]+ throttled=[0-9]+ "
    rf"refused_limit=[34] refused_card=0 refused_unaccounted=0 {NUMBERS}\n"
)
GOT, FULL = LIMIT // (64 * MIB) * 64 * MIB, CARD // (64 * MIB) * 64 * MIB


def counted() -> list[Case]:
    """Return the cases of a slice's history in the tree."""
    return [
        case(
            "stat",
            "The tree counts refused allocations by their reason, and keeps the highest use.",
            sliced("p", 1, SIX, "alloc=5G", "free=last", *["alloc=7G"] * 3, "alloc=1G", "hold"),
            line("p", "hold"),
            read(f"{HOME}/stat", {"match": STAT}),
            read(
                "0/stat",
                {"match": rf"uuid=\S+ drift=\S+ {NUMBERS} lost=0 refused_limit=[0-9]+ {NUMBERS}\n{STAT}"},
            ),
            read("stat", {"match": ROOT}),
            release("p"),
            finish("p"),
        ),
    ]


def answers() -> list[Case]:
    """Return the cases of a slice's figures from inside, and of its limit."""
    totals = [f" {name}={LIMIT} " for name in ("total", "free", "v1_total", "v2_total", "heap_total")]
    fill = (
        "fill=64M:2m",
        "fill=64K:64k",
        "count",
        "alloc=64K:64k",
        "free=last",
        "alloc=64K:64k",
        "alloc=64K:64k",
    )
    return [
        case(
            "info",
            "Every question for the card's memory is answered with the slice.",
            sliced("p", 1, SIX, "info"),
            finish("p", has=[*totals, f" region_total={LIMIT} ", " used=0 "]),
        ),
        case(
            "whole-gpu",
            "A GPU beside the slice that was named whole is as large as the card, and all of it can be had.",
            sliced("p", 1, f"{SIX} native=1", "info", "fill=64M:2m", *WHOLE),
            finish("p", has=[f" total={CARD} ", f" bytes={GOT} ", f" bytes={FULL} "]),
        ),
        case(
            "to-the-page",
            "The slice can be had to the last page, and no page more; what is freed can be had again.",
            sliced("p", 1, SIX, *fill),
            finish("p", has=[f"bytes={LIMIT} "], lines={"alloc": [NO_MEMORY, OK, NO_MEMORY]}),
        ),
        *forms(),
        case(
            "host-memory",
            "Memory of the host can be had by every form, and takes nothing of the slice.",
            sliced("p", 1, SIX, "host=8G", "pin=1M", "via=heap", "pin=1M", f"alloc={LIMIT}:64k", "free=all"),
            finish("p", lines={"host": [OK], "pin": [OK, OK], "alloc": [OK], "free": [OK]}),
        ),
        case(
            "32-bit",
            "A 32-bit process meets the same limit.",
            start("p", 1, "probe32", "alloc=6G", "alloc=1G", "count"),
            create(1, "p", SIX),
            go("p"),
            finish("p", has=[NO_MEMORY, f"bytes={GIB} "]),
        ),
        *counted(),
        case(
            "other-card",
            "A sliced container can allocate nothing on another card.",
            sliced("p", 1, SIX, "gpu=1", "alloc=64K"),
            finish("p", hasnt=[OK]),
        ),
    ]


def forms() -> list[Case]:
    """Return a case for each way to ask for memory."""
    return [
        case(
            f"{via}-{'-'.join(how) or 'plain'}",
            "Every form of asking for memory meets the same limit.",
            sliced("p", 1, SIX, f"via={via}", *how, "alloc=6G", "alloc=1G", "count"),
            finish("p", has=[f"alloc {6 * GIB} size={6 * GIB} offset=0 limit=0", f"bytes={GIB} "]),
        )
        for via in ("rm64", "rm21", "heap", "range", "tiled")
        for how in ((), ("xfer",), ("magic=0", "dir=0"), ("magic=0x54", "dir=1"))
    ]


def managed() -> list[Case]:
    """Memory that is asked for by a mapping."""
    words = (
        ("managed=4G", f"alloc={LIMIT - 4 * GIB}:64k"),
        ("alloc=64K:64k", "managed=2M"),
        ("unmanaged", "managed=4G", "managed=2M"),
        ("free=last", "unmanaged", f"alloc={LIMIT}:64k"),
    )
    refused = "memory)"  # errno=12 (Cannot allocate memory)
    answers = [OK, refused, OK, refused]
    return [
        case(
            "managed",
            "Managed memory and allocations share the limit, and what is unmapped can be had again.",
            sliced("p", 1, SIX, *(word for part in words for word in part)),
            finish("p", has=["errno=12 "], lines={"managed": answers, "alloc": [OK, NO_MEMORY, OK]}),
        )
    ]


def contexts() -> list[Case]:
    """Return the cases of memory that the driver takes by itself, by the estimate."""
    filled = (f"alloc={LIMIT - 2 * CONTEXT - PAGE}:64k", "alloc=1:64k", "alloc=1:64k")
    return [
        case(
            "contexts",
            "A slice gives all but the estimate for each context, to the last page, and no context more.",
            sliced("p", 1, SIX, "context=2", "info", *filled, "context", "free=first", "context", "context"),
            finish(
                "p",
                has=[f" used={2 * CONTEXT} "],
                lines={"alloc": [OK, OK, NO_MEMORY], "context": [OK, NO_MEMORY, OK, NO_MEMORY]},
            ),
        )
    ]


def sharing() -> list[Case]:
    """Return the cases of processes that share a slice, and that do not."""
    eight = [OK] * 5 + [NO_MEMORY] * 3
    return [
        case(
            "forks-and-threads",
            "Eight processes and eight threads that ask at once get what one would.",
            sliced("p", 1, SIX, "fork=8:1G:nest", "threads=8:1G"),
            finish("p", lines={"fork": eight, "thread": eight}),
        ),
        case(
            "own-descriptors",
            "A thread that has unshared its descriptor table is charged like every other.",
            sliced("p", 1, SIX, "unshare=1G", "unshare=6G"),
            finish("p", lines={"unshare": [OK, NO_MEMORY]}),
        ),
        case(
            "entered",
            "What enters a container later, as docker exec does, shares its slice and gives all back.",
            sliced("p", 1, SIX, "alloc=4G", "hold"),
            line("p", "alloc", {"has": [OK]}),
            [start("q", 1, "probe", "alloc=2G", "alloc=1G", "count", beside="p"), go("q")],
            finish("q", has=[f"alloc {2 * GIB} size={2 * GIB} offset=0 limit=0", f"bytes={GIB} "]),
            read(f"{HOME}/meminfo", {"has": [f"Free: {LIMIT - 4 * GIB}\n"]}, until=True),
            release("p"),
            finish("p"),
        ),
        case(
            "neighbours",
            "Two containers on one card each get their own, in whatever order they ask.",
            sliced("p", 1, f"gpu=0:{4 * GIB}", "alloc=1G", "hold", "alloc=3G", "alloc=64K"),
            sliced("q", 2, f"gpu=0:{8 * GIB}", "alloc=8G", "hold", "alloc=64K"),
            [line(name, "alloc", {"has": [OK]}) for name in ("p", "q")],
            [release("p"), release("q")],
            finish("p", lines={"alloc": [OK, NO_MEMORY]}),
            finish("q", lines={"alloc": [NO_MEMORY]}),
        ),
        case(
            "copies",
            "Memory is charged until its last handle goes.",
            sliced("p", 1, SIX, "alloc=4G", "dup", "free=first", "alloc=4G", "free=all", "alloc=4G"),
            finish("p", lines={"alloc": [OK, NO_MEMORY, OK]}),
        ),
        case(
            "surfaces",
            "Memory of the card cannot be kept by a semaphore surface; one of host memory can be had.",
            sliced("p", 1, SIX, "alloc=4G", "surface", "free", "alloc=4G", "host=1M", "surface", "free=all"),
            finish("p", lines={"surface": ["status=0x56", OK], "alloc": [OK, OK], "free": [OK, OK]}),
        ),
    ]


def ledger() -> list[Case]:
    """Return the cases of used memory in the tree, and of its return."""
    whole = ("fill=64M", "fill=64K:64k", "count")
    return [
        case(
            "meminfo",
            "The tree shows what each process has, and a slice does not shrink below what is in use.",
            sliced("p", 1, SIX, "alloc=1G", "hold", "free=all", "hold=1000"),
            line("p", "alloc", {"has": [OK]}),
            read(f"{HOME}/meminfo", f"Free: {LIMIT - GIB}\nPID: {{pid:p}} Mem: {GIB}\n"),
            write(f"{HOME}/memsize", str(GIB - PAGE), fails("EBUSY")),
            write(f"{HOME}/memsize", str(GIB)),
            read(f"{HOME}/meminfo", {"has": ["Free: 0\n"]}),
            release("p"),
            read(f"{HOME}/meminfo", {"has": [f"Free: {GIB}\n"]}, until=True),
            kill("p"),
        ),
        *(
            case(
                f"comes-back-{how[-1]}",
                "A process that ends in any way gives all memory back, and its container with it.",
                sliced("p", 1, SIX, "alloc=1G", "alloc=1G", *how),
                [line("p", "alloc", {"has": [OK]}) for _ in (1, 2)],
                [kill("p")] if how == ("hold",) else [finish("p")],
                containers(0, [], until=True),
                sliced("q", 2, f"gpu=0:{CARD}", *whole),
                finish("q", has=[f"bytes={CARD} "]),
            )
            for how in (("exit-dirty",), ("hold",))
        ),
        case(
            "removed-under-way",
            "A container that is removed while it runs gets nothing more; what it holds stays taken.",
            sliced("p", 1, SIX, "alloc=1G", "hold", "alloc=64K"),
            line("p", "alloc", {"has": [OK]}),
            destroy(1),
            containers(0, []),
            [start("q"), create(2, "q", f"gpu=0:{CARD}", fails("ENOMEM"))],
            release("p"),
            finish("p", hasnt=[OK]),
            create(2, "q", f"gpu=0:{CARD}", None, until=True),
        ),
        case(
            "signals",
            "Calls that a signal interrupts again and again happen exactly once.",
            sliced("p", 1, SIX, "churn=600:64K:60", "count"),
            finish("p", has=["granted=600 refused=0 ", f"used={600 * PAGE} "]),
        ),
    ]


def exports() -> list[Case]:
    """Return the cases of memory that goes to a descriptor."""
    take = ("take={pid:p}:100", "import", "import=1")
    return [
        case(
            "exports",
            "Memory that is exported stays charged until its descriptor is closed and its imports are freed.",
            sliced("p", 1, SIX, "alloc=4G", "export", "free", "import", "close-export", "alloc=4G"),
            finish("p", lines={"alloc": [OK, NO_MEMORY]}),
        ),
        case(
            "exports-of-others",
            "A container imports nothing that another one has exported.",
            sliced("p", 1, f"gpu=0:{4 * GIB}", "alloc=4G", "export=1", "hold"),
            line("p", "hold"),
            sliced("q", 2, f"gpu=0:{4 * GIB}", *take, "alloc=4G", "alloc=64K"),
            finish("q", lines={"import": ["status=0x1b"] * 2}),
            release("p"),
            finish("p"),
        ),
        case(
            "exports-inside",
            "Another process of a container imports at no charge, and holds what the first no longer has.",
            sliced("p", 1, SIX, "hold"),
            line("p", "hold"),
            [start("q", 1, "probe", "alloc=4G", "export", "hold", beside="p"), go("q"), line("q", "hold")],
            [
                start("r", 1, "probe", "take={pid:q}:100", "import", "close-export", "hold", beside="p"),
                go("r"),
            ],
            line("r", "hold"),
            [kill("q"), start("s", 1, "probe", "alloc=4G", beside="p"), go("s")],
            finish("s", lines={"alloc": [NO_MEMORY]}),
            kill("r"),
            read(f"{HOME}/meminfo", {"has": [f"Free: {LIMIT}\n"]}, until=True),
            release("p"),
            finish("p"),
        ),
    ]


def cases() -> list[Case]:
    return [*answers(), *managed(), *contexts(), *sharing(), *ledger(), *exports()]
