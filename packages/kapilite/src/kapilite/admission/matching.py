"""Which webhooks a write concerns: rules first, then selectors. Pure functions.

Whether a rule matches depends only on what kind of write it is, so `Admission` keeps the answer of
`plan`; what depends on the object, its labels and those of its namespace, is checked at each write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kapilite.admission.attributes import Attributes, is_namespaces
from kapilite.admission.configuration import Rule, Webhook
from kapilite.kinds import Kind

GROUP = "admissionregistration.k8s.io"


class Match(NamedTuple):
    """A webhook, and the version of the resource in which it wants to see the object."""

    webhook: Webhook
    kind: Kind


def plan(
    webhooks: Iterable[Webhook],
    kind: Kind,
    subresource: str,
    operation: str,
    versions: Sequence[Kind],
) -> tuple[Match, ...]:
    """The webhooks whose rules match; `versions` are all served versions of the resource."""
    if kind.group == GROUP:
        # A webhook that refuses could otherwise not be removed.
        return ()
    found = []
    for webhook in webhooks:
        version = _version(webhook, kind, subresource, operation, versions)
        if version is not None:
            found.append(Match(webhook, version))
    return tuple(found)


def _version(
    webhook: Webhook, kind: Kind, subresource: str, operation: str, versions: Sequence[Kind]
) -> Kind | None:
    if any(matches(rule, kind, subresource, operation) for rule in webhook.rules):
        return kind
    if webhook.exact:
        return None
    # The order of the rules decides, not that of the versions.
    for rule in webhook.rules:
        for version in versions:
            if version.version != kind.version and matches(rule, version, subresource, operation):
                return version
    return None


def matches(rule: Rule, kind: Kind, subresource: str, operation: str) -> bool:
    """Whether a rule covers a write of this kind in this version."""
    return (
        rule.scope in ("*", "Namespaced" if kind.namespaced else "Cluster")
        and _one_of(rule.operations, operation)
        and _one_of(rule.api_groups, kind.group)
        and _one_of(rule.api_versions, kind.version)
        and any(_resource(pattern, kind.plural, subresource) for pattern in rule.resources)
    )


def _one_of(patterns: Sequence[str], value: str) -> bool:
    return "*" in patterns or value in patterns


def _resource(pattern: str, plural: str, subresource: str) -> bool:
    """`pods`, `pods/status`, `pods/*`, `*` (no subresource), `*/status`, `*/*`."""
    resource, _, sub = pattern.partition("/")
    return resource in ("*", plural) and sub in ("*", subresource)


def selected(
    webhook: Webhook,
    attributes: Attributes,
    namespace: Callable[[str], dict[str, Any]],
) -> bool:
    """Whether the selectors choose the object; `namespace` finds a stored Namespace."""
    return _namespace_selected(webhook, attributes, namespace) and (
        webhook.any_object
        or any(
            obj is not None and webhook.objects(obj)
            for obj in (attributes.object, attributes.old_object)
        )
    )


def _namespace_selected(
    webhook: Webhook,
    attributes: Attributes,
    namespace: Callable[[str], dict[str, Any]],
) -> bool:
    if webhook.any_namespace:
        return True
    if is_namespaces(attributes.kind):
        written = attributes.object
        if written is not None and not attributes.subresource:
            # Not stored yet, or about to change.
            return webhook.namespaces(written)
    elif not attributes.namespace:
        return True  # cluster-scoped: nothing to select by
    return webhook.namespaces(namespace(attributes.request_namespace))
