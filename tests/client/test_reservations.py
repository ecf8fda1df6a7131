# SPDX-License-Identifier: Apache-2.0
"""The client's side of reservations, on plain files."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.reservations import Reservation, parse
from cgpu.errors import CgpuError
from cgpu.slice import Slice
from tests.client.support import CONTAINER, MIB, PlainTree
from tests.refusal import has_parts

ONE = "6f1c0a52-93d1-4c1e-8f6a-000000000001"
TWO = "6f1c0a52-93d1-4c1e-8f6a-000000000002"
GRANT = (1, 6043 * MIB, 2, 1)
SHARE_IDS = st.from_regex(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]{0,40}", fullmatch=True)
RESERVATIONS = st.builds(
    Reservation,
    SHARE_IDS,
    st.builds(Slice, st.integers(1, 10**15 - 1), st.integers(0, 25), st.integers(0, 1)),
    st.none() | SHARE_IDS,
)


def test_what_is_written(tree: PlainTree) -> None:
    """A reservation, its end and a container by shares are one write each, of the long form."""
    one = tree.client()
    for call, line in (
        (partial(one.reserve, ONE, GRANT), f"reserve id={ONE} gpu=1:{6043 * MIB}:2:1"),
        (partial(one.release, ONE), f"release id={ONE}"),
        # A share has no directory in the tree, so it may be named as an entry of it.
        (partial(one.reserve, "policy", GRANT), f"reserve id=policy gpu=1:{6043 * MIB}:2:1"),
        (
            partial(one.register, CONTAINER, 4711, (), (), [ONE, TWO]),
            f"create id={CONTAINER} share={ONE} share={TWO} pid=4711",
        ),
    ):
        tree.inst_ctl.write_text("")
        call()
        assert tree.inst_ctl.read_text() == line


@given(st.lists(RESERVATIONS, max_size=25))
def test_what_is_written_is_read(wanted: list[Reservation]) -> None:
    """Each reservation comes back as it was written."""
    text = "\n".join(
        f"{one.share} {' '.join(map(str, one.slice.values()))} {one.container or '-'}" for one in wanted
    )
    assert parse(text) == tuple(wanted)


@given(st.text(max_size=200) | st.lists(st.text("a0 -\n", max_size=20), max_size=30).map("\n".join))
def test_any_other_text_is_refused(text: str) -> None:
    """Any text is read as reservations or refused with one line."""
    try:
        found = parse(text)
    except CgpuError as error:
        said = str(error)
    else:
        assert len(found) == (text.count("\n") + 1 if text else 0)
        return
    assert has_parts(said, "reserved: ")
