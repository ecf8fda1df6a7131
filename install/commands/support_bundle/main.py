# SPDX-License-Identifier: Apache-2.0
"""cgpu support-bundle: arguments, and the only place that prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cgpu.arguments import Parser
from cgpu.errors import CgpuError
from cgpu.install.commands.support_bundle.gather import gather, manifest
from cgpu.install.commands.support_bundle.pack import pack
from cgpu.install.node.report import look


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    out = Parser(
        prog="cgpu support-bundle",
        description="Pack what support needs to see of this node: no secrets, no environment values.",
    )
    out.add_argument("--output", type=Path, metavar="FILE", help="default: cgpu-support-TIME.tar.gz, here")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0, or 1 after one line of error."""
    options = parser().parse_args(arguments)
    now = datetime.now(UTC)
    path = options.output or Path(f"cgpu-support-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    try:
        if os.geteuid() != 0:
            raise CgpuError("only root reaches what is to be packed: sudo cgpu support-bundle")
        members = list(gather(look()))
        names = [name for name, _ in members]
        packed = pack(path, [("manifest.json", manifest(names, now.isoformat())), *members], now.timestamp())
    except CgpuError as error:
        print(f"cgpu support-bundle: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {len(packed)} files; look into it before you pass it on: tar -xzf {path}")
    return 0
