# SPDX-License-Identifier: Apache-2.0
"""Certificates of servers and clients on this machine, each of which is its own authority."""

from __future__ import annotations

from pathlib import Path

from tests.integration.commands import must

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def make(folder: Path, name: str = "tls") -> bytes:
    """Write NAME.crt and NAME.key into a folder; return the certificate in PEM."""
    certificate = folder / f"{name}.crt"
    says = ("-days", "1", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")
    must(["openssl", "req", "-x509", *KEY, *says, "-keyout", folder / f"{name}.key", "-out", certificate])
    return certificate.read_bytes()
