# SPDX-License-Identifier: Apache-2.0
"""Cases about reservations: a share's memory, with and without a container that uses it."""

from __future__ import annotations

from tests.conformance.steps import (
    CARD,
    EINVAL,
    MIB,
    Case,
    Json,
    Step,
    attributes,
    case,
    containers,
    create,
    destroy,
    directory,
    fails,
    finish,
    go,
    kill,
    race,
    read,
    start,
    write,
)

ONE = "6f1c0a52-93d1-4c1e-8f6a-000000000001"
TWO = "6f1c0a52-93d1-4c1e-8f6a-000000000002"
MALFORMED = (
    *(
        "reserve",
        f"reserve id={ONE}",
        "reserve gpu=0:1",
        f"reserve id={ONE} gpu=0",
        f"reserve id={ONE} gpu=0:0",
        f"Reserve id={ONE} gpu=0:1",
        f"reserve  id={ONE} gpu=0:1",
        f" reserve id={ONE} gpu=0:1",
    ),
    *(f"reserve id={name} gpu=0:1" for name in ("-a", "a/b", "..")),
    *(f"reserve id={ONE} gpu=0:1{rest}" for rest in (" ", ":26", ":1:2", ":1:1:1", "\n\n")),
    *(f"reserve id={ONE} gpu=0:1{rest}" for rest in (" native=1", " share=b", " x=1")),
    *(f"reserve id={ONE} gpu=0:1 {rest}" for rest in ("gpu=1:1", "gpu=0:1", "pid={pid:p}", f"id={ONE}")),
    *("release", "release id="),
    *(f"release id={ONE} {rest}" for rest in ("gpu=0:1", "pid={pid:p}", f"id={ONE}", "native=0", "share=a")),
    *(f"create id=a pid={{pid:p}} share={share}" for share in ("", "-a", "a/b", "1" * 128, "a share=a")),
    *(f"create id=a pid={{pid:p}} share=a {rest}" for rest in ("gpu=0:1", "native=1", "share=a")),
    *("create id=a share=a", "create pid={pid:p} share=a", "share=a", "destroy id=a share=a"),
    *("create id=reserved pid={pid:p} gpu=0:1", "create id=policy pid={pid:p} share=a"),
)
# A line may name as many, and no more.
MOST_SHARES = "create id=a pid={pid:p}" + "".join(f" share=s{number}" for number in range(64))


def reserve(share: str, gpu: str, expect: Json = None) -> Step:
    """Reserve a part of a card."""
    return write("inst_ctl", f"reserve id={share} gpu={gpu}", expect)


def release(share: str, expect: Json = None) -> Step:
    """End a reservation."""
    return write("inst_ctl", f"release id={share}", expect)


def line(share: str, gpu: str, user: str = "-") -> str:
    """Return what the card's entry says of a reservation."""
    _, size, weight, high = f"{gpu}:1:0".split(":")[:4] if gpu.count(":") == 1 else gpu.split(":")
    return f"{share} {size} {weight} {high} {user}\n"


def by_shares(identity: int, process: str, *shares: str, expect: Json = None) -> Step:
    """Register a container by its shares."""
    return create(identity, process, " ".join(f"share={share}" for share in shares), expect)


HALF = f"0:{CARD // 2}"
FULL = f"1:{CARD}:20:1"
LONG = directory(7)[2:] + "5" * 52

CASES = [
    case(
        "reserved-grammar",
        "A line about shares that does not fit the grammar is EINVAL and reserves nothing.",
        start("p"),
        [write("inst_ctl", text, EINVAL) for text in (*MALFORMED, MOST_SHARES + " share=s64")],
        write("inst_ctl", MOST_SHARES, fails("ENOENT")),
        [read(f"{gpu}/reserved", "") for gpu in (0, 1)],
        attributes("0/reserved", kind="file", mode="0444", uid=0, gid=0, size=0),
        write("0/reserved", "1", fails("EACCES")),
    ),
    case(
        "reserved-held",
        "A reservation holds memory, weight and a place with no container; again is no error, twice neither.",
        [start("p"), start("q")],
        [reserve(ONE, FULL) for _ in range(2)],
        read("1/reserved", line(ONE, FULL)),
        [
            reserve(ONE, other, fails("EEXIST"))
            for other in (f"1:{CARD}:20", f"1:{CARD}:1:1", FULL.removesuffix(":20:1"), HALF)
        ],
        read("1/free_weight", "0\n"),
        [write("1/max_inst", "19", fails("EBUSY")), read("1/policy", "1\n")],
        create(7, "p", "gpu=1:1", fails("ENOMEM")),
        create(7, "p", f"gpu=0:{MIB} native=1", fails("ENOMEM")),
        [reserve(TWO, "1:1", fails("ENOMEM")), reserve(TWO, "9:1", fails("ENOENT"))],
        [release(share) for share in (ONE, ONE, TWO)],
        read("1/reserved", ""),
        create(7, "p", f"gpu=1:{CARD}:20"),
        reserve(TWO, "1:1", fails("ENOMEM")),
    ),
    case(
        "reserved-used",
        "A container by shares has their sums; they are its own while it lives, and stay after it.",
        [start("p", 7), start("q", 8)],
        [reserve(ONE, f"0:{MIB}:2"), reserve(TWO, f"0:{2 * MIB}:1:1")],
        by_shares(7, "p", ONE, TWO, "other", expect=fails("ENOENT")),
        by_shares(7, "p", ONE, TWO),
        [
            read(f"{directory(7)}/{node}", f"{value}\n")
            for node, value in (("memsize", 3 * MIB), ("weight", 3), ("highprio", 1))
        ],
        read("0/reserved", line(ONE, f"0:{MIB}:2:0", LONG) + line(TWO, f"0:{2 * MIB}:1:1", LONG)),
        [read("0/free_weight", "17\n"), read("0/policy", "2\n")],
        by_shares(8, "q", TWO, expect=fails("EBUSY")),
        release(ONE, fails("EBUSY")),
        create(8, "q", f"gpu=0:{CARD - 3 * MIB + 1}", fails("ENOMEM")),
        # A reservation stays whole when its container has less.
        write(f"{directory(7)}/memsize", str(MIB)),
        create(8, "q", f"gpu=0:{CARD - 3 * MIB + 1}", fails("ENOMEM")),
        destroy(7),
        read("0/reserved", line(ONE, f"0:{MIB}:2:0") + line(TWO, f"0:{2 * MIB}:1:1")),
        create(8, "q", f"gpu=0:{CARD - 3 * MIB}"),
        by_shares(7, "p", TWO),
        [release(ONE), release(TWO, fails("EBUSY")), destroy(7), release(TWO)],
    ),
    case(
        "reserved-reclaimed",
        "A container by shares whose first process is gone is removed, and the next one can use them.",
        [start("p", 7), start("q", 8)],
        reserve(ONE, f"0:{CARD}:20"),
        by_shares(7, "p", ONE),
        kill("p"),
        containers(0, [], until=True),
        read("0/reserved", line(ONE, f"0:{CARD}:20:0")),
        by_shares(8, "q", ONE),
        [destroy(8), release(ONE)],
    ),
    case(
        "reserved-limit",
        "The limit of a container by shares is what is reserved for them, to the byte.",
        [reserve(ONE, f"0:{4 * MIB}"), reserve(TWO, f"0:{2 * MIB}")],
        start("p", 7, "probe", "alloc=7M:64k", "alloc=6M:64k", "alloc=64K:64k"),
        by_shares(7, "p", ONE, TWO),
        go("p"),
        finish("p", lines={"alloc": ["status=0x51", "status=0x0", "status=0x51"]}),
        containers(0, [], until=True),
        [release(ONE), release(TWO)],
    ),
]

WORKERS = ("a", "b", "c", "d")


def races(times: int) -> list[Case]:
    """Many who reserve, release and start containers at once."""
    half = f"0:{CARD // 2}:5"
    return [
        case(
            "race-reserved",
            "However many ask at once, what a card has is promised once, to shares or to containers.",
            [start(name) for name in WORKERS],
            race(
                times,
                [
                    [reserve(ONE, half), by_shares(7, "a", ONE), destroy(7), release(ONE)],
                    [reserve(ONE, half), by_shares(8, "b", ONE), destroy(8), release(ONE)],
                    [reserve(TWO, half), by_shares(9, "c", TWO, ONE), destroy(9), release(TWO)],
                    [create(10, "d", f"gpu=0:{CARD // 2 + 1}"), destroy(10)],
                ],
                *("ok", "ENOENT", "EBUSY", "ENOMEM"),
            ),
            [release(ONE), release(TWO)],
            containers(0, []),
            read("0/reserved", ""),
            reserve(ONE, f"0:{CARD}:20"),
            release(ONE),
        )
    ]


def cases(times: int) -> list[Case]:
    """Return the cases; times: how often a race is repeated."""
    return [*CASES, *races(times)]
