"""The certificates of an API server: made once, kept, and renewed in time.

A directory holds one certificate authority and the server's certificate. `ensure` may be called at
every start: it reuses what is there, issues a new server certificate where the old one is about to
expire or lacks a name, and never replaces the authority, because every client trusts it. A damaged
file is an error that names it and the way out; nothing is repaired by guessing.

A key is written before its certificate. An interrupted first run therefore leaves a key alone,
on which no client relies yet, and the next run starts over.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubebasics import certificates
from kubebasics.certificates import Key, key_pem, new_key, pem, subject
from kubebasics.files import write_atomically

CA_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)

SERVER_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
)


_REMEDY = (
    "remove this directory and start again; a new certificate authority is then made, "
    "and clients need the new kubeconfig"
)
_REMEDY_SERVER = "remove server.crt in this directory and start again; a new one is then issued"


class PkiError(Exception):
    """A certificate or key on disk cannot be used; the text says which and what to do."""


class Pki(msgspec.Struct, frozen=True):
    """The authority of one server, and what it has issued."""

    directory: str
    ca: x509.Certificate
    ca_key: Key

    @property
    def ca_pem(self) -> bytes:
        return pem(self.ca)

    @property
    def server_cert(self) -> str:
        return os.path.join(self.directory, "server.crt")

    @property
    def server_key(self) -> str:
        return os.path.join(self.directory, "server.key")

    def client(self, user: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """Issue a client certificate: (certificate, key), both PEM."""
        key = new_key()
        certificate = certificates.issued(
            self.ca,
            self.ca_key,
            subject(user, groups),
            key,
            usage=certificates.CLIENT,
            now=datetime.now(UTC),
            life=LEAF_LIFE,
        )
        return pem(certificate), key_pem(key)

    def ssl_context(self) -> ssl.SSLContext:
        """For the server: a client may present a certificate, and then it must be ours."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server_cert, self.server_key)
        context.load_verify_locations(cadata=self.ca_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context


def ensure(directory: str, host_names: Sequence[str] = (), *, now: datetime | None = None) -> Pki:
    """Make or load the authority and the server's certificate in a directory."""
    at = now or datetime.now(UTC)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    pki = _authority(directory, at)
    names = (*SERVER_NAMES, *(name for name in host_names if name not in SERVER_NAMES))
    if not _still_good(pki, names, at):
        key = new_key()
        certificate = certificates.issued(
            pki.ca,
            pki.ca_key,
            subject("kapilite"),
            key,
            usage=certificates.SERVER,
            names=names,
            now=at,
            life=LEAF_LIFE,
        )
        # The pair is replaced in two steps. A crash between them leaves a key without its
        # certificate; the certificate is removed first, so that the next run issues a new pair.
        if os.path.exists(pki.server_cert):
            os.unlink(pki.server_cert)
        write_atomically(pki.server_key, key_pem(key))
        write_atomically(pki.server_cert, pem(certificate), 0o644)
    return pki


def _authority(directory: str, now: datetime) -> Pki:
    cert_path = os.path.join(directory, "ca.crt")
    key_path = os.path.join(directory, "ca.key")
    if not os.path.exists(cert_path):
        key = new_key()
        certificate = certificates.authority(subject("kapilite-ca"), key, now, CA_LIFE)
        write_atomically(key_path, key_pem(key))
        write_atomically(cert_path, pem(certificate), 0o644)
    certificate, key = _pair(cert_path, key_path, _REMEDY)
    if certificate.not_valid_after_utc <= now + RENEW_BEFORE:
        raise PkiError(f"{cert_path} expires {certificate.not_valid_after_utc:%Y-%m-%d}: {_REMEDY}")
    return Pki(directory, certificate, key)


def _still_good(pki: Pki, names: Sequence[str], now: datetime) -> bool:
    if not os.path.exists(pki.server_cert):
        return False
    certificate, _ = _pair(pki.server_cert, pki.server_key, _REMEDY_SERVER)
    try:
        certificate.verify_directly_issued_by(pki.ca)
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound) as error:
        raise PkiError(
            f"{pki.server_cert} was not issued by this authority: {_REMEDY_SERVER}"
        ) from error
    return (
        certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEW_BEFORE
        and {certificates.general_name(name) for name in names} <= set(held)
    )


def _pair(cert_path: str, key_path: str, remedy: str) -> tuple[x509.Certificate, Key]:
    try:
        certificate = x509.load_pem_x509_certificate(_read(cert_path, remedy))
    except ValueError as error:
        raise PkiError(f"{cert_path} is not a certificate: {remedy}") from error
    try:
        key = serialization.load_pem_private_key(_read(key_path, remedy), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PkiError(f"{key_path} is not a private key: {remedy}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or (
        key.public_key() != certificate.public_key()
    ):
        raise PkiError(f"{key_path} does not belong to {cert_path}: {remedy}")
    return certificate, key


def _read(path: str, remedy: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise PkiError(f"{path} is missing: {remedy}") from None
    except OSError as error:
        raise PkiError(f"{path} cannot be read: {error.strerror}") from None
