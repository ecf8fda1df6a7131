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


# In a process of its own: how a kind is read is settled by the first answer.
ODD = """
from cgpu.kubernetes import cluster
from lightkube.core.decoders import decode_list
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaim
entries = ",".join('{{"manager": "m", "time": "%s"}}' % time for time in {times})
metadata = '{{"name": "x", "managedFields": [%s]}}' % entries
opaque = '{{"driver": "other", "parameters": {{"a": %s}}}}' % ("[" * 5000 + "]" * 5000)
claim = '{{"metadata": %s, "spec": {{"devices": {{"config": [{{"opaque": %s}}]}}}}}}' % (metadata, opaque)
assert len(decode_list(('{{"items": [%s]}}' % claim).encode(), ResourceClaim)[2]) == 1
assert len(decode_list(('{{"items": [{{"metadata": %s}}]}}' % metadata).encode(), Pod)[2]) == 1
"""
# Go writes the year 0 and years of five digits, which Python has not.
TIMES = ("0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2026-01-01T00:00:00Z")


def test_whatever_a_tenant_may_write() -> None:
    """Odd times and deep parameters of one object do not keep others from being read."""
    command = [sys.executable, "-c", ODD.format(times=TIMES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
