"""The key that signs the tokens of service accounts: made once and kept.

Every token that is out depends on it, so `ensure` reuses what is there, and a damaged file is an
error that names it and the way out. The file appears whole and for its owner only.

Tokens are signed with ES256: its keys are made in no time and its tokens are short. The key id is
derived from the public key, as Kubernetes does it.
"""

from __future__ import annotations

import base64
import hashlib

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kapilite.credentials.pki import PkiError
from kubebasics.files import write_atomically

ALGORITHM = "ES256"
_COORDINATE = 32  # bytes, of the curve P-256


class SigningKey(msgspec.Struct, frozen=True):
    """A key pair of the curve P-256 and its id."""

    private: ec.EllipticCurvePrivateKey
    key_id: str

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id})"

    def as_jwk(self) -> dict[str, str]:
        """The public half as a JSON Web Key."""
        numbers = self.private.public_key().public_numbers()
        return {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _base64(numbers.x.to_bytes(_COORDINATE)),
            "y": _base64(numbers.y.to_bytes(_COORDINATE)),
        }


def ensure(path: str) -> SigningKey:
    """Make or load the key in a file. Raises PkiError where the file is of no use."""
    try:
        with open(path, "rb") as file:
            pem = file.read()
    except FileNotFoundError:
        return _make(path)
    except OSError as error:
        raise PkiError(f"{path} cannot be read: {error.strerror}") from None
    remedy = (
        "remove it and start again; a new key is then made, and service accounts need new tokens"
    )
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise PkiError(f"{path} is not a private key: {remedy}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PkiError(f"{path} is not a key of the curve P-256: {remedy}")
    return _with_id(key)


def generate() -> SigningKey:
    """A key that lasts as long as the process."""
    return _with_id(ec.generate_private_key(ec.SECP256R1()))


def _make(path: str) -> SigningKey:
    made = generate()
    pem = made.private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_atomically(path, pem)
    return made


def _with_id(key: ec.EllipticCurvePrivateKey) -> SigningKey:
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return SigningKey(key, _base64(hashlib.sha256(public).digest()))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
