# SPDX-License-Identifier: Apache-2.0
"""Cases of the conformance suite, and attacks, that cannot pass on NVIDIA's driver with a card in software.

They are carried out all the same, and have to fail: one that passes has to be taken out of here. Cases that
need a second card are left out by what their steps name (tests/conformance/select.py).
"""

from __future__ import annotations

KEPT = (
    "the driver keeps a part for itself, so nobody fills the card; that all comes back is in test_daemon.py"
)
THREAD = "before Linux 6.9 nobody can be given a descriptor of such a thread: cgpud refuses its calls (EPERM)"
REASONS = {
    ("cgpud", "comes-back-exit-dirty"): KEPT,
    ("cgpu_km", "comes-back-exit-dirty"): KEPT,
    ("cgpud", "comes-back-hold"): KEPT,
    ("cgpu_km", "comes-back-hold"): KEPT,
    ("cgpud", "own-descriptors"): THREAD,
    ("cgpud", "managed_mapping_without_a_first_thread"): THREAD,
    ("cgpu_km", "contexts"): "where pages are counted, no context is estimated",
}
# Not even tried: 8 GiB of the host's memory, and the machine has two.
TOO_LARGE = "host-memory"
