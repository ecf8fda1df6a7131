# SPDX-License-Identifier: Apache-2.0
"""`cgpu kubernetes templates`: remove unused templates of admission."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from datetime import timedelta

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError

from cgpu.arguments import Parser
from cgpu.errors import CgpuError, one_line, show
from cgpu.kubernetes.admission.templates import LEAST_UNUSED, MOST, Templates
from cgpu.kubernetes.cluster import configuration, http_client

HOURS = 24.0
LEAST_HOURS = LEAST_UNUSED / timedelta(hours=1)
MOST_HOURS = 87600.0
LEAST_MOST, MOST_MOST = 64, 10000


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = Parser(
        prog="cgpu kubernetes templates",
        description="Remove the ResourceClaimTemplates of admission that no pod has named for a while.",
    )
    found.add_argument(
        "--hours",
        type=_hours,
        default=HOURS,
        metavar="N",
        help="how long nobody has used them, 2 or more (24)",
    )
    add_most(found)
    found.add_argument("--dry-run", action="store_true", help="only list them")
    found.add_argument("--kubeconfig", metavar="FILE", help="by default the service account of the pod")
    return found


def add_most(found: argparse.ArgumentParser) -> None:
    """Add the option that admission and this command have to be told alike."""
    found.add_argument(
        "--most",
        type=_most,
        default=MOST,
        metavar="N",
        help=f"templates of a namespace ({MOST}); beyond half of them unused ones go after two hours",
    )


def _most(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not LEAST_MOST <= int(text[:9]) <= MOST_MOST:
        raise argparse.ArgumentTypeError(
            f"{show(text)}: expected {LEAST_MOST} to {MOST_MOST}: a pod alone may need {LEAST_MOST}"
        )
    return int(text)


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not LEAST_HOURS <= hours <= MOST_HOURS:
        raise argparse.ArgumentTypeError(
            f"{show(text)}: expected {LEAST_HOURS:g} to {MOST_HOURS:g}: a template that a pod was given in "
            "the last hour may look unused"
        )
    return hours


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: print each template that goes; 1 after one line of error."""
    options = parser().parse_args(arguments)
    try:
        chosen = configuration(options.kubeconfig)
        templates = Templates(Client(config=chosen), http_client(chosen), most=options.most)
        for name in templates.collect(timedelta(hours=options.hours), dry_run=options.dry_run):
            print(name)
    except (CgpuError, ApiError, httpx2.HTTPError) as error:
        print(f"cgpu kubernetes templates: {one_line(str(error))}", file=sys.stderr)
        return 1
    return 0
