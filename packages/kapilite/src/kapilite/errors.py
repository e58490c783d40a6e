"""Failures as the API shows them: a Status object with a reason that clients act on."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """Answered to the client as a `Status` with this HTTP code."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """The `Status` object of meta/v1."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if details := {name: value for name, value in self.details.items() if value != ""}:
            body["details"] = details
        return body


class AlreadyExists(ApiError):  # noqa: N818 - named as the reason it carries
    """The name is taken."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(409, "AlreadyExists", message, **details)


class Undecodable(ApiError):  # noqa: N818 - named as what it says
    """What was sent is no object of the kind that was expected."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


class NotFound(ApiError):  # noqa: N818 - named as the reason it carries
    """The object that was requested does not exist."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(404, "NotFound", message, **details)
