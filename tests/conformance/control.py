# SPDX-License-Identifier: Apache-2.0
"""Cases about inst_ctl: its form, its errors in their order, and many who write at once."""

from __future__ import annotations

from tests.conformance.steps import (
    CARD,
    EINVAL,
    MIB,
    NOTHING,
    Case,
    Step,
    case,
    container,
    containers,
    create,
    destroy,
    directory,
    fails,
    kill,
    names,
    opens,
    part,
    put,
    race,
    read,
    start,
    write,
)

SMALL = f"gpu=0:{MIB}"
NO_PROCESS = 4194305  # larger than any pid that Linux gives
MALFORMED = (
    *("\n", " ", "create", "create ", "create id=a", "create id=a pid={pid:p}", "create id=a gpu=0:1"),
    *("create pid={pid:p} gpu=0:1", "create id=a pid=0 gpu=0:1", "create id=a pid=-1 gpu=0:1"),
    *(
        f"create id=a pid={{pid:p}} gpu=0{rest}"
        for rest in ("", ":", ":1:", ":1:1:", ":1:1:1:1", ":0", ":+1")
    ),
    *(
        f"create id=a pid={{pid:p}} gpu=0{rest}"
        for rest in (":1:26", ":1:1:2", ":0x10", ":1 gpu=0:1", ":1 x=1")
    ),
    *(
        f"create id={name} pid={{pid:p}} gpu=0:1"
        for name in ("", ".", "..", "-a", "a/b", "policy", "1" * 128)
    ),
    *("create id=a id=a pid={pid:p} gpu=0:1", "create id=a pid={pid:p} pid={pid:p} gpu=0:1"),
    *(
        " create id=a pid={pid:p} gpu=0:1",
        "create  id=a pid={pid:p} gpu=0:1",
        "create id=a pid={pid:p} gpu=0:1 ",
    ),
    "create id=a pid={pid:p} gpu=0:1\n\n",
    *("destroy", "destroy id=", "destroy id=a id=a", "destroy id=a pid={pid:p}", "destroy id=a gpu=0:1"),
    *(
        "destroy id=a native=0",
        "create id=a pid={pid:p} native=0",
        "create id=a pid={pid:p} native=0 gpu=0:1 gpu=1:1",
    ),
    *(
        f"create id=a pid={{pid:p}} gpu=0:1 native={rest}"
        for rest in ("", "x", "-1", "1:1", "0", "1 native=1")
    ),
    *(
        "remove id=a",
        "0abcdefabcdef",
        "-abcdefabcdef",
        "x" * 4096,
        "x" * 4097,
    ),
)
PAIR = [start("p"), start("q")]
BEYOND = (1, 4096, 1 << 20, (1 << 63) - (2 << 20))


# Forms of a line, and the effect of each.
FORMS = [
    case(
        "unreadable",
        "inst_ctl can be opened for reading, and reading it is EBADF; there is nothing behind that.",
        opens("file", "inst_ctl"),
        part("file", 0, 1, fails("EBADF")),
        [part("file", offset, 1 << 20, NOTHING) for offset in BEYOND],
        read("inst_ctl", fails("EBADF")),
    ),
    case(
        "reason",
        "Who opened inst_ctl for both reads there why his last line was refused, and nothing after another.",
        start("p"),
        opens("file", "inst_ctl", "O_RDWR"),
        put("file", f"create id=a pid={{pid:p}} {SMALL} gpu=9:1", fails("ENOENT")),
        [part("file", 0, 27, "no GPU 9 here; available: 0"), part("file", 3, 5, "GPU 9")],
        part("file", 31, 512, ""),
        put("file", f"create id=a pid={NO_PROCESS} {SMALL}", fails("ESRCH")),
        part(
            "file",
            *(0, 512, f"there is no process {NO_PROCESS}: it ended before it could be registered\n"),
        ),
        put("file", f"create id=a pid={{pid:p}} {SMALL}"),
        part("file", 0, 512, fails("EBADF")),
        destroy("a"),
        read("inst_ctl", fails("EBADF")),
    ),
    case(
        "grammar",
        "A line that does not fit the grammar is EINVAL and registers nothing.",
        start("p"),
        [write("inst_ctl", text, EINVAL) for text in MALFORMED],
        containers(0, []),
    ),
    case(
        "whole",
        "A GPU that is named whole is sliced for nobody, counts as no slice, and stands beside one.",
        PAIR,
        write("inst_ctl", f"create id={container(7)} native=1 pid={{pid:p}} {SMALL}"),
        [read(f"{gpu}/natives", f"{gpu}\n") for gpu in (0, 1)],
        [containers(0, [container(7)[:12]]), containers(1, [])],
        create(8, "q", f"gpu=1:{MIB}", fails("ENOMEM")),
        create(8, "q", f"gpu=1:{MIB} native=0", fails("ENOMEM")),
        [create(8, "q", f"{SMALL} native={gpu}", fails("ENOENT")) for gpu in (2, 32, 99999999999)],
        create(8, "q", f"{SMALL} native=1"),
        read("1/natives", "2\n"),
        [destroy(identity) for identity in (7, 8)],
        read("1/natives", "0\n"),
        create(8, "q", f"gpu=1:{MIB}"),
        create(7, "p", f"{SMALL} native=1", fails("ENOMEM")),
    ),
    case(
        "any-order",
        "Keys come in any order, with one newline at the end or none; removing twice is no error.",
        start("p"),
        write("inst_ctl", f"create gpu=1:{MIB} id={container(7)} gpu=0:{2 * MIB} pid={{pid:p}}\n"),
        read(f"{directory(7)}/memsize", f"{2 * MIB}\n"),
        read(f"{directory(7, 1)}/memsize", f"{MIB}\n"),
        [destroy(identity) for identity in (7, 7, 8, "policy")],
        [containers(gpu, []) for gpu in (0, 1)],
        write("inst_ctl", f"create id={container(7)} {SMALL} pid={{pid:p}}"),
        write("inst_ctl", f"destroy id={container(7)}\n"),
        containers(0, []),
    ),
    case(
        "reclaimed",
        "A container whose first process is gone is removed by itself, and its place can be had again.",
        PAIR,
        create(7, "p", f"gpu=0:{CARD} gpu=1:{CARD}"),
        create(8, "q", SMALL, fails("ENOMEM")),
        kill("p"),
        [containers(gpu, [], until=True) for gpu in (0, 1)],
        create(8, "q", f"gpu=0:{CARD}", None, until=True),
    ),
]


def errors() -> list[Case]:
    """Which error comes first."""

    def refused(error: str, gpus: str, identity: int | str = 9, pid: str = "{pid:q}") -> Step:
        name = identity if isinstance(identity, str) else container(identity)
        return write("inst_ctl", f"create id={name} pid={pid} {gpus}", fails(error))

    return [
        case(
            "order",
            "Of two reasons to refuse a line the documented one is given, whichever GPU it concerns.",
            PAIR,
            create(7, "p", f"gpu=0:{MIB}:19"),
            write("1/max_inst", "1"),
            [start("r"), create(10, "r", f"gpu=1:{MIB}")],
            refused("EINVAL", "gpu=9:1:26"),
            refused("EINVAL", "gpu=0:0 gpu=9:1"),
            refused("ENOENT", "gpu=0:1:21 gpu=9:1"),
            refused("EINVAL", "gpu=0:1:21", 7),
            refused("EINVAL", "gpu=0:1:0", 7),
            refused("EEXIST", f"gpu=1:{2 * CARD}", 7),
            refused("EEXIST", f"gpu=1:{MIB}", 10),
            refused("ENOSPC", f"gpu=0:{2 * CARD} gpu=1:{MIB}"),
            refused("ENOMEM", f"gpu=0:{CARD}:2"),
            refused("EDQUOT", f"gpu=0:{MIB}:2", pid=str(NO_PROCESS)),
            refused("ESRCH", f"gpu=0:{MIB}:1", pid=str(NO_PROCESS)),
            containers(0, [container(7)[:12]]),
            destroy(10),
        ),
        case(
            "all-or-none",
            "A line that fails on its last GPU leaves nothing on the first.",
            PAIR,
            create(7, "p", f"gpu=1:{CARD}"),
            create(8, "q", f"gpu=0:{MIB} gpu=1:{MIB}", fails("ENOMEM")),
            containers(0, []),
            read("0/free_weight", "20\n"),
        ),
        case(
            "full",
            "As many containers as max_inst are taken, and none more until one goes.",
            [*PAIR, start("r")],
            write("1/max_inst", "2"),
            [create(number, name, f"gpu=1:{MIB}") for number, name in ((7, "p"), (8, "q"))],
            [create(9, "r", f"gpu=1:{MIB}", fails("ENOSPC")), read("1/free_weight", "0\n")],
            [destroy(7), create(9, "r", f"gpu=1:{MIB}")],
            [destroy(number) for number in (8, 9)],
            [containers(1, []), read("1/free_weight", "2\n")],
        ),
    ]


WORKERS = ("a", "b", "c", "d")
WAITING = [start(name) for name in WORKERS]
WHOLE = [start("z"), create(99, "z", f"gpu=0:{CARD}:20 gpu=1:{CARD}:20"), destroy(99)]


def coming_and_going(gpus: str, *, same: bool = False) -> list[list[Step]]:
    """Make one list of steps for each worker: it registers a container and removes it."""
    return [
        [create(7 if same else 10 + at, name, gpus), destroy(7 if same else 10 + at)]
        for at, name in enumerate(WORKERS)
    ]


def races(times: int) -> list[Case]:
    """Many who write to inst_ctl at once."""
    return [
        case(
            "race-one-id",
            "Of many who register one id at once each gets it or EEXIST, and nothing stays.",
            WAITING,
            race(times, coming_and_going(SMALL, same=True), "ok", "EEXIST"),
            containers(0, []),
            WHOLE,
        ),
        case(
            "race-memory",
            "However many ask at once, a card never promises more than it has, and all of it comes back.",
            WAITING,
            race(
                times, coming_and_going(f"gpu=0:{CARD // 2} gpu=1:{CARD // 2}:10"), "ok", "ENOMEM", "EDQUOT"
            ),
            WHOLE,
        ),
    ]


def races_of_readers(times: int, gone: tuple[str, ...]) -> list[Case]:
    """Writers beside readers, and beside changes of settings."""
    return [
        case(
            "race-readers",
            "Who reads while containers come and go sees a whole value, or that it is gone.",
            WAITING,
            race(
                times,
                [
                    *coming_and_going(f"{SMALL} gpu=1:{MIB}")[:2],
                    [read(f"{directory(10)}/{node}") for node in ("memsize", "meminfo", "owner")],
                    [names("0", None), names(directory(11), None), read("0/free_weight")],
                ],
                *("ok", "ENOENT", *gone),
            ),
            WHOLE,
        ),
        case(
            "race-settings",
            "Settings that change meanwhile give one of the documented errors, never another.",
            WAITING,
            race(
                times,
                [
                    *coming_and_going(f"gpu=0:{MIB}:2")[:3],
                    [write("0/max_inst", text) for text in ("1", "25")],
                    [write("0/policy", text) for text in ("0", "1", "2")],
                ],
                *("ok", "EBUSY", "EINVAL", "ENOSPC", "EDQUOT"),
            ),
            write("0/max_inst", "20"),
            WHOLE,
        ),
    ]


def cases(times: int, gone: tuple[str, ...]) -> list[Case]:
    """Return the cases; times: how often a race is repeated. gone: see nodes.cases."""
    return [*FORMS, *errors(), *races(times), *races_of_readers(times, gone)]
