# SPDX-License-Identifier: Apache-2.0
"""Settings as administrators have them, before and after: every character is in the folder golden.

Each case has a folder, ENGINE-NAME. before.txt is the original, after.txt has the runtime, default.txt has it
as the default; drop-in.txt and drop-in-default.txt are the files beside it, where an engine reads such.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime_config.engines import nodes

GOLDEN = Path(__file__).with_name("golden")
EDITED = sorted(
    (path.parent.name, path.stem) for kind in ("after", "default") for path in GOLDEN.glob(f"*/{kind}.txt")
)


def read(name: str, kind: str) -> str:
    return (GOLDEN / name / f"{kind}.txt").read_bytes().decode()


@pytest.mark.parametrize(("name", "kind"), EDITED)
def test_golden(machine: nodes.Machine, name: str, kind: str) -> None:
    """The edited file is the golden one, a second edit changes nothing, a removal gives the first file."""
    known = name.partition("-")[0]
    engine, main = machine.engine(known, nodes.OLD[known]), nodes.MAIN[known]
    desired = nodes.DEFAULT if kind == "default" else nodes.DESIRED
    machine.write(main, read(name, "before"))
    machine.add(engine, desired)
    assert machine.read(main) == read(name, kind)
    assert engine.plan_add(machine.root, desired) == []
    machine.remove(engine)
    assert machine.read(main) == read(name, "before")


DROP_INS = [
    ("crio-packages", "1.30.0", "etc/crio/crio.conf.d/10-crio.conf", nodes.CRIO),
    ("podman-ordinary", "4.3.1", nodes.CONTAINERS_CONF, nodes.PODMAN_DROP_IN),
    ("containerd-2-imports", "2.1.0", nodes.CONFIG_TOML, nodes.DROP_IN),
    ("containerd-3", "2.1.0", nodes.CONFIG_TOML, nodes.DROP_IN),
    ("containerd-4-imports", "2.3.1", nodes.CONFIG_TOML, nodes.DROP_IN),
]


@pytest.mark.parametrize("kind", ["drop-in", "drop-in-default"])
@pytest.mark.parametrize(("name", "version", "main", "drop_in"), DROP_INS)
def test_drop_ins(
    machine: nodes.Machine, name: str, version: str, main: str, drop_in: str, kind: str
) -> None:
    """The drop-in is the golden one, the main file stays, and nothing is left when ours is taken out."""
    machine.write(main, read(name, "before"))
    was = machine.state()
    engine = machine.engine(name.partition("-")[0], version)
    machine.add(engine, nodes.DEFAULT if kind.endswith("default") else nodes.DESIRED)
    assert machine.read(drop_in) == read(name, kind)
    assert {path: content for path, content in machine.state().items() if path != drop_in} == was
    machine.remove(engine)
    assert machine.state() == was
