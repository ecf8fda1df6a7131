# SPDX-License-Identifier: Apache-2.0
"""The client of the API server, in programs with threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each thread reads something of a kind for the first time, all at once.
PROGRAM = """
import sys, threading
from lightkube.core.decoders import decode_list
from {module} import KINDS
from cgpu.kubernetes.cluster import learn
sys.setswitchinterval(1e-6)
learn(*KINDS)
start = threading.Barrier(2 * len(KINDS))
def read(kind):
    start.wait()
    decode_list(b'{{"items": []}}', kind)
threads = [threading.Thread(target=read, args=(kind,)) for kind in KINDS * 2]
[one.start() for one in threads]
[one.join() for one in threads]
"""


@pytest.mark.parametrize("module", ["cgpu.kubernetes.node.api", "cgpu.kubernetes.admission.main"])
def test_threads_read_at_once(module: str) -> None:
    """Threads that read their first answers at once do not end the process. Without learn() each try does."""
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
