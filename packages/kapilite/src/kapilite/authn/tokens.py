"""The tokens of service accounts: issued for a time and an audience, worth what the store says.

A token names the service account, with its uid, and may be bound to a Pod or a Secret. The
signature says that we issued it; it counts only as long as all of these still exist. So deleting
the service account, or what the token is bound to, takes it back at once, and an account made again
under the same name does not inherit it.

Tokens of the older kind, which live in a Secret and do not expire, count as long as that Secret
holds them. Claims and names are those of Kubernetes. A token is never part of an error text.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt
import msgspec

from kapilite.authn.keys import ALGORITHM
from kapilite.authn.users import User, service_account_groups, service_account_name
from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapilite.authn.keys import SigningKey
    from kapilite.storage.store import Store

ISSUER = "https://kubernetes.default.svc"
LEGACY_ISSUER = "kubernetes/serviceaccount"
DELETION_LEEWAY = 60.0
"""Seconds after its deletionTimestamp for which an object that still exists holds a token up."""

_EXTRA = "authentication.kubernetes.io/"
_LEGACY = "kubernetes.io/serviceaccount/"
_SIZE_LIMIT = 16 * 1024


class InvalidToken(Exception):  # noqa: N818 - what it is
    """The token has no user. The text says why where it is one of ours, and never what it is."""


class Bound(msgspec.Struct, frozen=True):
    """An object that a token lives and dies with."""

    name: str
    uid: str


class _Claims(msgspec.Struct):
    namespace: str
    serviceaccount: Bound
    pod: Bound | None = None
    secret: Bound | None = None
    node: Bound | None = None


class _Payload(msgspec.Struct):
    sub: str
    aud: list[str]
    exp: float
    kubernetes: _Claims = msgspec.field(name="kubernetes.io")
    jti: str = ""


class _LegacyPayload(msgspec.Struct):
    sub: str
    namespace: str = msgspec.field(name=_LEGACY + "namespace")
    secret: str = msgspec.field(name=_LEGACY + "secret.name")
    name: str = msgspec.field(name=_LEGACY + "service-account.name")
    uid: str = msgspec.field(name=_LEGACY + "service-account.uid")


class Verified(NamedTuple):
    """The user that a token identifies, and the requested audiences that it is for."""

    user: User
    audiences: tuple[str, ...]


class ServiceAccountTokens:
    """Issues and verifies tokens with one key, against one store."""

    def __init__(self, store: Store, key: SigningKey) -> None:
        self._store = store
        self._key = key
        self._public = key.private.public_key()

    @property
    def key(self) -> SigningKey:
        return self._key

    def issue(
        self,
        account: dict[str, Any],
        *,
        seconds: int,
        audiences: Sequence[str] = (ISSUER,),
        bound: Mapping[str, Bound] | None = None,
    ) -> str:
        """A token for a ServiceAccount object; `bound` is by role: `pod`, `secret`, `node`."""
        meta = account["metadata"]
        now = int(time.time())
        references = {"serviceaccount": Bound(meta["name"], meta["uid"]), **(bound or {})}
        return self._signed(
            {
                "aud": list(audiences),
                "exp": now + seconds,
                "iat": now,
                "iss": ISSUER,
                "jti": str(uuid.uuid4()),
                "kubernetes.io": {"namespace": meta["namespace"]}
                | {role: msgspec.to_builtins(about) for role, about in references.items()},
                "nbf": now,
                "sub": service_account_name(meta["namespace"], meta["name"]),
            }
        )

    def issue_for_secret(self, account: dict[str, Any], secret: dict[str, Any]) -> str:
        """The token of the older kind that a Secret holds; it never expires."""
        meta = account["metadata"]
        return self._signed(
            {
                "iss": LEGACY_ISSUER,
                "sub": service_account_name(meta["namespace"], meta["name"]),
                f"{_LEGACY}namespace": meta["namespace"],
                f"{_LEGACY}secret.name": secret["metadata"]["name"],
                f"{_LEGACY}service-account.name": meta["name"],
                f"{_LEGACY}service-account.uid": meta["uid"],
            }
        )

    def verify(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Verified:
        """The user that a token identifies to one of these audiences. Raises InvalidToken."""
        claims = self._claims(token)
        try:
            if claims.get("iss") == ISSUER:
                return self._bound_user(msgspec.convert(claims, _Payload), audiences)
            if claims.get("iss") == LEGACY_ISSUER:
                return self._secret_user(msgspec.convert(claims, _LegacyPayload), token, audiences)
        except msgspec.ValidationError as error:
            raise InvalidToken("the claims of the token are not those of this server") from error
        raise InvalidToken

    def _signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode(
            claims,
            self._key.private,
            algorithm=ALGORITHM,
            headers={"kid": self._key.key_id},
        )

    def _claims(self, token: str) -> dict[str, Any]:
        """What was signed, once signature and times are found good."""
        if len(token) > _SIZE_LIMIT or not token.isascii():
            raise InvalidToken
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._public,
                algorithms=[ALGORITHM],
                # Which of our two forms it is, and so who it is for, follows from what it says.
                options={"verify_aud": False, "verify_iss": False},
            )
        except jwt.ExpiredSignatureError:
            raise InvalidToken("service account token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise InvalidToken from None
        return claims

    def _bound_user(self, payload: _Payload, audiences: Sequence[str]) -> Verified:
        fitting = tuple(name for name in audiences if name in payload.aud)
        if not fitting:
            raise _wrong_audience(payload.aud, audiences)
        bound = payload.kubernetes
        self._account(payload.sub, bound.namespace, bound.serviceaccount)
        extra: dict[str, tuple[str, ...]] = {}
        if payload.jti:
            extra[f"{_EXTRA}credential-id"] = (f"JTI={payload.jti}",)
        if bound.secret:
            self._live("secrets", bound.namespace, bound.secret)
        for role, about in (("node", bound.node), ("pod", bound.pod)):
            if about is not None:
                extra[f"{_EXTRA}{role}-name"] = (about.name,)
                extra[f"{_EXTRA}{role}-uid"] = (about.uid,)
        if bound.pod:
            self._live("pods", bound.namespace, bound.pod)
        elif bound.node:
            # That of a pod's token only says where the pod runs.
            self._live("nodes", "", bound.node)
        return Verified(
            _user(bound.namespace, bound.serviceaccount, extra),
            fitting,
        )

    def _secret_user(
        self, payload: _LegacyPayload, token: str, audiences: Sequence[str]
    ) -> Verified:
        if ISSUER not in audiences:
            raise _wrong_audience([ISSUER], audiences)
        about = Bound(payload.name, payload.uid)
        self._account(payload.sub, payload.namespace, about)
        stored = self._store.get(Key("secrets", payload.namespace, payload.secret))
        secret = as_object(stored.body) if stored else {}
        held = (secret.get("data") or {}).get("token") or ""
        try:
            same = hmac.compare_digest(base64.b64decode(held), token.encode())
        except (binascii.Error, ValueError, TypeError):
            same = False
        if not same or _is_deleted(secret):
            raise InvalidToken("the secret no longer holds this token")
        return Verified(_user(payload.namespace, about, {}), (ISSUER,))

    def _account(self, subject: str, namespace: str, about: Bound) -> None:
        if subject != service_account_name(namespace, about.name):
            raise InvalidToken("the subject of the token is not its service account")
        self._live("serviceaccounts", namespace, about)

    def _live(self, resource: str, namespace: str, about: Bound) -> None:
        stored = self._store.get(Key(resource, namespace, about.name))
        found = as_object(stored.body) if stored else {"metadata": {}}
        if found["metadata"].get("uid") != about.uid or not about.uid or _is_deleted(found):
            raise InvalidToken(f"the token is of something in {resource} that no longer exists")


def _wrong_audience(held: Sequence[str], wanted: Sequence[str]) -> InvalidToken:
    shown = [" ".join(f'"{name}"' for name in names) for names in (held, wanted)]
    return InvalidToken(
        f"token audiences [{shown[0]}] is invalid for the target audiences [{shown[1]}]"
    )


def _user(namespace: str, about: Bound, extra: dict[str, tuple[str, ...]]) -> User:
    name = service_account_name(namespace, about.name)
    return User(name, service_account_groups(namespace), about.uid, extra)


def _is_deleted(obj: dict[str, Any]) -> bool:
    """Whether an object, which may still have finalizers, has been deleted for a while."""
    when = obj["metadata"].get("deletionTimestamp")
    if when is None:
        return False
    try:
        return datetime.fromisoformat(when).timestamp() < time.time() - DELETION_LEEWAY
    except (ValueError, TypeError, OverflowError):
        return True
