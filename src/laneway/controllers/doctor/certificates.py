"""Whether the webhook's certificate is good, and whether the API server can trust it."""

from __future__ import annotations

import base64
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from laneway.controllers.doctor.objects import SecretObject
from laneway.core.doctor.cluster_facts import Certificate, Trust

_LEAF = "tls.crt"
_DAY = 86400.0


def leaf_of(secret: SecretObject) -> x509.Certificate | None:
    """The certificate in a Secret; None where there is none that can be read."""
    found = _read(secret.data.get(_LEAF, ""))
    return found[0] if found else None


def judged(secret: SecretObject, leaf: x509.Certificate, now: datetime) -> Certificate:
    """How long it is good."""
    meta = secret.metadata
    return Certificate(
        secret=f"Secret {meta.namespace}/{meta.name}",
        expires=leaf.not_valid_after_utc.strftime("%Y-%m-%d %H:%M UTC"),
        days=(leaf.not_valid_after_utc - now).total_seconds() / _DAY,
    )


def trust(bundle: str, leaf: x509.Certificate | None) -> Trust:
    """Whether a CA bundle of a webhook configuration has who issued the certificate."""
    if not bundle:
        return "missing"
    authorities = _read(bundle)
    if not authorities:
        return "other"
    if leaf is None:
        return "unknown"
    return "fits" if any(_issued(leaf, one) for one in authorities) else "other"


def _issued(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _read(encoded: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(encoded, validate=True))
    except ValueError:
        return []
