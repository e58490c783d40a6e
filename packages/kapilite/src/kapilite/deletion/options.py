"""What a client requests when it deletes, and the rules for that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite.errors import ApiError
from kapilite.problems import Problem, invalid, rejected_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multidict import MultiMapping

POLICIES = ("Foreground", "Background", "Orphan")
_SECONDS = range(-(2**63), 2**63)


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a client requested."""

    dry_run: bool = False
    policy: str = ""
    """Background, Foreground or Orphan; empty leaves it to the object and its kind."""
    orphan: bool | None = None
    """The older way to say it: true is Orphan, false is Background."""
    grace: int | None = None
    """Seconds that a pod has to end; None leaves it to the pod."""
    uid: str | None = None
    resource_version: str | None = None

    def as_sent(self) -> dict[str, Any]:
        """`DeleteOptions` as webhooks are shown them."""
        before = {"uid": self.uid, "resourceVersion": self.resource_version}
        fields = {
            "apiVersion": "meta.k8s.io/v1",
            "kind": "DeleteOptions",
            "dryRun": ["All"] if self.dry_run else None,
            "propagationPolicy": self.policy or None,
            "orphanDependents": self.orphan,
            "gracePeriodSeconds": self.grace,
            "preconditions": {k: v for k, v in before.items() if v is not None} or None,
        }
        return {name: value for name, value in fields.items() if value is not None}


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")


class _Body(msgspec.Struct, rename="camel"):
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None
    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None


def parse(body: object, query: MultiMapping[str]) -> DeleteOptions:
    """From the decoded body or, without one (None), from the query. Raises ApiError."""
    if body is None:
        sent = _of_query(query)
    else:
        try:
            sent = msgspec.convert(body, _Body)
        except msgspec.ValidationError as error:
            raise ApiError(400, "BadRequest", f"DeleteOptions: {error}") from error
    problems = list(_problems(sent))
    if problems:
        raise rejected_options("DeleteOptions", problems)
    before = sent.preconditions or _Preconditions()
    return DeleteOptions(
        dry_run=bool(sent.dry_run),
        policy=sent.propagation_policy or "",
        orphan=sent.orphan_dependents,
        grace=sent.grace_period_seconds,
        uid=before.uid,
        resource_version=before.resource_version,
    )


def _of_query(query: MultiMapping[str]) -> _Body:
    orphan, grace = query.get("orphanDependents"), query.get("gracePeriodSeconds")
    try:
        seconds = int(grace) if grace else None
    except ValueError:
        seconds = _SECONDS.stop
    if seconds is not None and seconds not in _SECONDS:
        text = f"strconv.ParseInt: parsing {json.dumps(grace)}: invalid syntax"
        raise ApiError(400, "BadRequest", text)
    return _Body(
        propagation_policy=query.get("propagationPolicy"),
        # As Kubernetes reads a flag of a query: everything but these is true.
        orphan_dependents=None if orphan is None else orphan.lower() not in ("false", "0"),
        dry_run=query.getall("dryRun", None),
        grace_period_seconds=seconds,
    )


def _problems(sent: _Body) -> Sequence[Problem]:
    found = []
    policy = sent.propagation_policy
    if policy is not None and sent.orphan_dependents is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        found.append(invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in POLICIES:
        found.append(_unsupported("propagationPolicy", json.dumps(policy), (*POLICIES, "nil")))
    if sent.dry_run and set(sent.dry_run) != {"All"}:
        found.append(_unsupported("dryRun", f"[]string{{{_quoted(sent.dry_run)}}}", ("All",)))
    return found


def _unsupported(field: str, shown: str, supported: Sequence[str]) -> Problem:
    message = f"Unsupported value: {shown}: supported values: {_quoted(supported)}"
    return Problem("FieldValueNotSupported", message, field)


def _quoted(values: Sequence[str]) -> str:
    return ", ".join(map(json.dumps, values))
