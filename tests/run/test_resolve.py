# SPDX-License-Identifier: Apache-2.0
"""Grants by the options of `cgpu run` on a node's GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.run.main import Options
from cgpu.run.resolve import resolve
from tests.client.support import MIB, cards, uuid
from tests.grants import grant

ONE = cards(15109)
THREE = cards(15109, 16130, 23028)
GIB = 1 << 30
COMMAND = ("/bin/true",)


def options(mem: str | None = "1G", **more: object) -> Options:
    return Options(COMMAND, mem=mem, **more)  # type: ignore[arg-type]  # as the test gives them


def test_defaults() -> None:
    """Weight 1, no priority, the node's only GPU, and its default size in whole MiB."""
    request = resolve(options(), ONE, Effective())
    assert request.grants == (grant(0, GIB, 1, 0),)
    assert request.uuids == (uuid(0),)
    request = resolve(options(None), ONE, Effective(default_memsize=5 * GIB + 1))
    assert request.grants == (grant(0, 5 * GIB, 1, 0),)
    with pytest.raises(CgpuError, match="the engine has no GPU: "):
        resolve(options(), [], Effective())


def test_all_said() -> None:
    """GPUs come in the order in which they are named, sizes in theirs, and the last size repeats."""
    asked = options("3G,1G", gpus=f"2,{uuid(0)},1", values={"weight": "5", "highprio": "1"})
    request = resolve(asked, THREE, Effective())
    assert request.grants == (grant(2, 3 * GIB, 5, 1), grant(0, GIB, 5, 1), grant(1, GIB, 5, 1))
    assert request.uuids == (uuid(2), uuid(0), uuid(1))
    assert [grant[0] for grant in resolve(options(gpus="all"), THREE, Effective()).grants] == [0, 1, 2]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (options(), "this node has 3 GPUs; choose with --gpus 0 (or 0,1, a UUID, all)"),
        (options(gpus="7"), "--gpus=7: no GPU 7 here; available: 0 (GPU-b084ae33), 1 (GPU-"),
        (options(gpus="0,0"), "--gpus=0,0: GPU 0 is named twice"),
        (options(gpus=""), "--gpus=: expected indexes or UUIDs"),
        (options(gpus="0, 1"), "--gpus=0, 1: expected indexes or UUIDs"),
        (options("1G,2G", gpus="0"), "--mem=1G,2G: 2 values for 1 GPU; give at most one for each"),
        (options("15G", gpus="0"), "--mem=15G: that is 15360 MiB, and GPU 0 has 15109 MiB"),
        (options("9G", gpus="0"), "--mem=9G: that is 9216 MiB of GPU 0; this node allows 8192"),
        (options(gpus="0", values={"weight": "0"}), "--weight=0: expected a whole number from 1 to 20"),
        (options(gpus="0", values={"weight": "01"}), "--weight=01: expected a whole number"),
    ],
)
def test_refused(asked: Options, message: str) -> None:
    """A value that is malformed, or that the node does not give, is named with what is expected."""
    with pytest.raises(CgpuError) as caught:
        resolve(asked, THREE, Effective(max_mem_container_mib=8192 if asked.mem == "9G" else None))
    assert str(caught.value).startswith(message)


texts = (
    st.none() | st.text(max_size=6) | st.sampled_from(["all", "0", "0,1", "2", uuid(1), "1G", "1G,2G", "3"])
)
configs = st.builds(
    Effective,
    allow_zero_weight=st.booleans(),
    max_mem_container_mib=st.none() | st.integers(1, 30000),
    max_schd_weight=st.none() | st.integers(1, 25),
    default_memsize=st.sampled_from([0, 5 << 30]),
)


values = st.fixed_dictionaries(
    {}, optional={"weight": texts.filter(lambda text: text is not None), "highprio": st.just("1")}
)


@given(st.builds(Options, st.just(COMMAND), texts, texts, values), configs)
def test_any_options(asked: Options, config: Effective) -> None:
    """Options give slices within cards and bounds, or are refused: never none and never more."""
    try:
        request = resolve(asked, THREE, config)
    except CgpuError:
        return
    indexes = [gpu for gpu, *_ in request.grants]
    assert 1 <= len(set(indexes)) == len(indexes) == len(request.uuids)
    assert request.passthrough == ()
    for gpu, size, weight, highprio, *_ in request.grants:
        assert size % MIB == 0
        assert 0 < size <= min(THREE[gpu].memtotal, (config.max_mem_container_mib or 1 << 30) * MIB)
        assert (0 if config.allow_zero_weight else 1) <= weight <= min(20, config.max_schd_weight or 20)
        assert highprio == int("highprio" in asked.values)
