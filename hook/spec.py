# SPDX-License-Identifier: Apache-2.0
"""The container's specification: config.json in its bundle."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.fastjson import UniqueContext, loads
from cgpu.files import read_bounded
from cgpu.request.spec import check_spelling

MAX_SPEC = 16 << 20
MEMBERS = ("process", "annotations", "linux", "mounts", "root", "hooks")


def read_spec(bundle: str) -> dict[str, object]:
    """Read config.json of a bundle. Raises CgpuError for a missing, linked, over 16 MiB or broken one."""
    if not bundle.startswith("/") or "\0" in bundle:
        raise CgpuError(f"bundle {show(bundle)}: expected an absolute path")
    path = bundle.rstrip("/") + "/config.json"
    try:
        raw = read_bounded(path, MAX_SPEC)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise CgpuError(
            f"{show(path)}: cannot be read ({reason}); expected a plain file up to 16 MiB"
        ) from error
    try:
        document = loads(raw, UniqueContext)
    except ValueError as error:
        raise CgpuError(f"{show(path)}: is not JSON ({error}); expected an OCI specification") from error
    if not isinstance(document, dict):
        raise CgpuError(f"{show(path)}: {show(document)}: expected a JSON object")
    check_spelling(document, MEMBERS)
    process = document.get("process")
    if isinstance(process, dict):
        check_spelling(process, ("env",))
    return document
