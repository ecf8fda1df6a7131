# SPDX-License-Identifier: Apache-2.0
"""Valid settings of any kind, as texts: JSON and TOML with every way to lay out and to spell things."""

from __future__ import annotations

import json
from types import ModuleType

from hypothesis import strategies as st

from cgpu.runtime_config.engines import containerd, docker
from cgpu.runtime_config.text import toml as toml_text

SPACE = st.sampled_from(["", " ", "\n", "\r\n\t"])
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
INDENTS = st.sampled_from([None, 0, 2, 4, "\t"])
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\r\n", "\n:\t")])


@st.composite
def daemon_json(draw: st.DrawFn) -> str:
    """Return a daemon.json with anything but our runtime, with runtimes and a default or without."""
    document = draw(st.dictionaries(WORDS, VALUES, max_size=3))
    for name in ("runtimes", "default-runtime"):
        document.pop(name, None)
    others = WORDS.filter(lambda name: name != "cgpu")
    if draw(st.booleans()):
        document["runtimes"] = draw(st.dictionaries(others, VALUES, max_size=2))
    if draw(st.booleans()):
        document["default-runtime"] = draw(others | st.none())
    names = draw(st.permutations(list(document)))
    text = json.dumps(
        {name: document[name] for name in names},
        indent=draw(INDENTS),
        separators=draw(SEPARATORS),
        ensure_ascii=draw(st.booleans()),
    )
    return draw(SPACE) + text + draw(SPACE)


# Values that span lines, some of which look like those that an edit looks for.
TOML_VALUES = st.sampled_from(
    [
        *('"x"', "''", "1_000", "nan", "1979-05-27T07:32:00Z", '{a = "]", "b.c" = [1]}', '""""a"""""'),
        *("[1, 2]", "[\n  'a', # it's [\n  \"]\", # ]}\n]", '"""\\\n   [a]"""'),
        *('"""\n[engine]\nruntimes = ["x"]\n"""', "'''\ndefault_runtime_name = 'x'\n# [engine]'''"),
    ]
)
COMMENTS = st.sampled_from(["# it's [", '# """', "# ]}", "# '''", "# [engine] =", "#runtime = 1", "# é"])
END = st.sampled_from(["", " ", "\t"]) | COMMENTS.map(lambda comment: f"  {comment}")


@st.composite
def toml_lines(draw: st.DrawFn, mark: str) -> list[str]:
    """Return keys of no meaning, comments and empty lines. mark: prefix of the keys."""
    keys = draw(st.integers(0, 3))
    lines = [f"{mark}{at} = {draw(TOML_VALUES)}{draw(END)}" for at in range(keys)]
    lines += draw(st.lists(COMMENTS | st.just(""), max_size=2))
    return draw(st.permutations(lines))


@st.composite
def toml(draw: st.DrawFn, root: list[str], tables: list[tuple[str, list[str]]]) -> str:
    """Return a file of some lines and tables, each there or not, among others of no meaning."""
    lines = [*draw(toml_lines("r")), *(line for line in root if draw(st.booleans()))]
    chosen = [one for one in tables if draw(st.booleans())]
    chosen += [(f'[other{at}."x y"]', []) for at in range(draw(st.integers(0, 2)))]
    for at, (header, content) in enumerate(draw(st.permutations([*chosen, ("[[list]]", [])]))):
        indent = draw(st.sampled_from(["", "  ", "\t"]))
        lines += [indent + header + draw(END)]
        lines += [indent + line + draw(END) for line in content if draw(st.booleans())]
        lines += draw(toml_lines(f"k{at}_"))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    # A new line inside a value is the value's: it may be either.
    return end.join(lines) + draw(st.sampled_from([end, "", end * 2]))


def add_to(engine: ModuleType, text: str, runtime: str, *, default: bool = False) -> str:
    """Return one file's settings with the runtime, for any version of the engine. Raises CgpuError."""
    if engine is docker:
        return docker.write(docker.add(docker.parse(text), runtime), text)
    if engine is not containerd:
        added: str = engine.add(text, runtime, **({"default": True} if default else {}))
        return added
    bare = toml_text.strip("config.toml", text)
    settings = toml_text.parse("config.toml", bare)
    new = containerd.addition(settings, runtime, default=default, keeps_stock=False)
    return containerd.insert(bare, new)


def remove_from(text: str) -> str:
    """Return one file's settings without what was added. Raises CgpuError."""
    return toml_text.strip("settings", text)
