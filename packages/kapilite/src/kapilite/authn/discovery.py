"""What others need to check the tokens of service accounts by themselves (OpenID Connect)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite.authn.keys import ALGORITHM
from kapilite.authn.tokens import ISSUER

if TYPE_CHECKING:
    from kapilite.authn.keys import SigningKey

CONFIGURATION_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"
KEYS_MEDIA_TYPE = "application/jwk-set+json"


def configuration(server_url: str) -> dict[str, Any]:
    """The document at `CONFIGURATION_PATH` of the server that clients reach at `server_url`."""
    return {
        "issuer": ISSUER,
        "jwks_uri": f"{server_url}{KEYS_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }


def key_set(key: SigningKey) -> dict[str, Any]:
    """The document at `KEYS_PATH`, of media type `KEYS_MEDIA_TYPE`."""
    return {"keys": [key.as_jwk()]}
