# SPDX-License-Identifier: Apache-2.0
"""The certificate of the webhook: made by itself, kept in a Secret that all replicas share, renewed in time.

The authority lives for ten years and signs nothing else. Its key is in the same Secret: a user who may read
that could as well change the webhook.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cgpu.errors import CgpuError

AUTHORITY = timedelta(days=3650)
LIFE = timedelta(days=90)
RENEW_BEFORE = timedelta(days=30)
EARLIER = timedelta(hours=1)  # clocks of nodes differ
KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class Certificate:
    """All in PEM."""

    ca_crt: bytes
    ca_key: bytes
    tls_crt: bytes
    tls_key: bytes

    def to_data(self) -> dict[str, bytes]:
        """Return it as the entries of a Secret."""
        return dict(zip(KEYS, (self.ca_crt, self.ca_key, self.tls_crt, self.tls_key), strict=True))

    @classmethod
    def from_data(cls, data: Mapping[str, bytes]) -> Certificate:
        """Read the entries of a Secret. Raises CgpuError when one is missing."""
        missing = [key for key in KEYS if not data.get(key)]
        if missing:
            raise CgpuError(f"Secret: {missing[0]} is missing; remove the Secret, and it is made anew")
        return cls(*(data[key] for key in KEYS))

    def is_due(self, now: datetime) -> bool:
        """Tell whether it has to be renewed."""
        return now > x509.load_pem_x509_certificate(self.tls_crt).not_valid_after_utc - RENEW_BEFORE


def make(names: Sequence[str], now: datetime) -> Certificate:
    """Make an authority and a certificate for a server of these names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpenCGPU admission authority")])
    authority = (
        _builder(name, name, key.public_key(), now, AUTHORITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _sign(names, now, authority, key)


def renew(old: Certificate, names: Sequence[str], now: datetime) -> Certificate:
    """Make a new certificate by the same authority; a new authority where that is about to end."""
    authority = x509.load_pem_x509_certificate(old.ca_crt)
    key = serialization.load_pem_private_key(old.ca_key, None)
    if now + LIFE > authority.not_valid_after_utc or not isinstance(key, ec.EllipticCurvePrivateKey):
        return make(names, now)
    return _sign(names, now, authority, key)


def bundle(authority: bytes, before: bytes, now: datetime) -> bytes:
    """Return the API server's trusted certificates: an authority, and the former, for replicas that have it.

    before: its trusted certificates now; other text is dropped.
    """
    try:
        trusted = x509.load_pem_x509_certificates(before) if before else []
    except ValueError:
        trusted = []
    own = x509.load_pem_x509_certificate(authority)
    older = [
        one for one in trusted if one != own and now < one.not_valid_after_utc and one.subject == own.subject
    ]
    return authority + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in older[:1])


def _sign(
    names: Sequence[str],
    now: datetime,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        _builder(subject, authority.subject, key.public_key(), now, LIFE)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Certificate(
        authority.public_bytes(serialization.Encoding.PEM),
        _pem(authority_key),
        certificate.public_bytes(serialization.Encoding.PEM),
        _pem(key),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + life)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
