# SPDX-License-Identifier: Apache-2.0
"""Runs scripts/kubernetes/in-cluster for what needs its namespaces and no program of a cluster."""

from __future__ import annotations

import subprocess

from tests.integration.images import ROOT

NOWHERE = "/nowhere"  # programs and logs


def run_in_cluster(*command: str) -> None:
    """Run a command where a cluster could live, and wait for it. Raises CalledProcessError when it fails."""
    words = ["scripts/kubernetes/in-cluster", NOWHERE, "1.36", NOWHERE, *command]
    subprocess.run(words, cwd=ROOT, check=True, timeout=60)
