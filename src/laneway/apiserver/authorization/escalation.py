"""Nobody gives what they do not have, or makes what they may not create.

Whoever writes a role must hold every permission in it, and whoever writes a binding every
permission of the role it grants; the verbs `escalate` and `bind` are the exceptions that a role
can make. What is not held is named in Kubernetes' words, so that it can be looked up.

An apply of an object that does not exist creates it, so the verb of the request is not enough: a
new object of any kind takes the verb `create`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.apiserver.authn.users import MASTERS, User
from laneway.apiserver.authorization import rules
from laneway.apiserver.authorization.attributes import Attributes
from laneway.apiserver.authorization.authorizer import GROUP
from laneway.apiserver.authorization.gotext import joined, quoted, quoted_list
from laneway.apiserver.authorization.refusal import forbidden, refused
from laneway.apiserver.authorization.rules import EVERYTHING, Rule, url_covers
from laneway.apiserver.errors import ApiError, NotFound

if TYPE_CHECKING:
    from laneway.apiserver.authorization.authorizer import Authorizer
    from laneway.apiserver.kinds import Kind

Object = dict[str, Any]

_FULL = (
    Rule(verbs=("*",), api_groups=("*",), resources=("*",)),
    Rule(verbs=("*",), non_resource_urls=("*",)),
)


def check(
    authorizer: Authorizer,
    user: User,
    kind: Kind,
    new: Object,
    old: Object | None,
    *,
    namespace: str,
    name: str,
) -> None:
    """Raise a 403 where the user may not create this, or would give away what they do not hold.

    `old` is None for a new object, and `name`, which is that of the URL, is then empty.
    """
    if MASTERS in user.groups:
        return
    if old is None:
        _require_create(authorizer, user, kind, new)
    if kind.group != GROUP:
        return
    if old is not None and _is_only_bookkeeping(new, old):
        return
    if kind.plural in ("roles", "clusterroles"):
        escalate = Attributes(
            user=user,
            verb="escalate",
            group=GROUP,
            version="*",
            resource=kind.plural,
            namespace=namespace,
            name=name,
        )
        _check_role(authorizer, escalate, new, old)
    else:
        _check_binding(authorizer, user, kind.plural, namespace, new)


def _require_create(authorizer: Authorizer, user: User, kind: Kind, new: Object) -> None:
    create = Attributes(
        user=user,
        verb="create",
        group=kind.group,
        version=kind.version,
        resource=kind.plural,
        namespace=new["metadata"].get("namespace", "") if kind.namespaced else "",
        name=new["metadata"].get("name", ""),
    )
    decision = authorizer.decide(create)
    if not decision.allowed:
        raise forbidden(create, decision.reason)


def _check_role(
    authorizer: Authorizer, escalate: Attributes, new: Object, old: Object | None
) -> None:
    if authorizer.decide(escalate).allowed:
        return
    user, namespace = escalate.user, escalate.namespace
    name = new["metadata"].get("name", "")
    if lacking := _lacking(authorizer, user, namespace, rules.read(new.get("rules"))):
        raise refused(GROUP, escalate.resource, name, lacking)
    # It can gather the rules of any role there will ever be.
    if (_gathers(new) or _gathers(old or {})) and _lacking(authorizer, user, namespace, _FULL):
        text = "must have cluster-admin privileges to use the aggregationRule"
        raise refused(GROUP, escalate.resource, name, text)


def _gathers(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _check_binding(
    authorizer: Authorizer, user: User, resource: str, namespace: str, new: Object
) -> None:
    ref = new.get("roleRef") or {}
    kind, name = ref.get("kind", ""), ref.get("name", "")
    if kind not in ("Role", "ClusterRole"):
        text = f"unsupported role reference kind: {quoted(kind)}"
        raise ApiError(400, "BadRequest", text)
    granted = "roles" if kind == "Role" else "clusterroles"
    bind = Attributes(
        user=user,
        verb="bind",
        group=ref.get("apiGroup") or GROUP,
        version="*",
        resource=granted,
        namespace=namespace,
        name=name,
    )
    if authorizer.decide(bind).allowed:
        return
    held = authorizer.role(kind, namespace, name)
    if held is None:
        what = "role" if kind == "Role" else "clusterrole"
        text = f'{what}s.{GROUP} "{name}" not found'
        raise NotFound(text, name=name, group=GROUP, kind=f"{what}s")
    if lacking := _lacking(authorizer, user, namespace, held):
        raise refused(GROUP, resource, new["metadata"].get("name", ""), lacking)


def _lacking(authorizer: Authorizer, user: User, namespace: str, wanted: Iterable[Rule]) -> str:
    """What of these rules the user does not hold, as the text of the refusal; or nothing."""
    held = authorizer.rules(user, namespace)
    missing = uncovered(held.rules, wanted)
    if not missing:
        return ""
    lines = sorted({_described(rule) for rule in _compact(missing)})
    text = (
        f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC "
        "permissions not currently held:\n" + "\n".join(lines)
    )
    if held.missing:
        errors = joined(f"{role.resource} {quoted(role.name)} not found" for role in held.missing)
        text += f"; resolution errors: [{errors}]"
    return text


def uncovered(held: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The smallest parts of the wanted rules that no held rule allows by itself."""
    holding = tuple(held)
    return [
        part
        for rule in wanted
        for part in _parts(rule)
        if not any(_covers(owned, part) for owned in holding)
    ]


def _parts(rule: Rule) -> Iterator[Rule]:
    """The rule as one rule for each combination that it allows."""
    names: tuple[tuple[str, ...], ...] = tuple((name,) for name in rule.resource_names) or ((),)
    for group, resource, verb, name in product(rule.api_groups, rule.resources, rule.verbs, names):
        yield Rule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=name)
    for url, verb in product(rule.non_resource_urls, rule.verbs):
        yield Rule(verbs=(verb,), non_resource_urls=(url,))


def _covers(held: Rule, part: Rule) -> bool:
    if part.verbs[0] not in held.verbs and EVERYTHING not in held.verbs:
        return False
    if part.non_resource_urls:
        return any(url_covers(url, part.non_resource_urls[0]) for url in held.non_resource_urls)
    resource, (group,) = part.resources[0], part.api_groups
    _, slash, subresource = resource.partition("/")
    return (
        (group in held.api_groups or EVERYTHING in held.api_groups)
        and (
            EVERYTHING in held.resources
            or resource in held.resources
            or (bool(slash) and f"*/{subresource}" in held.resources)
        )
        and (not held.resource_names or bool(part.resource_names))
        and (not held.resource_names or part.resource_names[0] in held.resource_names)
    )


def _compact(parts: Iterable[Rule]) -> Iterator[Rule]:
    """Parts that differ in nothing but their verb as one rule."""
    verbs: dict[Rule, list[str]] = {}
    for part in parts:
        if part.non_resource_urls:
            yield part
        else:
            verbs.setdefault(msgspec.structs.replace(part, verbs=()), []).append(part.verbs[0])
    for rule, listed in verbs.items():
        yield msgspec.structs.replace(rule, verbs=tuple(listed))


def _described(rule: Rule) -> str:
    fields = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.non_resource_urls,
        "ResourceNames": rule.resource_names,
        "Verbs": rule.verbs,
    }
    texts = [f"{name}:{quoted_list(values)}" for name, values in fields.items() if values]
    return "{" + ", ".join(texts) + "}"


def _is_only_bookkeeping(new: Object, old: Object) -> bool:
    """Whether a write changes no more than what the garbage collector must be able to change."""
    return _substance(new) == _substance(old)


def _substance(obj: Object) -> Object:
    ignored = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
    meta = {name: value for name, value in obj["metadata"].items() if name not in ignored}
    return {**obj, "metadata": meta}
