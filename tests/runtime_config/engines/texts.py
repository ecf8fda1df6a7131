# SPDX-License-Identifier: Apache-2.0
"""Valid settings of any kind, as texts: JSON and TOML with every way to lay out and to spell things."""

from __future__ import annotations

import json
from types import ModuleType

from hypothesis import strategies as st

from cgpu.runtime_config.engines import containerd, docker
from cgpu.runtime_config.text import toml as toml_text

SPACE = st.text(st.sampled_from(" \t\n"), max_size=3) | st.sampled_from(["", " ", "\r\n", "\n    ", "\r\n\t"])
NUMBERS = st.sampled_from(["0", "-0", "1e3", "1.0", "18446744073709551616", "-1.5e-7"]) | st.integers().map(
    str
)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def json_string(text: str, *, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)


STRINGS = st.builds(lambda text, plain: json_string(text, ascii_only=plain), WORDS, st.booleans())
SCALARS = st.sampled_from(["null", "true", "false"]) | NUMBERS | STRINGS


@st.composite
def json_object(draw: st.DrawFn, members: dict[str, str]) -> str:
    """Return an object with these members, keys as given and values as texts, in any layout."""
    common = draw(st.none() | SPACE)  # most people write every member alike
    parts = []
    for name, value in members.items():
        key = json_string(name, ascii_only=draw(st.booleans()))
        before = draw(SPACE) if common is None else common
        parts.append(f"{before}{key}{draw(SPACE)}:{draw(SPACE)}{value}{draw(st.just('') | SPACE)}")
    return "{" + (",".join(parts) if parts else draw(SPACE)) + draw(st.just("") | SPACE) + "}"


def _array(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=3).map(lambda parts: "[" + ", ".join(parts) + "]")


def _object(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.dictionaries(WORDS, inner, max_size=3).flatmap(json_object)


VALUES = st.recursive(SCALARS, lambda inner: _array(inner) | _object(inner), max_leaves=6)


@st.composite
def daemon_json(draw: st.DrawFn) -> str:
    """Return a daemon.json with anything but our runtime, with runtimes and a default or without."""
    members = draw(st.dictionaries(WORDS, VALUES, max_size=3))
    for name in ("runtimes", "default-runtime"):
        members.pop(name, None)
    runtimes = draw(
        st.none() | st.dictionaries(WORDS.filter(lambda name: name != "cgpu"), VALUES, max_size=2)
    )
    if runtimes is not None:
        members["runtimes"] = draw(json_object(runtimes))
    if draw(st.booleans()):
        default = draw(STRINGS.filter(lambda text: json.loads(text) != "cgpu") | st.just("null"))
        members["default-runtime"] = default
    names = draw(st.permutations(list(members)))
    text = draw(json_object({name: members[name] for name in names}))
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
