# SPDX-License-Identifier: Apache-2.0
"""The core and the client take the same ids of containers, and name their directories alike."""

from __future__ import annotations

import ctypes
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.directory import directory_of
from cgpu.client.tree import check_id
from cgpu.errors import CgpuError
from tests.core.build import build_library

IDS = st.one_of(
    st.text(string.ascii_letters + string.digits + "_.+-", max_size=130),
    st.text("0123456789abcdefABCDEFg", min_size=63, max_size=65),
    st.text(max_size=8),
    st.sampled_from([".", "..", "-a", "a/b", "a b"]),
)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(build_library("library")))
    loaded.core_id_check.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    loaded.core_id_directory.argtypes = (ctypes.c_char_p,)
    loaded.core_id_directory.restype = ctypes.c_size_t
    return loaded


@given(IDS)
def test_same_ids(library: ctypes.CDLL, container: str) -> None:
    """What the client takes the core takes, with the same directory; what it refuses the core refuses."""
    raw = container.encode()
    taken = library.core_id_check(raw, len(raw)) == 0
    try:
        check_id(container)
    except CgpuError:
        assert not taken
    else:
        assert taken
        assert library.core_id_directory(raw) == len(directory_of(container))
