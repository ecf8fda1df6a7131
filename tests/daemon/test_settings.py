# SPDX-License-Identifier: Apache-2.0
"""Settings on their way from the configuration to the core."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from cgpu.config.effective import Effective
from cgpu.config.schema import schema
from cgpu.kmod.daemon.engine import settings_of
from cgpu.kmod.daemon.library import CRefusal, CSettings
from tests.core.build import flags, generated, run, tool

PROGRAM = """
#include <stdio.h>
#include <stddef.h>
#include "cgpu_core.h"
#include "sched/scheduler.h"
typedef struct cgpu_settings S;
int main(void)
{
	printf("%%llu %%llu %%llu\\n", CGPU_SCHED_SLICE_MIN, CGPU_SCHED_SLICE_MAX, CGPU_SCHED_SLICE_DEFAULT);
%s
	printf("%%zu\\n%%zu\\n", sizeof(S), sizeof(struct cgpu_refusal));
	return 0;
}
"""
OFFSET = '\tprintf("%%zu %%zu\\n", offsetof(S, %s), sizeof(((S *)0)->%s));'
NAMES = [str(field[0]) for field in CSettings._fields_]


def test_structs_and_slice_are_those_of_the_headers(tmp_path: Path) -> None:
    """Each field lies where the compiler has it; bounds and default of slice_us are the scheduler's."""
    source, program = tmp_path / "settings.c", tmp_path / "settings"
    source.write_text(PROGRAM % "\n".join(OFFSET % (name, name) for name in NAMES))
    run([tool("cc"), *flags(generated(tmp_path / "gen")), str(source), "-o", str(program)])
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    slices, *fields, size, refusal = printed.splitlines()
    mirrored = [getattr(CSettings, name) for name in NAMES]
    assert fields == [f"{field.offset} {field.size}" for field in mirrored]
    assert int(size) == CSettings.drift_refuse.offset + 8
    assert int(refusal) == ctypes.sizeof(CRefusal)
    rule = schema()["properties"]["slice_us"]
    expected = [rule[bound] * 1000 for bound in ("minimum", "maximum", "default")]
    assert [int(number) for number in slices.split()] == expected


def test_every_key_of_the_core_is_passed_on() -> None:
    """A configuration without defaults has each of its values in the struct; slice_us becomes nanoseconds."""
    config = Effective(
        policy=3,
        max_inst=7,
        prio_ratio=60,
        slice_us=500,
        default_memsize=1,
        context_memory=2,
        drift_tolerance=3,
        drift_reaction="refuse",
        enforce=False,
        allow_zero_weight=True,
    )
    passed = settings_of(config)
    assert passed.slice == 500_000
    numbers = [getattr(passed, name) for name in ("policy", "max_inst", "prio_ratio")]
    assert numbers == [3, 7, 60]
    assert [passed.default_memsize, passed.context_memory, passed.drift_tolerance] == [1, 2, 3]
    assert [passed.drift_refuse, passed.enforce, passed.allow_zero_weight] == [1, 0, 1]
