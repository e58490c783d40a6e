"""Who is asking: a client certificate signed by our CA, or a bearer token.

`Authenticator` recognises users, `ServiceAccountTokens` makes and checks the tokens of service
accounts. What a user may do is decided in `authorization`.
"""

from __future__ import annotations

from kapilite.authn.authenticator import USER, Authenticator
from kapilite.authn.keys import SigningKey
from kapilite.authn.tokens import InvalidToken, ServiceAccountTokens
from kapilite.authn.users import ANONYMOUS, SYSTEM, User

__all__ = [
    "ANONYMOUS",
    "SYSTEM",
    "USER",
    "Authenticator",
    "InvalidToken",
    "ServiceAccountTokens",
    "SigningKey",
    "User",
]
