# SPDX-License-Identifier: Apache-2.0
"""Names of the containers that use shares, from the agent's own records: it can ask no container engine.

A record says which containers of which pods may use a share, the engine which container does. The pod is the
one whose UID is in the path of the container's control group, as the kubelet makes it: kubepods…/podUID/…, or
with systemd …-podUID.slice/…, and there with "_" for "-".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cgpu.client.directory import directory_of
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.kubernetes.node.records import Record, Records
from cgpu.smi.names import Names

_POD = re.compile(r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)")


def container_names(tree: Tree, records: Records) -> Names:
    """Return NAMESPACE/POD/CONTAINER by the container's whole id.

    Init containers may have a share before the pod's container: then the name joins theirs with commas. A
    container that ends meanwhile, or is not known, has no name; without an engine none has one.
    """
    shares = {share.share: (record, share.request) for record in records.all()[0] for share in record.shares}
    names: Names = {}
    try:
        users = list(_users(tree))
    except CgpuError:
        return {}
    for container, group, share in users:
        name = _name(*shares[share], pod_uid(group)) if share in shares else None
        if name is not None:
            names[container] = name
    return names


def pod_uid(group: str) -> str | None:
    """Return the UID of the pod to which a control group belongs."""
    found = _POD.findall(group)
    return found[-1].replace("_", "-") if found else None


def _users(tree: Tree) -> Iterator[tuple[str, str, str]]:
    """Yield each container that uses a share: its id, its control group, and the share."""
    for index in tree.indexes():
        for one in tree.reserved(index):
            if one.container is None:
                continue
            try:
                owner = tree.read(str(index), directory_of(one.container), "owner")
            except CgpuError:
                continue
            yield one.container, owner.partition(" ")[2], one.share


def _name(record: Record, request: str, uid: str | None) -> str | None:
    if uid is None or uid not in record.names:
        return None
    containers = record.pods.get(uid, {}).get(request, ())
    return f"{record.claim.namespace}/{record.names[uid]}/{','.join(containers)}"
