"""Rules of custom resources: when they run, what they say, what a bad one is refused with."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite.definitions import structural
from kapilite.schemas import ratcheting, validation

Object = dict[str, Any]


def root(rules: list[Object] | None = None, **properties: Any) -> Object:
    schema: Object = {"type": "object", "properties": properties}
    return schema | ({"x-kubernetes-validations": rules} if rules else {})


def found(schema: Object, new: Any, old: Any = ratcheting.ABSENT) -> list[str]:
    assert list(structural.problems(schema, "s")) == []
    return [f"{p.field}: {p.message}" for p in validation.problems(schema, new, old)]


INTEGER = {"type": "integer"}
POSITIVE = INTEGER | {"x-kubernetes-validations": [{"rule": "self > 0"}]}
SMALL = {"rule": "!has(self.n) || self.n < 10", "message": "n is too large"}


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "x: Invalid value: failed rule: self.n < 10"),
        ({"message": "n is too large"}, "x: Invalid value: n is too large"),
        (
            {"messageExpression": "'%d is too large'.format([self.n])"},
            "x: Invalid value: 12 is too large",
        ),
        (
            {"messageExpression": "self.gone", "message": "fallback"},
            "x: Invalid value: fallback",
        ),
        ({"reason": "FieldValueForbidden", "message": "no"}, "x: Forbidden: no"),
        ({"reason": "FieldValueRequired", "message": "no"}, "x: Required value: no"),
        ({"reason": "FieldValueDuplicate"}, "x: Duplicate value"),
        ({"fieldPath": ".n"}, "x.n: Invalid value: failed rule: self.n < 10"),
    ],
)
def test_a_broken_rule_reads_as_in_kubernetes(extra: Object, text: str) -> None:
    inner = root([{"rule": "self.n < 10", **extra}], n=INTEGER, gone={"type": "string"})
    assert found(root(x=inner), {"x": {"n": 12}}) == [text]
    assert found(root(x=inner), {"x": {"n": 5}}) == []


def test_an_error_in_a_rule_is_a_problem_of_the_object() -> None:
    inner = root([{"rule": "self.n < 10"}], n=INTEGER)
    assert found(root(x=inner), {"x": {}}) == [
        'x: Invalid value: "object": no such key: n evaluating rule: self.n < 10'
    ]


def test_rules_are_not_asked_about_an_unsound_object() -> None:
    schema = root([SMALL], n=INTEGER)
    texts = found(schema, {"n": "many"})
    assert texts[0].startswith('n: Invalid value: "string"')
    assert len(texts) == 2
    assert texts[1].startswith('<nil>: Invalid value: "null": some validation rules were not')


def test_rules_stand_at_every_place_and_null_has_none() -> None:
    schema = root(
        items={"type": "array", "items": POSITIVE},
        map={"type": "object", "additionalProperties": POSITIVE | {"nullable": True}},
    )
    value = {"items": [1, 0], "map": {"a.b": -1, "c": None}}
    assert [text.split(":")[0] for text in found(schema, value)] == [
        "items[1]",
        "map[a.b]",
    ]


FIXED = [{"rule": "self == oldSelf", "message": "is immutable"}]


@pytest.mark.parametrize("kind", ["string", "integer", "number", "boolean"])
def test_a_field_that_is_null_is_absent(kind: str) -> None:
    owner = {"type": kind, "nullable": True}
    rules = [{"rule": "!has(self.owner)", "message": "has an owner"}]
    schema = root(rules, owner=owner)
    assert found(schema, {"owner": None}) == []
    assert found(schema, {}) == []


def test_an_object_with_a_null_equals_nothing() -> None:
    schema = root(x=root(FIXED, owner={"type": "string", "nullable": True}))
    assert found(schema, {"x": {"owner": "a"}}, {"x": {"owner": "a"}}) == []
    same = {"x": {"owner": None}}
    assert found(schema, same, same) == ["x: Invalid value: is immutable"]


def test_transition_rules_need_an_old_value_at_the_same_place() -> None:
    schema = root(x=INTEGER | {"x-kubernetes-validations": FIXED})
    assert found(schema, {"x": 1}) == []
    assert found(schema, {"x": 1}, {}) == []
    assert found(schema, {"x": 1}, {"x": 1}) == []
    assert found(schema, {"x": 2}, {"x": 1}) == ["x: Invalid value: 2: is immutable"]
    assert found(schema, {}, {"x": 1}) == [], "removed, and free to come again with another value"


def test_an_optional_old_value_lets_a_rule_run_on_creation() -> None:
    rule = {"rule": "oldSelf.orValue(0) < self", "optionalOldSelf": True, "message": "must grow"}
    schema = root(x=INTEGER | {"x-kubernetes-validations": [rule]})
    assert found(schema, {"x": 1}) == []
    assert found(schema, {"x": 0}) == ["x: Invalid value: 0: must grow"]
    assert found(schema, {"x": 3}, {"x": 3}) == ["x: Invalid value: 3: must grow"]


def test_what_an_update_leaves_alone_may_stay_invalid() -> None:
    schema = root(
        a=root([SMALL], n=INTEGER),
        b={"type": "string", "maxLength": 2},
        c={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    )
    old = {"a": {"n": 99}, "b": "long", "c": ["x", "x"]}
    assert len(found(schema, old)) == 3  # two problems and the rule that was not asked
    assert found(schema, old, old) == []
    assert found(schema, old | {"d": 1}, old) == []
    assert found(schema, old | {"a": {"n": 98}}, old) == ["a: Invalid value: n is too large"]
    assert found(schema, old | {"b": "longer"}, old)[0].startswith("b: Too long")


EACH_WITH_EACH = {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}


def test_a_rule_that_costs_too_much_is_stopped() -> None:
    numbers = {"type": "array", "items": INTEGER, "maxItems": 100}
    schema = root(x=numbers | {"x-kubernetes-validations": [EACH_WITH_EACH]})
    (text,) = found(schema, {"x": list(range(100))})
    assert "call cost exceeds limit" in text


@pytest.mark.parametrize("rule", [{"rule": "true", "fieldPath": ".x"}, {"rule": "self.("}])
def test_a_rule_that_cannot_be_read_is_named_where_there_is_a_default(rule: Object) -> None:
    sub = {"type": "object", "default": {}, "x-kubernetes-validations": [rule]}
    (wrong,) = structural.problems(root(a=sub), "s")
    assert wrong.field.startswith("s.properties[a].x-kubernetes-validations[0].")


def test_rules_that_may_cost_too_much_are_refused_with_their_definition() -> None:
    """Each by itself, and all together; an update may keep what is served."""
    numbers = {"type": "array", "items": INTEGER, "x-kubernetes-validations": [EACH_WITH_EACH]}
    each = "s.properties[x].x-kubernetes-validations[0].rule"
    refused = list(structural.problems(root(x=numbers), "s"))
    assert [one.field for one in refused] == [each, each, "s"]
    assert "estimated rule cost exceeds budget by factor of more than 100x" in refused[0].message

    kept = structural.problems(root(x=numbers), "s", is_kept=True)
    assert [one.field for one in kept] == [each, "s"]

    bounded = numbers | {"maxItems": 100}
    assert list(structural.problems(root(x=bounded), "s")) == []
    many = root(**{f"x{index}": bounded for index in range(12)})
    assert [one.field for one in structural.problems(many, "s")][-1] == "s"


@pytest.mark.parametrize(
    ("rule", "field", "part"),
    [
        ({"rule": " "}, "rule", "rule is not specified"),
        ({"rule": "self.n"}, "rule", "cel expression must evaluate to a bool"),
        ({"rule": "self.m > 1"}, "rule", "undefined field 'm'"),
        ({"rule": "nonsense(self)"}, "rule", "undeclared reference to 'nonsense'"),
        ({"rule": "self.n > 1", "messageExpression": "1"}, "messageExpression", "to a string"),
        ({"rule": "self.n > 1", "message": "a\nb"}, "message", "line breaks"),
        ({"rule": "self.n > 1", "reason": "Because"}, "reason", "Unsupported value"),
        ({"rule": "self.n > 1", "fieldPath": ".m"}, "fieldPath", "valid field"),
        ({"rule": "self.n > 1", "fieldPath": "n"}, "fieldPath", "expected [ or ."),
        ({"rule": "self.n > 1", "optionalOldSelf": True}, "optionalOldSelf", "oldSelf is not used"),
    ],
)
def test_a_bad_rule_is_refused_with_the_place(rule: Object, field: str, part: str) -> None:
    (problem,) = structural.problems(root([rule], n=INTEGER), "s")
    assert problem.field == f"s.x-kubernetes-validations[0].{field}"
    assert part in problem.message


def test_the_identity_of_a_resource_is_always_there() -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-validations": [{"rule": "self.kind == 'Pod' && self.metadata.name != ''"}],
    }
    schema = root([{"rule": "self.metadata.name.startsWith('a')"}], pod=embedded)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"free": 1}}
    assert found(schema, {"metadata": {"name": "ab"}, "pod": pod}) == []
    texts = found(schema, {"metadata": {"name": "b"}, "pod": pod | {"kind": "Node"}})
    assert [text.split(":")[0] for text in texts] == ["<nil>", "pod"]
