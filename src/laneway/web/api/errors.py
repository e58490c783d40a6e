"""Errors as the API server words them: a Status object, whose reason programs compare."""

from __future__ import annotations

import math
from collections.abc import Mapping

from aiohttp import web

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "GET, HEAD"}}


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """A request is not answered: the id of a text, and the values that it names."""

    def __init__(
        self,
        status: int,
        text: str,
        values: Mapping[str, object] | None = None,
        *,
        retry: float | None = None,
    ) -> None:
        """`retry`: in how many seconds it may be answered."""
        super().__init__(text)
        self.status = status
        self.text = text
        self.seconds = None if retry is None else math.ceil(retry)
        given = {} if self.seconds is None else {"seconds": self.seconds}
        self.values = {**(values or {}), **given}


def as_status(refused: Refused, message: str) -> web.Response:
    """What the program gets; `message` is the text."""
    body: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": REASONS[refused.status],
        "code": refused.status,
    }
    headers = dict(_HEADERS.get(refused.status, {}))
    if refused.seconds is not None:
        body["details"] = {"retryAfterSeconds": refused.seconds}
        headers["Retry-After"] = str(refused.seconds)
    return web.json_response(body, status=refused.status, headers=headers)
