"""Questions about access, answered and never stored.

The roles decide before who may put the question. The answers, and the refusals of
questions that make no sense, are those of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kapilite import problems as problem
from kapilite.authn.tokens import ISSUER, InvalidToken
from kapilite.authn.users import User, as_user_info
from kapilite.authorization.attributes import Attributes
from kapilite.authorization.authorizer import not_found
from kapilite.authorization.kinds import AUTHORIZATION
from kapilite.errors import ApiError
from kapilite.gotext.quoting import quoted
from kapilite.problems import Problem

if TYPE_CHECKING:
    from kapilite.authn.authenticator import Authenticator
    from kapilite.authorization.authorizer import Authorizer
    from kapilite.kinds import Kind

Object = dict[str, Any]
T = TypeVar("T")


class _Resource(msgspec.Struct):
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Path(msgspec.Struct):
    path: str = ""
    verb: str = ""


class _Access(msgspec.Struct, rename="camel"):
    resource_attributes: _Resource | None = None
    non_resource_attributes: _Path | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, tuple[str, ...]] = {}


class _Rules(msgspec.Struct):
    namespace: str = ""


class _Token(msgspec.Struct):
    token: str = ""
    audiences: tuple[str, ...] = ()


def answer(
    kind: Kind,
    obj: Object,
    user: User,
    *,
    authorizer: Authorizer,
    authenticator: Authenticator,
    namespace: str = "",
) -> Object:
    """The review with its status; raises ApiError for a question that makes no sense."""
    meta = _metadata(obj)
    meta.pop("managedFields", None)
    match kind.kind:
        case "SelfSubjectReview":
            status: Object = {"userInfo": as_user_info(user)}
        case "TokenReview":
            status = _token(_spec(kind, obj, _Token), authenticator)
        case "SelfSubjectRulesReview":
            status = _rules(_spec(kind, obj, _Rules), user, authorizer)
            obj = {**obj, "spec": {}}
        case "SelfSubjectAccessReview":
            access = _spec(kind, obj, _Access)
            _require(_about(access) + _without_name(meta))
            status = _access(access, user, authorizer)
        case "SubjectAccessReview":
            access = _spec(kind, obj, _Access)
            _require(_about(access) + _subject(access) + _without_name(meta))
            status = _access(access, _asked_about(access), authorizer)
        case _:
            meta["namespace"] = namespace
            access = _spec(kind, obj, _Access)
            _require(
                _about(access) + _subject(access) + _without_name(meta) + _within(access, namespace)
            )
            status = _access(access, _asked_about(access), authorizer)
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    spec = {} if kind.kind == "SelfSubjectReview" else {"spec": obj.get("spec") or {}}
    return head | {"metadata": {**meta, "creationTimestamp": None}} | spec | {"status": status}


def _metadata(obj: Object) -> Object:
    meta = obj.get("metadata") or {}
    if not isinstance(meta, dict):
        raise ApiError(400, "BadRequest", "metadata must be an object")
    return {name: value for name, value in meta.items() if value}


def _spec(kind: Kind, obj: Object, form: type[T]) -> T:
    try:
        return msgspec.convert(_given(obj.get("spec")) or {}, form)
    except msgspec.ValidationError as error:
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise ApiError(400, "BadRequest", f"{what}: spec: {error}") from error


def _given(value: Any) -> Any:
    """Without the members that are null, which counts as leaving them out."""
    if isinstance(value, dict):
        return {name: _given(member) for name, member in value.items() if member is not None}
    return value


def _access(access: _Access, user: User, authorizer: Authorizer) -> Object:
    if (about := access.resource_attributes) is not None:
        wanted = Attributes(user=user, **msgspec.structs.asdict(about))
    else:
        path = access.non_resource_attributes or _Path()
        wanted = Attributes(user=user, verb=path.verb, path=path.path)
    decision = authorizer.decide(wanted)
    return {"allowed": decision.allowed} | ({"reason": decision.reason} if decision.reason else {})


def _asked_about(access: _Access) -> User:
    return User(access.user, access.groups, access.uid, access.extra)


def _rules(spec: _Rules, user: User, authorizer: Authorizer) -> Object:
    if not spec.namespace:
        raise ApiError(400, "BadRequest", "no namespace on request")
    found = authorizer.rules(user, spec.namespace)
    resources, paths = [], []
    for rule in found.rules:
        fields = {key: list(texts) for key, texts in msgspec.to_builtins(rule).items() if texts}
        if rule.resources:
            resources.append({key: v for key, v in fields.items() if key != "nonResourceURLs"})
        if rule.non_resource_urls:
            paths.append(
                {key: fields[key] for key in ("verbs", "nonResourceURLs") if key in fields}
            )
    status: Object = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    if found.missing:
        status["evaluationError"] = not_found(found.missing)
    return status


def _token(spec: _Token, authenticator: Authenticator) -> Object:
    if not spec.token:
        text = "token is required for TokenReview in authentication"
        raise ApiError(400, "BadRequest", text)
    try:
        found = authenticator.by_token(spec.token, spec.audiences or (ISSUER,))
    except InvalidToken as error:
        why = "invalid bearer token"
        return {"user": {}, "error": f"[{why}, {error}]" if str(error) else why}
    return {
        "authenticated": True,
        "user": as_user_info(found.user),
        "audiences": list(found.audiences),
    }


def _require(problems: Sequence[Problem]) -> None:
    """Raise `Invalid`, of a kind without a name, as Kubernetes has it for reviews."""
    if not problems:
        return
    texts = [f"{found.field}: {found.message}" for found in problems]
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    raise ApiError(
        422,
        "Invalid",
        f'.{AUTHORIZATION} "" is invalid: {summary}',
        group=AUTHORIZATION,
        causes=[found._asdict() for found in problems],
    )


def _about(access: _Access) -> list[Problem]:
    resource, path = access.resource_attributes, access.non_resource_attributes
    if resource is not None and path is not None:
        return [_bad_path(path, "cannot be specified in combination with resourceAttributes")]
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [problem.invalid("spec.resourceAttributes", "null", text)]
    return []


def _subject(access: _Access) -> list[Problem]:
    if access.user or access.groups:
        return []
    return [problem.invalid("spec.user", "", "at least one of user or group must be specified")]


def _without_name(meta: Object) -> list[Problem]:
    unexpected = [name for name in meta if name not in ("namespace", "creationTimestamp")]
    if not unexpected:
        return []
    return [problem.invalid("metadata", ", ".join(unexpected), "must be empty")]


def _within(access: _Access, namespace: str) -> list[Problem]:
    found = []
    about = access.resource_attributes
    if about is not None and about.namespace != namespace:
        field = "spec.resourceAttributes.namespace"
        found.append(problem.invalid(field, about.namespace, "must match metadata.namespace"))
    if access.non_resource_attributes is not None:
        text = "disallowed on this kind of request"
        found.append(_bad_path(access.non_resource_attributes, text))
    return found


def _bad_path(path: _Path, text: str) -> Problem:
    shown = f"Path:{quoted(path.path)}, Verb:{quoted(path.verb)}"
    message = f"Invalid value: authorization.NonResourceAttributes{{{shown}}}: {text}"
    return Problem("FieldValueInvalid", message, "spec.nonResourceAttributes")
