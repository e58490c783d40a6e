"""Every way in which a cluster can fail us, as one family of exceptions.

Callers catch `KubeError`, or the kind they can do something about. Each text is one line, made for
a person, and free of credentials: no header, token or URL with user information reaches it.
"""

from __future__ import annotations

import msgspec


class KubeError(Exception):
    """Anything that went wrong between us and the API server."""


class ConfigError(KubeError):
    """The cluster or our credentials are not described well enough to connect."""


class CredentialsError(ConfigError):
    """Credentials that have to be fetched (a token file, an exec plugin) could not be."""


class UnreachableError(KubeError):
    """No complete answer: refused, reset, cut off, or nothing within the time limit."""


class CutOffError(UnreachableError):
    """An answer had begun, and then the connection broke or fell silent."""


class UndecodableError(KubeError):
    """The server answered something that is not what was requested."""


class Cause(msgspec.Struct, frozen=True):
    """One reason of a refusal, usually one field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class ApiError(KubeError):
    """The server refused; made from its `Status`."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        """`retry_after`: the server's word on when to come back, in seconds."""
        super().__init__(f"{message or 'no message'} ({code} {reason or 'no reason'})")
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = None if retry_after is None else min(retry_after, _MAX_RETRY_AFTER)


class BadRequestError(ApiError):
    """400: the server does not understand the request, such as a selector of a newer release."""


class UnauthorizedError(ApiError):
    """401: the server does not accept who we say we are."""


class ForbiddenError(ApiError):
    """403: we are known, and may not."""


class NotFoundError(ApiError):
    """404: no such object or no such kind."""


class ConflictError(ApiError):
    """409: the object has changed since we read it."""


class AlreadyExistsError(ApiError):
    """409: the name is taken."""


class GoneError(ApiError):
    """410: the server no longer holds the history that was requested."""


class InvalidError(ApiError):
    """422: the object breaks its schema or was refused by validation."""


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Conflict": ConflictError,
    "Expired": GoneError,
    "Gone": GoneError,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
}


class _Details(msgspec.Struct):
    causes: list[Cause] | None = None
    retry_after_seconds: int | None = msgspec.field(name="retryAfterSeconds", default=None)


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode
_PLAIN_TEXT_LIMIT = 300
_MAX_RETRY_AFTER = 300.0
"""A server that says more is not believed: Kubernetes itself says 32 s at most."""


def is_outage(error: KubeError) -> bool:
    """Whether a failure is the server's, or of something between us, and not of what was asked."""
    if isinstance(error, ApiError):
        return error.code >= 500 or error.code == 429
    return isinstance(error, UnreachableError)


def pause_after(error: Exception, seconds: float) -> float:
    """How long to wait before the next attempt: so long, or as long as the server says."""
    said = error.retry_after if isinstance(error, ApiError) else None
    return max(seconds, said or 0.0)


def from_status(
    body: bytes | msgspec.Raw, code: int = 0, retry_after: float | None = None
) -> ApiError:
    """The exception for a `Status`, or for whatever a proxy answered in its place.

    `retry_after`: what the header of that name says, which counts more than the `Status`.
    """
    try:
        status = _decode_status(body)
        message = _one_line(status.message or "")
    except (msgspec.DecodeError, RecursionError):
        status = _Status()
        message = _one_line(bytes(body).decode("utf-8", "replace"))[:_PLAIN_TEXT_LIMIT]
    code = status.code or code
    reason = status.reason or ""
    details = status.details or _Details()
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
    if retry_after is None:
        retry_after = details.retry_after_seconds or None
    causes = tuple(details.causes or ())
    return kind(code, reason, message, causes, retry_after)


def _one_line(text: str) -> str:
    """A webhook's message may have a line for each thing that speaks against a write."""
    return " ".join(text.split())
