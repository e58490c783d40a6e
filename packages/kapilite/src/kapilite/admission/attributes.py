"""What a webhook is asked about: one write, as the server sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from kapilite.authn import User
from kapilite.errors import ApiError
from kapilite.kinds import Kind

Object = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

REQUEST_SECONDS = 34.0
"""How long the webhooks of one request may take together, as in Kubernetes."""


def deadline() -> float:
    """Until when the webhooks of a request that begins now may be asked."""
    return asyncio.get_running_loop().time() + REQUEST_SECONDS


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """One write.

    `mutate` and `validate` of one request get the same attributes with another `object`
    (`msgspec.structs.replace`), so that both stay within one `deadline`.
    """

    operation: Operation
    kind: Kind
    """Of the resource in the address; a subresource's object may be of another kind."""
    name: str
    """Empty where the server is still to make it up."""
    user: User
    namespace: str = ""
    subresource: str = ""
    object: Object | None = None
    """As it would be stored; None when it is deleted."""
    old_object: Object | None = None
    """As it is stored; None when it is created."""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """CreateOptions, UpdateOptions or DeleteOptions; apiVersion and kind may be left out."""
    dry_run: bool = False
    deadline: float = msgspec.field(default_factory=deadline)
    """In the event loop's time."""

    @property
    def request_namespace(self) -> str:
        """The namespace as webhooks see it: a Namespace counts as being in itself."""
        return self.name if is_namespaces(self.kind) else self.namespace


class Refused(ApiError):  # noqa: N818 - named as what happened
    """A webhook refuses the write, or could not be asked; with the warnings given so far."""

    def __init__(self, status: Mapping[str, Any], warnings: tuple[str, ...] = ()) -> None:
        details = status.get("details") or {}
        super().__init__(status["code"], status["reason"], status["message"], **details)
        self._phase = status.get("status") or "Failure"
        self.warnings = warnings

    def status(self) -> dict[str, Any]:
        """The `Status`; a webhook may have given it without a reason."""
        body = super().status() | {"status": self._phase}
        if not body["reason"]:
            del body["reason"]
        return body


def is_namespaces(kind: Kind) -> bool:
    return kind.resource == "namespaces"


def internal(why: str, warnings: tuple[str, ...] = ()) -> Refused:
    """The answer when admission itself failed."""
    status = {
        "code": 500,
        "reason": "InternalError",
        "message": f"Internal error occurred: {why}",
        "details": {"causes": [{"message": why}]},
    }
    return Refused(status, warnings)


def too_late(warnings: tuple[str, ...] = ()) -> Refused:
    """The answer when the time of the whole request is spent."""
    text = "Timeout: request did not complete within requested timeout"
    return Refused({"code": 504, "reason": "Timeout", "message": text}, warnings)
