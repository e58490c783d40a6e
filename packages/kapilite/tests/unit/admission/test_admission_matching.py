"""Rules, selectors and versions: which webhooks a write concerns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.admission import matching
from kapilite.admission.attributes import Attributes
from kapilite.admission.configuration import selector_text, webhooks
from kapilite.authn import User
from kapilite.kinds import Kind
from kapilite.reads.selectors import parse_labels


def kind(version: str = "v1", *, namespaced: bool = True, group: str = "lab.example.com") -> Kind:
    return Kind(
        group=group,
        version=version,
        kind="Widget",
        plural="widgets",
        singular="widget",
        namespaced=namespaced,
    )


def configuration(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    entry = {
        "name": "h.example.com",
        "clientConfig": {"url": "https://a"},
        "admissionReviewVersions": ["v1"],
        "rules": [RULE | rule for rule in rules],
        **fields,
    }
    return {"metadata": {"name": "c"}, "webhooks": [entry]}


RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
VERSIONS = [kind("v1"), kind("v2")]


def planned(
    *rules: dict[str, Any], subresource: str = "", operation: str = "CREATE", **fields: Any
) -> list[str]:
    found = webhooks(configuration(*rules, **fields), mutating=False)
    matches = matching.plan(found, VERSIONS[0], subresource, operation, VERSIONS)
    return [match.kind.version for match in matches]


@pytest.mark.parametrize(
    ("pattern", "subresource", "matches"),
    [
        ("widgets", "", True),
        ("widgets", "status", False),
        ("widgets/status", "status", True),
        ("widgets/status", "", False),
        ("widgets/*", "", True),
        ("widgets/*", "status", True),
        ("*", "", True),
        ("*", "status", False),
        ("*/status", "status", True),
        ("*/status", "", False),
        ("*/*", "", True),
        ("*/*", "status", True),
        ("gadgets", "", False),
    ],
)
def test_resources(pattern: str, subresource: str, matches: bool) -> None:
    assert bool(planned({"resources": [pattern]}, subresource=subresource)) is matches


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({"operations": ["UPDATE", "CREATE"]}, True),
        ({"operations": ["DELETE"]}, False),
        ({"apiGroups": ["lab.example.com"]}, True),
        ({"apiGroups": [""]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
    ],
)
def test_the_rest_of_a_rule(rule: dict[str, Any], matches: bool) -> None:
    assert bool(planned(rule)) is matches


def test_a_webhook_is_asked_once_whichever_rules_match() -> None:
    assert planned({}, {}) == ["v1"]


def test_the_version_of_the_request_comes_first() -> None:
    assert planned({"apiVersions": ["v2"]}, {"apiVersions": ["v1"]}) == ["v1"]


def test_another_version_does_unless_the_webhook_is_exact() -> None:
    assert planned({"apiVersions": ["v2"]}) == ["v2"]
    assert planned({"apiVersions": ["v3"]}, {"apiVersions": ["v2"]}) == ["v2"]
    assert planned({"apiVersions": ["v2"]}, matchPolicy="Exact") == []


def test_configurations_are_exempt() -> None:
    own = kind(group=matching.GROUP)
    found = webhooks(configuration({}), mutating=False)
    assert matching.plan(found, own, "", "CREATE", [own]) == ()


KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["", "x", "y"])
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    found: dict[str, Any] = {"key": draw(KEYS), "operator": operator}
    if operator.endswith("In"):
        found["values"] = draw(st.lists(VALUES, min_size=1))
    return found


def holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    """What Kubernetes says that an expression means."""
    key, values = expression["key"], expression.get("values", ())
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


@given(LABELS, st.lists(expressions()), LABELS)
def test_selectors(
    match_labels: dict[str, str], match: list[dict[str, Any]], labels: dict[str, str]
) -> None:
    selector = {"matchLabels": match_labels, "matchExpressions": match}
    chosen = parse_labels(selector_text(selector))({"metadata": {"labels": labels}})
    wanted = all(labels.get(key) == value for key, value in match_labels.items())
    assert chosen is (wanted and all(holds(e, labels) for e in match))


async def test_only_what_has_a_namespace_is_selected_by_it() -> None:
    selector = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    (webhook,) = webhooks(configuration({}, **selector), mutating=False)
    cluster_wide = Attributes(
        operation="CREATE", kind=kind(namespaced=False), name="x", user=User("u"), object={}
    )

    def nowhere(name: str) -> dict[str, Any]:
        raise AssertionError(name)

    assert matching.selected(webhook, cluster_wide, nowhere)
    inside = Attributes(
        operation="CREATE", kind=kind(), name="x", namespace="n", user=User("u"), object={}
    )
    for labels in ({"a": "b"}, {"a": "c"}, {}):
        found = {"metadata": {"labels": labels}}
        assert matching.selected(webhook, inside, lambda _, found=found: found) is (
            labels == {"a": "b"}
        )
