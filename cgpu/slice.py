# SPDX-License-Identifier: Apache-2.0
"""The attributes of a slice, which is what a container has of one GPU. Nothing else declares them.

kmod/abi/slice_attributes.py makes of this the core's struct, the grammar of inst_ctl, the container's entries
in the tree, and keys of `stat`. The client, variables, annotations, options, columns and metrics loop over
it. What an attribute does to a container is said in the core alone.

Every container's start imports this file, and the build runs it without the package: it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SUM, MOST = "SUM", "MOST"


class Attribute:
    """One number of a slice."""

    name: str  # of the field in C, the entry in the tree, the key in `stat`, events and files of shares
    says: str  # what it is, for --help and metrics
    title: str  # its name for people
    digits: int  # of a number in inst_ctl and the entry
    most: int
    default: int | None = None  # None: a line of inst_ctl must give it, and not as 0
    together: str = SUM  # what a container with several shares of a GPU has: their SUM, or the MOST of them
    column: str  # its name in JSON, queries and metrics
    option: str = ""  # of `cgpu run`
    asked: str = ""  # its name in a request
    variables: tuple[str, ...] = ()  # that ask for it, as annotations do
    annotations: tuple[str, ...] = ()
    expected: str = ""  # for the message about a malformed value
    words: Mapping[str, int] | None = None  # values that stand for 0 and 1; None: values are numbers

    def __init__(self, name: str, says: str, **row: object) -> None:
        self.name = self.column = name
        self.says = says
        for key, value in row.items():
            if key not in Attribute.__annotations__:
                raise TypeError(f"{name}: an attribute has no {key}")
            setattr(self, key, value)

    def number(self, text: str) -> int:
        """Return what a value stands for that has the form of `expected`."""
        return int(text) if self.words is None else self.words[text]

    def fits(self, text: str) -> bool:
        """Return whether a value has the right form: a word, or a number without zeros before it."""
        if self.words is not None:
            return text in self.words
        is_number = len(text) <= self.digits and text.isascii() and text.isdigit()
        return is_number and (text == "0" or text[0] != "0")

    def typed(self, value: int | None) -> int | bool | None:
        """Return a value as JSON has it: a number, or whether it is on; None for one that is not known."""
        return value if value is None or self.words is None else value != 0

    def shown(self, value: int) -> str:
        """Return a value in words: a number, or whether it is on."""
        if self.words is None:
            return str(value)
        return next(word for word, number in self.words.items() if number == value and not word.isdigit())


# In the order of inst_ctl; those without a default come first.
ATTRIBUTES = (
    Attribute("memsize", "memory limit in bytes", title="Memory", digits=15, most=10**15 - 1),
    Attribute(
        "weight",
        "weight by which time is divided",
        title="Weight",
        digits=3,
        most=25,
        default=1,
        option="--weight",
        asked="weight",
        variables=("OPENCGPU_WEIGHT", "ALIYUN_COM_GPU_SCHD_WEIGHT"),
        annotations=("opencgpu.io/weight", "opencgpu.io/schd-weight"),
        expected="expected a whole number from 1 to the GPU's max_inst, such as 2",
    ),
    Attribute(
        "highprio",
        "whether its priority is high",
        title="Priority",
        digits=1,
        most=1,
        default=0,
        together=MOST,
        column="high_priority",
        option="--high-prio",
        asked="priority",
        variables=("OPENCGPU_PRIORITY", "ALIYUN_COM_GPU_HIGH_PRIO"),
        annotations=("opencgpu.io/priority", "opencgpu.io/high-prio"),
        expected="expected 1 or high, 0 or normal",
        words={"0": 0, "normal": 0, "1": 1, "high": 1},
    ),
)
# Memory has units, and figures beside it such as what is used: it is asked for and shown in its own way.
BESIDE_MEMORY = ATTRIBUTES[1:]


class Slice:
    """The value of each attribute, in their order. Treat it as read-only."""

    __slots__ = tuple(one.name for one in ATTRIBUTES)

    memsize: int
    weight: int
    highprio: int

    def __init__(self, *values: int) -> None:
        """Keep the values; attributes behind them have their defaults."""
        others = (one.default or 0 for one in ATTRIBUTES[len(values) :])
        for attribute, value in zip(ATTRIBUTES, (*values, *others), strict=True):
            setattr(self, attribute.name, value)

    def values(self) -> tuple[int, ...]:
        """Return the values, as a grant has them behind its GPU."""
        return tuple(getattr(self, attribute.name) for attribute in ATTRIBUTES)

    def __eq__(self, other: object) -> bool:
        """Compare all values."""
        return isinstance(other, Slice) and self.values() == other.values()

    def __hash__(self) -> int:
        """Go by all values."""
        return hash(self.values())

    def __repr__(self) -> str:
        """Return the values by their names."""
        return f"Slice({', '.join(f'{one.name}={getattr(self, one.name)}' for one in ATTRIBUTES)})"


def together(parts: Iterable[Slice], weights: int) -> Slice:
    """Return what a container with several shares of a GPU has, as the core adds them up.

    weights: the GPU's max_inst, the most that a container can have of them.
    """
    columns = zip(*(part.values() for part in parts), strict=True)
    sums = (sum(one) if of.together == SUM else max(one) for of, one in zip(ATTRIBUTES, columns, strict=True))
    found = Slice(*sums)
    found.weight = min(found.weight, weights)
    return found


def in_words(values: Mapping[str, int | None]) -> str:
    """Return the known attributes beside the memory for people: "weight 2, high priority"."""
    found = []
    for one in BESIDE_MEMORY:
        value = values.get(one.name)
        if one.words is None and value is not None:
            found.append(f"{one.title.lower()} {value}")
        elif one.words is not None and value:
            found.append(f"{one.shown(value)} {one.title.lower()}")
    return ", ".join(found)
