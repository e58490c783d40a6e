"""No user grants what they do not have.

The author of a role must hold every permission in it, and the author of a binding every
permission of the role it grants; the verbs `escalate` and `bind` are the exceptions that a role
can make. What is not held is named in Kubernetes' words, so that it can be looked up. A few lists
of names can stand for millions of permissions: what takes too long to compare is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite.authn.users import MASTERS, User
from kapilite.authorization import rules
from kapilite.authorization.attributes import Attributes
from kapilite.authorization.authorizer import GROUP
from kapilite.authorization.refusal import refused
from kapilite.authorization.rules import EVERYTHING, Rule, url_covers
from kapilite.errors import ApiError, NotFound
from kapilite.gotext.quoting import joined, quoted, quoted_list

if TYPE_CHECKING:
    from kapilite.authorization.authorizer import Authorizer
    from kapilite.kinds import Kind

Object = dict[str, Any]

COMPARISONS_LIMIT = 100_000
"""Some tenths of a second, in which no other request is served."""
LINES_LIMIT = 50
TEXT_LIMIT = 10_000

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
    """Raise a 403 where the user would give away what they do not hold.

    `old` is None for a new object, and `name`, which is that of the URL, is then empty.
    """
    if kind.group != GROUP or MASTERS in user.groups:
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
    try:
        missing = uncovered(held.rules, wanted, limit=COMPARISONS_LIMIT)
    except TooMany:
        return "the role grants too many permissions at once to be compared with those held"
    if not missing:
        return ""
    lines = _lines(_compact(missing))
    text = (
        f"user {quoted(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC "
        "permissions not currently held:\n" + "\n".join(lines)
    )
    if held.missing:
        errors = joined(f"{role.resource} {quoted(role.name)} not found" for role in held.missing)
        text += f"; resolution errors: [{errors}]"
    return text


class TooMany(Exception):  # noqa: N818 - named for what it is
    """There is more to compare than is allowed."""


def uncovered(
    held: Iterable[Rule], wanted: Iterable[Rule], *, limit: int | None = None
) -> list[Rule]:
    """The smallest parts of the wanted rules that no held rule allows by itself.

    Raises TooMany where that takes more comparisons than the limit.
    """
    holding = [_Held(rule) for rule in dict.fromkeys(held)]
    count = 0

    def is_covered(rule: Rule) -> bool:
        nonlocal count
        for owned in holding:
            count += owned.effort(rule)
            if limit is not None and count > limit:
                raise TooMany
            if owned.covers(rule):
                return True
        count += 1
        return False

    # Mostly a rule is held as a whole, and what it consists of need not be looked at.
    return [
        part
        for rule in wanted
        if not is_covered(rule)
        for part in _parts(rule)
        if not is_covered(part)
    ]


def _parts(rule: Rule) -> Iterator[Rule]:
    """The rule as one rule for each combination that it allows."""
    names: tuple[tuple[str, ...], ...] = tuple((name,) for name in rule.resource_names) or ((),)
    for group, resource, verb, name in product(rule.api_groups, rule.resources, rule.verbs, names):
        yield Rule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=name)
    for url, verb in product(rule.non_resource_urls, rule.verbs):
        yield Rule(verbs=(verb,), non_resource_urls=(url,))


class _Held:
    """A rule that is held, in a form that many can be compared with."""

    def __init__(self, rule: Rule) -> None:
        self._verbs = frozenset(rule.verbs)
        self._groups = frozenset(rule.api_groups)
        self._resources = frozenset(rule.resources)
        self._names = frozenset(rule.resource_names)
        self._urls = rule.non_resource_urls

    def effort(self, wanted: Rule) -> int:
        """How many comparisons it takes to see whether this covers the wanted rule."""
        return 1 + len(self._urls) * len(wanted.non_resource_urls)

    def covers(self, wanted: Rule) -> bool:
        """Whether it allows all that the wanted rule does."""
        if not _has_all(self._verbs, wanted.verbs):
            return False
        if not all(self._has_url(url) for url in wanted.non_resource_urls):
            return False
        if wanted.non_resource_urls and not wanted.resources:
            return True
        return (
            _has_all(self._groups, wanted.api_groups)
            and (
                EVERYTHING in self._resources
                or all(self._has_resource(resource) for resource in wanted.resources)
            )
            and (not self._names or bool(wanted.resource_names))
            and (not self._names or self._names.issuperset(wanted.resource_names))
        )

    def _has_url(self, wanted: str) -> bool:
        return any(url_covers(url, wanted) for url in self._urls)

    def _has_resource(self, wanted: str) -> bool:
        _, slash, subresource = wanted.partition("/")
        return wanted in self._resources or (bool(slash) and f"*/{subresource}" in self._resources)


def _has_all(held: frozenset[str], wanted: Iterable[str]) -> bool:
    return EVERYTHING in held or held.issuperset(wanted)


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


def _lines(rules: Iterable[Rule]) -> list[str]:
    """The rules in words, in order, as many as a user would read."""
    ordered = sorted(set(rules), key=_rank)
    lines: list[str] = []
    size = 0
    for rule in ordered:
        if len(lines) == LINES_LIMIT or size > TEXT_LIMIT:
            return [*lines, f"and {len(ordered) - len(lines)} more"]
        lines.append(_described(rule))
        size += len(lines[-1])
    return lines


def _rank(rule: Rule) -> tuple[Any, ...]:
    """Rules in the order of their descriptions."""
    groups, names, urls = rule.api_groups, rule.resource_names, rule.non_resource_urls
    return (not groups, groups, rule.resources, not names, names, urls, rule.verbs)


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
