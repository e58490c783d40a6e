"""What the Secret of a server's certificate holds, read without trusting it.

`tls.crt`, `tls.key`: the pair that is served. `ca.crt`: everybody whom clients are to trust now.
`next.crt`, `next.key`: the pair that follows. Anything of it may be missing, damaged, or made by
another program (cert-manager writes the first three as well). The key of an authority is in none of
them: it is drawn for one certificate, and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from kubebasics import certificates

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"

_CURRENT = (CERTIFICATE, KEY)
_NEXT = (NEXT_CERTIFICATE, NEXT_KEY)

_DAMAGED = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What there may be about a certificate or a key that Laneway has not made."""

Authorities = tuple[x509.Certificate, ...]


@dataclass(frozen=True)
class Pair:
    """A certificate that can be served, with its key."""

    certificate: x509.Certificate
    certificate_pem: bytes = field(repr=False)
    """With those that lead to its authority."""
    key_pem: bytes = field(repr=False)
    authority: x509.Certificate
    """Whom clients must trust to accept it."""


class UnusableError(Exception):
    """There is no pair that can be served. The text says why; it is empty where there is none."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused
        """Whether clients refuse it for sure, however long it has been served."""


@dataclass(frozen=True)
class Held:
    """What there is of use."""

    current: Pair | UnusableError
    next: Pair | None
    authorities: Authorities
    """Those of `ca.crt`, but for the expired."""


def read(
    data: Mapping[str, bytes], names: Sequence[str], now: datetime, trusted: Authorities = ()
) -> Held:
    """What the Secret holds, for a server of these names.

    `trusted` stand for `ca.crt` where that is of no use.
    """
    authorities = parsed(data.get(AUTHORITIES, b""), now) or trusted
    try:
        following = _pair(data, _NEXT, names, authorities, now)
    except UnusableError:
        following = None  # It was never served, so whatever is wrong with it, another is as good.
    try:
        current = _pair(data, _CURRENT, names, authorities, now)
    except UnusableError as error:
        return Held(error, following, authorities)
    return Held(current, following, authorities)


def parsed(pem: bytes, now: datetime) -> Authorities:
    """The certificates in a bundle that have not expired, each once; none where it is damaged."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except _DAMAGED:
        return ()
    return tuple(dict.fromkeys(one for one in found if now < one.not_valid_after_utc))


def bundle(authorities: Iterable[x509.Certificate]) -> bytes:
    """The authorities as one text."""
    return b"".join(certificates.pem(one) for one in authorities)


def _pair(
    data: Mapping[str, bytes],
    files: tuple[str, str],
    names: Sequence[str],
    authorities: Authorities,
    now: datetime,
) -> Pair:
    certificate_name, key_name = files
    certificate_pem, key_pem = data.get(certificate_name, b""), data.get(key_name, b"")
    if not certificate_pem and not key_pem:
        raise UnusableError("")
    try:
        chain = x509.load_pem_x509_certificates(certificate_pem)
        certificate, public_key = chain[0], chain[0].public_key()
    except _DAMAGED:
        raise UnusableError(f"{certificate_name} holds no certificate") from None
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except _DAMAGED:
        raise UnusableError(f"{key_name} holds no key") from None
    if key.public_key() != public_key:
        raise UnusableError(f"{key_name} is not the key of {certificate_name}")
    _check_times(certificate, certificate_name, now)
    _check_names(certificate, certificate_name, names)
    for issued, issuer in pairwise(chain):
        if not _is_issued_by(issued, issuer):
            raise UnusableError(
                f"{certificate_name} holds certificates that do not belong together"
            )
    authority = next((one for one in authorities if _is_issued_by(chain[-1], one)), None)
    if authority is None:
        raise UnusableError(f"no authority in {AUTHORITIES} has issued {certificate_name}")
    return Pair(certificate, certificate_pem, key_pem, authority)


def _check_times(certificate: x509.Certificate, name: str, now: datetime) -> None:
    expiry = certificate.not_valid_after_utc
    if expiry <= now:
        raise UnusableError(f"{name} expired at {expiry:%Y-%m-%d %H:%M} UTC", refused=True)
    if certificate.not_valid_before_utc > now:
        # Either its maker had a wrong clock, or this one is behind, as that of a node that
        # has just booted may be: clients may well accept what is served.
        raise UnusableError(f"{name} is not valid yet")


def _check_names(certificate: x509.Certificate, name: str, names: Sequence[str]) -> None:
    try:
        held = set(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except _DAMAGED:
        held = set()
    missing = [one for one in names if certificates.general_name(one) not in held]
    if missing:
        raise UnusableError(f"{name} is not for {', '.join(missing)}", refused=True)


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except _DAMAGED:
        return False
    return True
