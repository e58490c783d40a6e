"""The AdmissionReview that is sent, and what the one that comes back means.

An answer that breaks the protocol is a failed call (`CallError`), to be handled by the webhook's
failure policy; a refusal is final. Texts are those of Kubernetes.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

import msgspec

from kapilite.admission.attributes import Attributes, Object
from kapilite.admission.failures import CallError, failure
from kapilite.admission.matching import Match
from kapilite.authn import User
from kapilite.kinds import Kind

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class _Result(msgspec.Struct):
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    status: _Result | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    response: _Response | None = None


class Answer(NamedTuple):
    """What a webhook said."""

    patch: tuple[Any, ...] = ()
    """The operations of a JSON patch."""
    warnings: tuple[str, ...] = ()
    refusal: dict[str, Any] | None = None
    """The Status to answer the client with."""


def request(match: Match, attributes: Attributes, uid: str) -> Object:
    """The question, with the objects in the version that the webhook wants to see."""
    kind, asked = match.kind, attributes.kind
    about = {
        "uid": uid,
        "kind": _kind(kind, attributes),
        "resource": _resource(kind),
        "subResource": attributes.subresource,
        "requestKind": _kind(asked, attributes),
        "requestResource": _resource(asked),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.request_namespace,
        "operation": attributes.operation,
        "userInfo": _user(attributes.user),
    }
    options: dict[str, Any] | None = None
    if attributes.operation in _OPTIONS:
        head = {"kind": _OPTIONS[attributes.operation], "apiVersion": "meta.k8s.io/v1"}
        options = head | dict(attributes.options)
    return {
        "kind": "AdmissionReview",
        "apiVersion": _api_version(match),
        "request": {name: value for name, value in about.items() if value != ""}
        | {
            "object": attributes.object and converted(attributes.object, asked, kind),
            "oldObject": attributes.old_object and converted(attributes.old_object, asked, kind),
            "dryRun": attributes.dry_run,
            "options": options,
        },
    }


def converted(obj: Object, found: Kind, wanted: Kind) -> Object:
    """An object of one version in another; one of a subresource's own kind stays as it is."""
    if obj.get("apiVersion") != found.api_version:
        return obj
    return {**obj, "apiVersion": wanted.api_version}


def answer(match: Match, body: bytes, uid: str) -> Answer:
    """Read the reply to the question `uid`; CallError where it is none."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise failure(f"cannot decode the answer: {error}") from error
    response = review.response
    if response is None:
        raise _invalid("webhook response was absent")
    patch = response.patch or ""
    if match.webhook.review_version == "v1":
        _check(match, review, response, uid)
    refusal = None
    if not response.allowed:
        refusal = denial(match.webhook.name, response.status)
    return Answer(
        patch=_patch(patch) if patch and match.webhook.mutating and refusal is None else (),
        warnings=tuple(text for text in response.warnings or () if text),
        refusal=refusal,
    )


def _check(match: Match, review: _Review, response: _Response, uid: str) -> None:
    """What v1 asks of an answer; v1beta1 asked nothing."""
    if (response.uid or "") != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.uid or ""}"')
    found = (review.api_version or "", review.kind or "")
    if found != (_api_version(match), "AdmissionReview"):
        wanted = f"{_api_version(match)}, Kind=AdmissionReview"
        raise _invalid(f"expected webhook response of {wanted}, got {found[0]}, Kind={found[1]}")
    if not match.webhook.mutating:
        for name, value in (("patch", response.patch), ("patchType", response.patch_type)):
            if value:
                raise _invalid(f"validating webhook may not return response.{name}")
    elif response.patch and response.patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    elif response.patch_type is not None and not response.patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    elif response.patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')
    elif response.patch_type not in (None, "JSONPatch") and response.allowed:
        raise CallError(f'unsupported patch type "{response.patch_type}"')


def _patch(text: str) -> tuple[Any, ...]:
    try:
        patch = msgspec.json.decode(base64.b64decode(text, validate=True))
    except (binascii.Error, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise CallError(f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(patch, list):
        raise CallError("received undecodable patch in webhook response: not a list of operations")
    return tuple(patch)


def denial(name: str, result: _Result | None) -> dict[str, Any]:
    """The Status of a refused write: the webhook's own, which says who gave it."""
    given = result or _Result()
    why = given.message or given.reason
    text = f'admission webhook "{name}" denied the request'
    return {
        # A refusal never looks like a success, whatever the webhook says.
        "code": max(given.code or 0, 400),
        "status": given.status if given.status not in (None, "", "Success") else "Failure",
        "reason": given.reason or "",
        "message": f"{text}: {why}" if why else f"{text} without explanation",
        "details": given.details,
    }


def _invalid(why: str) -> CallError:
    return CallError(f"received invalid webhook response: {why}")


def _api_version(match: Match) -> str:
    return f"admission.k8s.io/{match.webhook.review_version}"


def _kind(kind: Kind, attributes: Attributes) -> dict[str, str]:
    """Of the object, which a subresource may have of another kind than its resource."""
    obj = attributes.object or attributes.old_object or {}
    found = obj.get("apiVersion", attributes.kind.api_version)
    if attributes.subresource and found != attributes.kind.api_version:
        group, _, version = found.rpartition("/")
        return {"group": group, "version": version, "kind": obj["kind"]}
    name = obj.get("kind", kind.kind) if attributes.subresource else kind.kind
    return {"group": kind.group, "version": kind.version, "kind": name}


def _resource(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _user(user: User) -> dict[str, Any]:
    info = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in info.items() if value}
