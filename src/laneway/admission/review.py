"""AdmissionReview: what the API server asks, and the answer in the form that it wants.

Reading is tolerant: null counts as absent, unknown fields are ignored, and the objects stay JSON
until it is known what they are. Whatever cannot be read still gets an answer that is an
AdmissionReview, with the uid if there is one, because any other answer hides what is
wrong. The forms v1 and v1beta1 have the same fields; the answer has the form of the question.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from laneway.admission.json_patch import PatchOperation
from laneway.admission.request import Requester
from laneway.admission.wording import Denial, within_limits
from laneway.core.raw import Json

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
KIND = "AdmissionReview"

_ABSENT = msgspec.Raw(b"null")


class MalformedError(ValueError):
    """What came is no review that can be answered; the text says why."""

    def __init__(self, why: str, uid: str = "", version: str = VERSIONS[0]) -> None:
        super().__init__(why)
        self.uid = uid
        self.version = version


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str | None = None
    resource: str | None = None


class _User(msgspec.Struct, frozen=True, gc=False):
    username: str | None = None
    uid: str | None = None
    groups: Sequence[str] | None = None
    extra: Mapping[str, Sequence[str] | None] | None = None


class _Request(msgspec.Struct, frozen=True, rename="camel", gc=False):
    uid: str | None = None
    resource: _Resource | None = None
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    operation: str | None = None
    dry_run: bool | None = None
    user_info: _User | None = None
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT


class _Review(msgspec.Struct, frozen=True, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    request: _Request | None = None


_decode = msgspec.json.Decoder(_Review).decode


class Question(NamedTuple):
    """One write that the API server asks about."""

    version: str
    uid: str
    group: str
    resource: str
    subresource: str
    name: str
    namespace: str
    operation: str
    requester: Requester
    object: msgspec.Raw | None
    """As it is to be, if it is to be."""
    old_object: msgspec.Raw | None
    """As it is, if it is."""
    dry_run: bool = False
    """Whether it is only to be seen what would become of it."""
    peer: str = ""
    """Who sent it."""


class Answer(NamedTuple):
    """Allowed where there is no denial."""

    denial: Denial | None = None
    warnings: Sequence[str] = ()
    patch: Sequence[PatchOperation] = ()
    """Operations of a JSON patch."""


def read(body: bytes, peer: str = "") -> Question:
    """The question in a body that a peer sent. Raises MalformedError."""
    try:
        review = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(body, error) from None
    version = review.api_version or ""
    asked = review.request or _Request()
    uid = asked.uid or ""
    if review.kind != KIND or version not in VERSIONS:
        what = f"{review.kind or 'no kind'} of {version or 'no version'}"
        answered = version if version in VERSIONS else VERSIONS[0]
        raise MalformedError(f"expected {KIND} of {VERSIONS[0]}, not {what[:200]}", uid, answered)
    if not uid:
        raise MalformedError("the review has no request.uid", version=version)
    about, user = asked.resource or _Resource(), asked.user_info or _User()
    extra = {key: tuple(values or ()) for key, values in (user.extra or {}).items()}
    return Question(
        version=version,
        uid=uid,
        group=about.group or "",
        resource=about.resource or "",
        subresource=asked.sub_resource or "",
        name=asked.name or "",
        namespace=asked.namespace or "",
        operation=asked.operation or "",
        requester=Requester(
            user.username or "", user.uid or "", tuple(user.groups or ()), extra or None
        ),
        object=_present(asked.object),
        old_object=_present(asked.old_object),
        dry_run=asked.dry_run is True,
        peer=peer,
    )


def write(version: str, uid: str, answer: Answer) -> bytes:
    """The body of an answer."""
    response: dict[str, Json] = {"uid": uid, "allowed": answer.denial is None}
    if answer.denial is not None:
        response["status"] = _status(answer.denial)
    elif answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(answer.patch)).decode()
    if warnings := within_limits(answer.warnings):
        response["warnings"] = warnings
    return msgspec.json.encode({"apiVersion": version, "kind": KIND, "response": response})


def _status(denial: Denial) -> dict[str, Json]:
    status: dict[str, Json] = {
        "metadata": {},
        "status": "Failure",
        "code": int(denial.code),
        "reason": denial.reason,
        "message": denial.message,
    }
    details: dict[str, Json] = denial.about._asdict() if denial.about else {}
    if denial.causes:
        details["causes"] = [
            {key: value for key, value in cause._asdict().items() if value}
            for cause in denial.causes
        ]
    if details:
        status["details"] = details
    return status


def _present(raw: msgspec.Raw) -> msgspec.Raw | None:
    return None if bytes(raw) == b"null" else raw


def _malformed(body: bytes, error: Exception) -> MalformedError:
    """Why, and whose question it was as far as the body tells."""
    why = f"the review cannot be read: {str(error) or type(error).__name__}"
    try:
        review = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return MalformedError(why)
    request = review.get("request") if isinstance(review, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    version = review.get("apiVersion") if isinstance(review, dict) else None
    return MalformedError(
        why,
        uid if isinstance(uid, str) else "",
        version if version in VERSIONS else VERSIONS[0],
    )
