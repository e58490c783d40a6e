"""The rules of a role, and what they allow.

A rule is read from the stored object as it is: what has the wrong form grants nothing. Matching
is exact text and the wildcards of Kubernetes: `*` alone for verbs, groups and resources, `*/scale`
for a subresource of every resource, and a `*` at the end of a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from kapilite.authorization.attributes import Attributes

EVERYTHING = "*"


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One PolicyRule."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, wanted: Attributes) -> bool:
        verbs = self.verbs
        if wanted.verb not in verbs and EVERYTHING not in verbs:
            return False
        if wanted.path is not None:
            return any(url_covers(url, wanted.path) for url in self.non_resource_urls)
        groups, names = self.api_groups, self.resource_names
        return (
            (wanted.group in groups or EVERYTHING in groups)
            and (not names or wanted.name in names)
            and self._has(wanted.resource, wanted.subresource)
        )

    def _has(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if EVERYTHING in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def url_covers(allowed: str, path: str) -> bool:
    """Whether a path, or a pattern of paths, lies within an allowed one."""
    return allowed == path or (allowed.endswith("*") and path.startswith(allowed.rstrip("*")))


def read(rules: Any) -> tuple[Rule, ...]:
    """The rules in an object's list of rules."""
    if not isinstance(rules, list):
        return ()
    return tuple(rule for value in rules if (rule := _rule(value)) is not None)


def write(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Rules as an object holds them, without what is empty."""
    return [
        {name: list(texts) for name, texts in msgspec.to_builtins(rule).items() if texts}
        for rule in rules
    ]


def _rule(value: Any) -> Rule | None:
    if not isinstance(value, dict):
        return None
    given = {name: texts for name, texts in value.items() if texts is not None}
    try:
        return msgspec.convert(given, Rule)
    except msgspec.ValidationError:
        return None
