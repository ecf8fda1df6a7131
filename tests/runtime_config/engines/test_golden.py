# SPDX-License-Identifier: Apache-2.0
"""Drop-ins beside settings as administrators have them: every character is in the folder golden.

Each case has a folder, ENGINE-NAME: before.txt is the engine's own file; drop-in.txt is the file beside it
with the runtime, and drop-in-default.txt has it as the default.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime_config.engines import nodes

GOLDEN = Path(__file__).with_name("golden")


def read(name: str, kind: str) -> str:
    return (GOLDEN / name / f"{kind}.txt").read_bytes().decode()


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
