# SPDX-License-Identifier: Apache-2.0
"""Cases about nodes: their names, their content, and writes to them."""

from __future__ import annotations

from tests.conformance.steps import (
    CARD,
    EINVAL,
    MIB,
    NOTHING,
    Case,
    Step,
    alter,
    attributes,
    case,
    containers,
    create,
    destroy,
    directories,
    directory,
    fails,
    names,
    opens,
    part,
    put,
    read,
    start,
    write,
)
from tests.policies import policies, text

ROOT = {"default_memsize": 0o644, "engine": 0o444, "gpus": 0o444, "inst_ctl": 0o600, "major": 0o444}
ROOT |= {"policies": 0o444, "stat": 0o444, "upgrade": 0o644, "version": 0o444}
GPU = dict.fromkeys(("drift", "free_weight", "left", "major", "memfree", "memtotal", "mig", "minor"), 0o444)
GPU |= dict.fromkeys(("name", "natives", "reserved", "sched", "stat", "uuid"), 0o444)
GPU |= dict.fromkeys(("max_inst", "policy", "prio_ratio"), 0o644)
INNER = dict.fromkeys(("id", "meminfo", "owner", "stat", "usage"), 0o444)
INNER |= dict.fromkeys(("highprio", "memsize", "weight"), 0o644)
HOME = directory(7)
NUMBER = {"match": "[0-9]+\n"}
NOT_NUMBERS = ("\n", " 1", "1 ", "1\n\n", "+1", "-1", "0x1", "1.0", "one", "1\t", "1\r\n", "1\0")
TOO_LONG = "1234567890123456"
WRITABLE = [
    node
    for place, nodes in (("", ROOT), ("0/", GPU), (HOME + "/", INNER))
    for node in (place + name for name, mode in nodes.items() if mode == 0o644)
]
READ_ONLY = [
    node
    for place, nodes in (("", ROOT), ("0/", GPU), (HOME + "/", INNER))
    for node in (place + name for name, mode in nodes.items() if mode == 0o444)
]

REGISTERED = [start("p", 7), create(7, "p", f"gpu=0:{MIB}")]


def modes(place: str, nodes: dict[str, int]) -> list[Step]:
    """Look at every node of a directory, as it is listed and one by one."""
    found = [names(place, {"has": sorted(nodes)}), attributes(place, kind="directory", uid=0, gid=0)]
    for name, mode in nodes.items():
        found.append(
            attributes(f"{place}/{name}", kind="file", mode=format(mode, "04o"), uid=0, gid=0, size=0)
        )
    return found


def shape() -> list[Case]:
    """Return the cases of the nodes' names and rights."""
    return [
        case("root", "The root has the documented nodes and one directory per card.", modes("", ROOT)),
        case("cards", "The root has one directory for each of the two cards.", directories("", ["0", "1"])),
        case("gpu", "A card's directory has the documented nodes.", modes("0", GPU), modes("1", GPU)),
        case("inner", "A container's directory has the documented nodes.", REGISTERED, modes(HOME, INNER)),
        case(
            "only-root",
            "Another user than root gets nowhere in the tree.",
            [read(node, fails("EACCES", "EPERM"), **{"as": "nobody"}) for node in ("version", "0/policy")],
            names("", fails("EACCES", "EPERM"), **{"as": "nobody"}),
        ),
        case(
            "capability",
            "Root without CAP_SYS_ADMIN, and root of another user namespace, cannot write.",
            [
                write(node, text, fails("EACCES", "EPERM"), **{"as": who})
                for who in ("plain", "userns")
                for node, text in (("0/policy", "2"), ("inst_ctl", f"destroy id={HOME[2:]}"))
            ],
            read("0/policy", "1\n"),
        ),
        case(
            "fixed",
            "Nodes and directories cannot be made, moved or removed.",
            [alter(how, node) for how in ("make", "mkdir", "link") for node in ("new", "0/new")],
            [alter(how, node) for how in ("remove", "rename") for node in ("version", "0/policy")],
            read("version"),
        ),
        case(
            "missing",
            "What is not there is ENOENT, what is below a file ENOTDIR, and a directory is not written.",
            [read(node, fails("ENOENT")) for node in ("nothing", "2/policy", "00/policy", "0/nothing")],
            read("version/x", fails("ENOTDIR")),
            read("0", fails("EISDIR")),
            write("0", "1", fails("EISDIR")),
        ),
    ]


OF_GPU = rf"index=[0-9] uuid=GPU-[0-9a-f-]{{36}} memtotal={CARD} max_inst=20\n"
ROOT_FACTS = (
    ("version", r"[0-9]+\.[0-9]+\.[0-9]+\S*\n"),
    ("gpus", f"({OF_GPU})+"),
    ("policies", text()),
)
CARD_FACTS = (("name", "Tesla T4\n"), ("memtotal", f"{CARD}\n"))


def values(engine: str, major: str, gone: tuple[str, ...]) -> list[Case]:
    """Return the cases of nodes' values."""
    return [
        case(
            "facts",
            "Root and cards tell what they are.",
            read("engine", {"match": engine + r" \S+( (pages|witness|driver)=[a-z]+)*\n"}),
            [read(node, {"match": text}) for node, text in ROOT_FACTS],
            [read(node, major + "\n") for node in ("major", "0/major", "1/major")],
            [read(f"{gpu}/{node}", text) for gpu in (0, 1) for node, text in CARD_FACTS],
            [read(f"{gpu}/uuid", {"match": r"GPU-[0-9a-f-]{36}\n"}) for gpu in (0, 1)],
            [read(f"{gpu}/minor", f"{gpu}\n") for gpu in (0, 1)],
            read("0/drift", {"match": "-?[0-9]+\n"}),
            [read(f"{gpu}/{node}", "0\n") for gpu in (0, 1) for node in ("mig", "natives")],
            [read(f"0/{node}", NUMBER) for node in ("memfree", "max_inst", "policy", "prio_ratio")],
        ),
        case(
            "container",
            "A container's nodes tell what it was given.",
            start("p"),
            create(7, "p", f"gpu=1:{64 * MIB}:3:1"),
            [
                read(f"{directory(7, 1)}/{node}", value)
                for node, value in (
                    ("memsize", f"{64 * MIB}\n"),
                    ("weight", "3\n"),
                    ("highprio", "1\n"),
                    ("meminfo", f"Free: {64 * MIB}\n"),
                    ("id", NUMBER),
                    ("usage", NUMBER),
                    ("owner", {"match": f"{directory(7)[2:]}5{{52}} \\S*{{cgroup:p}}\n"}),
                )
            ],
            read("1/free_weight", "17\n"),
            read("0/free_weight", "20\n"),
        ),
        case(
            "short-names",
            "An id that is not 64 hexadecimal digits names its directory whole.",
            start("p"),
            create("pod_1.web+a-2", "p", f"gpu=0:{MIB}"),
            containers(0, ["pod_1.web+a-2"]),
            read("0/pod_1.web+a-2/owner", {"match": r"pod_1\.web\+a-2 .*\n"}),
        ),
        case(
            "gone",
            "A node of a container that is gone is ENOENT, also when another has come by the same name.",
            REGISTERED,
            opens("kept", f"{HOME}/memsize", "O_RDWR"),
            part("kept", 0, 64, f"{MIB}\n"),
            destroy(7),
            read(f"{HOME}/memsize", fails("ENOENT")),
            part("kept", 0, 64, fails(*gone)),
            part("kept", 1 << 20, 1 << 20, NOTHING),
            create(7, "p", f"gpu=0:{MIB}"),
            part("kept", 0, 64, fails(*gone)),
            put("kept", "1", fails(*gone)),
            read(f"{HOME}/memsize", f"{MIB}\n"),
        ),
    ]


def told(node: str, text: str, end: str = "", flag: str = "O_WRONLY") -> list[Step]:
    """Write a number and read it again."""
    return [write(node, text + end, flag=flag), read(node, f"{int(text)}\n")]


LIMITS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0/policy", (str(len(policies())), "005", "99")),
    ("0/max_inst", ("0", "26", "0020")),
    ("0/prio_ratio", ("19", "100", "0080")),
    (f"{HOME}/highprio", ("2", "01")),
    (f"{HOME}/weight", ("0", "21", "0001")),
    ("upgrade", ("0", "2", "01")),
)
# Cases of writes to nodes.
WRITING = [
    case(
        "arrows",
        "A value is written with and without a newline, over the old one and behind it.",
        [
            step
            for flag in ("O_TRUNC", "O_APPEND", "O_WRONLY")
            for value in (3, 1)
            for end in ("\n", "")
            for step in told("0/policy", f"{value}", end, flag)
        ],
    ),
    case(
        "numbers",
        "Anything but one decimal number, with one newline at most, is EINVAL and changes nothing.",
        REGISTERED,
        [write(node, text, EINVAL) for node in WRITABLE for text in (*NOT_NUMBERS, TOO_LONG)],
        read("0/policy", "1\n"),
        read(f"{HOME}/memsize", f"{MIB}\n"),
        read("default_memsize", "0\n"),
    ),
    case(
        "limits",
        "A number out of range, or longer than its node takes, is EINVAL; the ends are taken.",
        REGISTERED,
        [write(node, text, EINVAL) for node, texts in LIMITS for text in texts],
        [
            step
            for node, text in (
                *(("0/policy", value) for value in ("5", "00", "1")),
                *(("0/max_inst", value) for value in ("25", "1")),
                *(("0/prio_ratio", value) for value in ("20", "099")),
                *((f"{HOME}/memsize", value) for value in (str(CARD), "0")),
                (f"{HOME}/highprio", "1"),
                ("default_memsize", "999999999999999"),
            )
            for step in told(node, text)
        ],
    ),
    case(
        "read-only",
        "A write to a node that only tells is EACCES.",
        REGISTERED,
        [write(node, text, fails("EACCES")) for node in READ_ONLY for text in ("1\n", "x")],
    ),
    case(
        "descriptor",
        "Each write on one descriptor stands for itself, wherever the offset has got to.",
        opens("file", "0/policy", "O_RDWR"),
        [put("file", f"{value}\n") for value in (2, 4)],
        put("file", "9\n", EINVAL),
        part("file", 0, 64, "4\n"),
    ),
    case(
        "parts",
        "Parts of a read fit together, and a read from the start sees what is new.",
        read("0/max_inst", "20\n", size=1),
        read("0/uuid", {"match": r"GPU-[0-9a-f-]{36}\n"}, size=3),
        opens("file", "0/max_inst"),
        part("file", 0, 2, "20"),
        write("0/max_inst", "21"),
        [part("file", *where) for where in ((2, 64, "\n"), (0, 64, "21\n"), (1, 64, "1\n"), (99, 9, ""))],
    ),
    case(
        "shares",
        "Weight, limit of containers and policy hold each other in bounds.",
        [start("p"), start("q"), create(7, "p", f"gpu=0:{MIB}"), create(8, "q", f"gpu=0:{MIB}")],
        read("0/policy", "1\n"),
        write(f"{HOME}/weight", "4"),
        read("0/policy", "2\n"),
        read("0/free_weight", "15\n"),
        write(f"{HOME}/weight", "20", fails("EDQUOT")),
        write("0/max_inst", "4", fails("EBUSY")),
        write("0/max_inst", "5"),
        read("0/free_weight", "0\n"),
        write(f"{HOME}/weight", "1"),
        read("0/policy", "2\n"),
        write("0/max_inst", "1", fails("EBUSY")),
    ),
    case(
        "memsize",
        "A slice grows to what the card has left, and not further.",
        [start("p"), start("q"), create(7, "p", f"gpu=0:{MIB}"), create(8, "q", f"gpu=0:{MIB}")],
        write(f"{HOME}/memsize", str(CARD - MIB)),
        write(f"{HOME}/memsize", str(CARD - MIB + 1), fails("ENOMEM")),
        read(f"{HOME}/memsize", f"{CARD - MIB}\n"),
    ),
]


def cases(engine: str, major: str, gone: tuple[str, ...]) -> list[Case]:
    """Return the cases. gone: errors of a node's descriptor after its container."""
    return [*shape(), *values(engine, major, gone), *WRITING]
