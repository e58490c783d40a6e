"""What is wrong with a role or a binding beyond its schema.

The texts are those of Kubernetes. A binding's role never changes: a user who could change it would
turn the consent to one role into another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.authorization.authorizer import GROUP
from kapilite.builtin import rules as builtin
from kapilite.gotext.quoting import quoted
from kapilite.problems import Problem

if TYPE_CHECKING:
    from kapilite.kinds import Kind

Object = dict[str, Any]

_BINDINGS = ("rolebindings", "clusterrolebindings")


def problems(kind: Kind, obj: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with an object that its schema has found to be well formed."""
    if kind.group != GROUP:
        return
    if kind.plural in _BINDINGS:
        yield from _binding(obj, namespaced=kind.namespaced)
        if old is not None and obj.get("roleRef") != old.get("roleRef"):
            shown = ", ".join(
                f"{title}:{quoted(str((obj.get('roleRef') or {}).get(name, '')))}"
                for title, name in (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
            )
            text = f"Invalid value: rbac.RoleRef{{{shown}}}: cannot change roleRef"
            yield Problem("FieldValueInvalid", text, "roleRef")
        return
    for index, rule in enumerate(obj.get("rules") or ()):
        yield from _rule(f"rules[{index}]", rule, namespaced=kind.namespaced)
    if obj.get("aggregationRule") is not None:
        yield from _aggregation("aggregationRule.clusterRoleSelectors", obj["aggregationRule"])


def _rule(field: str, rule: Object, *, namespaced: bool) -> Iterator[Problem]:
    if not rule.get("verbs"):
        yield problem.required(f"{field}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        field = f"{field}.nonResourceURLs"
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            yield _invalid_list(field, urls, text)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield _invalid_list(field, urls, text)
        return
    if not rule.get("apiGroups"):
        text = "resource rules must supply at least one api group"
        yield problem.required(f"{field}.apiGroups", text)
    if not rule.get("resources"):
        text = "resource rules must supply at least one resource"
        yield problem.required(f"{field}.resources", text)


def _invalid_list(field: str, values: list[str], text: str) -> Problem:
    shown = ", ".join(map(quoted, values))
    return Problem("FieldValueInvalid", f"Invalid value: []string{{{shown}}}: {text}", field)


def _aggregation(field: str, aggregation: Object) -> Iterator[Problem]:
    selectors = aggregation.get("clusterRoleSelectors")
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield problem.required(field, text)
    for index, selector in enumerate(selectors or ()):
        found = list(builtin.selector(f"{field}[{index}]", selector))
        yield from found
        if found:
            yield problem.invalid(f"{field}[{index}]", "null", "invalid label selector.")


def _binding(obj: Object, *, namespaced: bool) -> Iterator[Problem]:
    ref = obj.get("roleRef") or {}
    if ref.get("apiGroup") != GROUP:
        yield problem.not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), [GROUP])
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if ref.get("kind") not in kinds:
        yield problem.not_supported("roleRef.kind", ref.get("kind", ""), kinds)
    if not ref.get("name"):
        yield problem.required("roleRef.name")
    else:
        yield from problem.unfit("roleRef.name", ref["name"], names.segment(ref["name"]))
    for index, subject in enumerate(obj.get("subjects") or ()):
        yield from _subject(f"subjects[{index}]", subject, namespaced=namespaced)


def _subject(field: str, subject: Object, *, namespaced: bool) -> Iterator[Problem]:
    kind, name, group = (subject.get(key) or "" for key in ("kind", "name", "apiGroup"))
    if not name:
        yield problem.required(f"{field}.name")
    if kind == "ServiceAccount":
        if name:
            yield from problem.unfit(f"{field}.name", name, names.subdomain(name))
        if group:
            yield problem.not_supported(f"{field}.apiGroup", group, [""])
        if not namespaced and not subject.get("namespace"):
            yield problem.required(f"{field}.namespace")
    elif kind in ("User", "Group"):
        if group != GROUP:
            yield problem.not_supported(f"{field}.apiGroup", group, [GROUP])
    else:
        yield problem.not_supported(f"{field}.kind", kind, ["ServiceAccount", "User", "Group"])
