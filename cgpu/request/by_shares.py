# SPDX-License-Identifier: Apache-2.0
"""Allocation of a container with shares: what Kubernetes has given to it, and nothing that it asks for.

A variable of the container's environment says which shares, or root's file of its pod (cgpu/pod_shares.py).
The image may have set or forged a variable, so a share counts only where root's file of the share names the
container's pod and the container.
"""

from __future__ import annotations

from cgpu import paths, shares
from cgpu.errors import CgpuError, show
from cgpu.request.spec import VENDOR, VENDOR_NOTHING
from cgpu.slice import together

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cgpu.client.tree import Gpu
    from cgpu.request.grants import Grant
    from cgpu.request.pod import Pod
    from cgpu.request.request import Request
    from cgpu.shares import Share


def work_out(request: Request, pod: Pod, gpus: Sequence[Gpu]) -> tuple[tuple[Grant, ...], tuple[str, ...]]:
    """Return the grants and the UUIDs of a container's shares on the node's GPUs, in the order of the cards.

    pod: of the container, which is certain. Raises CgpuError.
    """
    words = request.words
    found = [_share(share, pod, paths.SHARES) for share in request.shares]
    grants, uuids = _merged(found, gpus)
    # The shares' devices set `void`. An edited specification has the GPUs themselves.
    if words.shares and words.vendor not in (*VENDOR_NOTHING, ",".join(uuids)):
        raise CgpuError(
            f"{VENDOR}={show(words.vendor)}: the container has the share {words.shares[0]}, whose device "
            "sets this to void; leave it out"
        )
    return grants, uuids


def _share(share: str, pod: Pod, folder: str) -> Share:
    found = shares.read(share, folder)
    if pod.uid not in found.pods:
        # Rare, so it is not imported for every container.
        from cgpu.share_asks import ask

        if ask(share, pod.uid, folder):
            found = shares.read(share, folder)
    containers = found.pods.get(pod.uid)
    if containers is None:
        # The container may not learn whose share it is.
        raise CgpuError(f"share {share}: it is not of a claim of this pod ({show(pod.uid)})")
    if pod.container not in containers:
        raise CgpuError(
            f"share {share}: the container {show(pod.container)} does not name its claim "
            f"{show(found.claim[1])} in resources.claims; in this pod it is for: "
            f"{show(', '.join(containers) or 'none')}"
        )
    return found


def _merged(found: Iterable[Share], gpus: Sequence[Gpu]) -> tuple[tuple[Grant, ...], tuple[str, ...]]:
    """Return one grant for each GPU, as the engine adds its shares up."""
    by_uuid = {gpu.uuid.lower(): gpu for gpu in gpus}
    chosen: dict[int, list[Share]] = {}
    for share in found:
        gpu = by_uuid.get(share.gpu.lower())
        if gpu is None:
            raise CgpuError(
                f"share {share.share}: its GPU {share.gpu} is not here; cgpu-smi lists those that are"
            )
        chosen.setdefault(gpu.index, []).append(share)
    grants = []
    uuids = []
    for gpu in gpus:
        parts = chosen.get(gpu.index)
        if parts is not None:
            grants.append((gpu.index, *together((part.slice for part in parts), gpu.max_inst).values()))
            uuids.append(gpu.uuid)
    return tuple(grants), tuple(uuids)
