"""Who a token is, by the word of the API server.

The client of a user has the role's way to the cluster and nothing of the role's own credentials.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import msgspec

from laneway.api import ObjectMeta
from laneway.core.tracing import Tracer
from laneway.kube.auth import Credentials
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig, User
from laneway.kube.errors import (
    ApiError,
    CredentialsError,
    KubeError,
    UnauthorizedError,
    is_outage,
)
from laneway.kube.resource import Resource
from laneway.web.tracing import client_of

TOKEN_BYTES = 64 << 10
_ANONYMOUS = "system:anonymous"
_SECONDS = 20.0

T = TypeVar("T")


class Problem(NamedTuple):
    """Why there is no session: the id of a text, and the values that it names."""

    id: str
    values: Mapping[str, object] = {}
    status: int = 422


class RefusedError(Exception):
    """A sign-in that is refused."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.id)
        self.problem = problem


class Person(NamedTuple):
    """Who the API server says that a user is."""

    name: str
    groups: tuple[str, ...] = ()


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    user_info: _UserInfo = msgspec.field(name="userInfo", default=_UserInfo())


class SelfSubjectReview(msgspec.Struct, frozen=True):
    """The answer, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", False, SelfSubjectReview)


class _Claims(msgspec.Struct):
    exp: float | None = None


def client_for(
    config: ClusterConfig,
    token: str,
    credentials: Credentials | None = None,
    tracer: Tracer | None = None,
) -> Client:
    """The user's own client: with the token, or with credentials that renew it.

    `tracer`: what takes the spans of its writes.
    """
    theirs = replace(config, user=User(token=token), source="the user's token")
    return client_of(
        theirs, tracer, credentials=credentials, user_agent="laneway-ui", request_seconds=_SECONDS
    )


def pasted(text: str) -> str:
    """The token in what a user pasted. Raises RefusedError for what cannot be one."""
    token = "".join(text.split())
    if not token:
        raise RefusedError(Problem("token_missing"))
    if len(token) > TOKEN_BYTES or not (token.isascii() and token.isprintable()):
        raise RefusedError(Problem("token_malformed"))
    return token


async def person_of(client: Client, token: str, now: float) -> Person:
    """The user that the API server recognises. Raises RefusedError."""
    try:
        found = await _review(client.unwaiting())
    except UnauthorizedError:
        ends = expiry(token)
        is_past = ends is not None and ends <= now
        raise RefusedError(Problem("token_expired" if is_past else "token_refused")) from None
    except CredentialsError:
        raise RefusedError(Problem("token_malformed")) from None
    except KubeError as error:
        if isinstance(error, ApiError) and not is_outage(error):
            raise RefusedError(Problem("not_recognised", {"why": error.message})) from None
        raise RefusedError(Problem("server_away", {"why": str(error)}, 503)) from None
    if not found.username or found.username == _ANONYMOUS:
        raise RefusedError(Problem("token_refused"))
    return Person(found.username, found.groups)


async def name_of(client: Client) -> str:
    """The name that an API server has for the user of a client. Raises KubeError."""
    found = await _review(client)
    if found.username in ("", _ANONYMOUS):
        raise UnauthorizedError(401, "Unauthorized", "the credentials are of no user")
    return found.username


async def _review(client: Client) -> _UserInfo:
    body = {"apiVersion": REVIEWS.api_version, "kind": "SelfSubjectReview"}
    return (await client.create(REVIEWS, body)).status.user_info


def expiry(token: str) -> float | None:
    """When a token says that it ends (seconds since the epoch), if it is one that says so."""
    try:
        return claims_of(token, _Claims).exp
    except ValueError:
        return None


def claims_of(token: str, form: type[T]) -> T:
    """What a signed token says; the API server judges whether it is true. Raises ValueError."""
    try:
        payload = token.split(".")[1]
        text = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(text, type=form)
    except (IndexError, binascii.Error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError("not a signed token") from error
