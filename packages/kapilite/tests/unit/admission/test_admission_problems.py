"""The check of configurations: what contract tests cannot compare, and that it is total."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.admission.configuration import webhooks
from kapilite.admission.kinds import KINDS
from kapilite.admission.problems import problems
from kapilite.kinds import Kind
from kapilite.schemas import schema


def good(**fields: Any) -> dict[str, Any]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    return {
        "name": "h.example.com",
        "clientConfig": {"url": "https://a"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def configuration(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "webhooks": list(entries)}


@pytest.mark.parametrize(
    ("condition", "field", "message"),
    [
        ({"expression": "true"}, "name", "Required value"),
        ({"name": "a b", "expression": "true"}, "name", "Invalid value"),
        ({"name": "a"}, "expression", "Required value"),
        ({"name": "a", "expression": "object.x +"}, "expression", "compilation failed"),
        ({"name": "a", "expression": "authorizer.x"}, "expression", "compilation failed"),
        ({"name": "a", "expression": "request.nosuch == ''"}, "expression", "compilation failed"),
        ({"name": "a", "expression": "request.name"}, "expression", "must evaluate to bool"),
    ],
)
def test_a_match_condition_has_a_name_and_is_true_or_false(
    condition: dict[str, Any], field: str, message: str
) -> None:
    (found,) = problems(KINDS[0], configuration(good(matchConditions=[condition])))

    assert found.field == f"webhooks[0].matchConditions[0].{field}"
    assert message in found.message


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_match_condition_that_compiles(kind: Kind) -> None:
    text = "request.operation != 'DELETE' && has(object.spec.x) && oldObject == null"
    conditions = [{"name": "a", "expression": text}]

    assert not list(problems(kind, configuration(good(matchConditions=conditions))))


@pytest.mark.parametrize("url", ["https://[::1", "https://a\nb", "https://a:x/", "https://a b"])
def test_urls_that_cannot_be_read(url: str) -> None:
    (found,) = problems(KINDS[0], configuration(good(clientConfig={"url": url})))
    assert found.field == "webhooks[0].clientConfig.url"
    assert found.message.startswith("Required value: url must be a valid URL: ")


# Any value of the type that the schema requests.
def of(found: dict[str, Any]) -> st.SearchStrategy[Any]:
    match found.get("type"):
        case "object" if "properties" in found:
            fields = {name: of(sub) for name, sub in found["properties"].items()}
            return st.fixed_dictionaries({}, optional=fields)
        case "object":
            return st.dictionaries(
                st.text(max_size=5), of(found["additionalProperties"]), max_size=2
            )
        case "array":
            return st.lists(of(found["items"]), max_size=2)
        case "integer":
            return st.integers(-1, 70_000)
        case _ if found.get("format") == "byte":
            return st.sampled_from(["", "Cg=="])
    return st.one_of(
        st.sampled_from(["*", "*/*", "v1", "None", "Fail", "CREATE", "In", "a.b.c", "https://a"]),
        st.text(max_size=5),
    )


SCHEMA = KINDS[0].schema
assert SCHEMA is not None
CONFIGURATIONS = of(SCHEMA)


@given(CONFIGURATIONS)
def test_every_configuration_is_judged_and_a_good_one_can_be_read(obj: dict[str, Any]) -> None:
    obj["metadata"] = {"name": "c"}
    assert SCHEMA is not None
    schema.default(SCHEMA, obj)
    found = list(problems(KINDS[0], obj))
    assert all(problem.field.startswith("webhooks[") for problem in found)
    if not found:
        webhooks(obj, mutating=True)


RULES = st.fixed_dictionaries(
    {
        "apiGroups": st.sampled_from([["*"], [""], ["a", "b"]]),
        "apiVersions": st.sampled_from([["*"], ["v1", "v2"]]),
        "operations": st.sampled_from([["*"], ["CREATE", "DELETE"]]),
        "resources": st.sampled_from([["*/*"], ["pods", "pods/status"], ["*", "*/scale"]]),
    },
    optional={"scope": st.sampled_from(["*", "Cluster", "Namespaced"])},
)
GOOD = st.fixed_dictionaries(
    {
        "name": st.just("h.example.com"),
        "clientConfig": st.sampled_from(
            [
                {"url": "https://a:1/b", "caBundle": "Cg=="},
                {"service": {"namespace": "a", "name": "b"}},
                {"service": {"namespace": "a", "name": "b", "path": "/c/d", "port": 1}},
            ]
        ),
        "sideEffects": st.sampled_from(["None", "NoneOnDryRun"]),
        "admissionReviewVersions": st.sampled_from([["v1"], ["v9", "v1beta1", "v1"]]),
    },
    optional={
        "rules": st.lists(RULES),
        "failurePolicy": st.sampled_from(["Fail", "Ignore"]),
        "timeoutSeconds": st.integers(1, 30),
        "objectSelector": st.sampled_from(
            [
                {},
                {"matchLabels": {"a": ""}},
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            ]
        ),
    },
)


@given(GOOD)
def test_a_good_configuration(entry: dict[str, Any]) -> None:
    for kind in KINDS:
        assert list(problems(kind, configuration(entry))) == []
    (found,) = webhooks(configuration(entry), mutating=True)
    assert found.review_version in ("v1", "v1beta1")
    assert found.endpoint.url or found.endpoint.service
