"""Makes authorities, and certificates that they issue. Pure but for the keys, which are drawn.

Certificates are valid from a day ago, so that clocks which disagree a little lock no client out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(days=1)

SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH

Key = ec.EllipticCurvePrivateKey


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def subject(name: str, organizations: Sequence[str] = ()) -> x509.Name:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    return x509.Name(names)


def authority(name: x509.Name, key: Key, now: datetime, life: timedelta) -> x509.Certificate:
    """One that signs itself, and servers and clients, but no further authorities."""
    return (
        _builder(name, name, key, now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def issued(
    by: x509.Certificate,
    by_key: Key,
    name: x509.Name,
    key: Key,
    *,
    usage: x509.ObjectIdentifier,
    names: Sequence[str] = (),
    now: datetime,
    life: timedelta,
) -> x509.Certificate:
    """A certificate for a key; `names` are host names and addresses."""
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(by_key.public_key())
    builder = (
        _builder(name, by.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    if names:
        general = [general_name(name) for name in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(general), critical=False)
    return builder.sign(by_key, hashes.SHA256())


def general_name(name: str) -> x509.GeneralName:
    """A host name or an address, as certificates hold it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _builder(
    name: x509.Name, issuer: x509.Name, key: Key, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
