"""Structural schemas: pruning, defaulting, and what is wrong with a value in Kubernetes' words."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.definitions import structural
from kapilite.schemas import comparing, schema, validation


def spec(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }


def texts(sub: dict[str, Any], value: Any) -> list[str]:
    found = validation.problems(spec(x=sub), {"spec": {"x": value}})
    return [f"{p.field}: {p.message}" for p in found]


@pytest.mark.parametrize(
    ("sub", "value", "text"),
    [
        (
            {"type": "boolean"},
            "yes",
            'spec.x: Invalid value: "string": spec.x in body must be of type boolean: "string"',
        ),
        (
            {"type": "integer"},
            True,
            'spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"',
        ),
        (
            {"type": "string"},
            None,
            'spec.x: Invalid value: "null": spec.x in body must be of type string: "null"',
        ),
        (
            {"type": "array", "items": {"type": "string"}},
            ["a", 1],
            (
                'spec.x[1]: Invalid value: "integer": '
                'spec.x[1] in body must be of type string: "integer"'
            ),
        ),
        (
            {"type": "string", "enum": ["a", "b"]},
            "c",
            'spec.x: Unsupported value: "c": supported values: "a", "b"',
        ),
        (
            {"type": "string", "pattern": "^a+$"},
            "b",
            "spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'",
        ),
        ({"type": "object", "required": ["y"]}, {}, "spec.x.y: Required value"),
        (
            {"type": "integer", "minimum": 1},
            0,
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            {"type": "integer", "maximum": 5, "exclusiveMaximum": True},
            5,
            "spec.x: Invalid value: 5: spec.x in body should be less than 5",
        ),
        (
            {"type": "string", "minLength": 1},
            "",
            'spec.x: Invalid value: "": spec.x in body should be at least 1 chars long',
        ),
        (
            {"type": "string", "maxLength": 2},
            "abc",
            "spec.x: Too long: may not be more than 2 bytes",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            "spec.x: Too many: 2: must have at most 1 items",
        ),
        (
            {"type": "string", "format": "date-time"},
            "yesterday",
            (
                'spec.x: Invalid value: "yesterday": '
                'spec.x in body must be of type date-time: "yesterday"'
            ),
        ),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            (
                '<nil>: Invalid value: "": Checked value must be of type integer with format '
                "int32 in spec.x"
            ),
        ),
        (
            {"type": "number", "maximum": 1000000},
            2000000.5,
            (
                "spec.x: Invalid value: 2.0000005e+06: "
                "spec.x in body should be less than or equal to 1e+06"
            ),
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            3,
            'spec.x: Unsupported value: 3: supported values: "1", "2"',
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            'spec.x[1]: Duplicate value: "a"',
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            },
            [{"k": "a"}, {"k": "b"}, {"k": "a"}],
            'spec.x[2]: Duplicate value: {"k":"a"}',
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            {"apiVersion": "v1"},
            "spec.x.kind: Required value",
        ),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            (
                'spec.x: Invalid value: "number": '
                'spec.x in body must be of type integer,string: "number"'
            ),
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"k": 1},
            (
                'spec.x.k: Invalid value: "integer": '
                'spec.x.k in body must be of type string: "integer"'
            ),
        ),
        (
            {"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]},
            "ab",
            (
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema '
                "(oneOf). Found 2 valid alternatives"
            ),
        ),
    ],
)
def test_problems_read_as_on_a_real_server(sub: dict[str, Any], value: Any, text: str) -> None:
    assert texts(sub, value) == [text]


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
def test_a_long_value_is_told_of_a_few_times_only(word: str) -> None:
    alternatives = [{"pattern": f"^a{n}$"} for n in range(3000)]
    (text,) = texts({"type": "string", word: alternatives}, "b" * 1_000_000)
    assert text.startswith("<nil>: Forbidden: the object is too large for a schema")


@pytest.mark.parametrize(
    ("sub", "value"),
    [
        ({"type": "string", "nullable": True}, None),
        ({"type": "number"}, 3),
        ({"type": "integer"}, 3.0),
        ({"type": "integer", "format": "int64"}, 2**63 - 1),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"x-kubernetes-int-or-string": True}, 50),
        ({"type": "string", "format": "date-time"}, "2026-11-21T11:45:45.123456789Z"),
        ({"type": "string", "format": "no-such-format"}, "anything"),
        ({"type": "string", "pattern": r"^[$]a\.\$$"}, "$a.$"),
        ({"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]}, "b"),
        ({"type": "string", "not": {"pattern": "a"}}, "b"),
        ({"x-kubernetes-preserve-unknown-fields": True}, [{"a": 1}, None]),
    ],
)
def test_good_values_have_no_problems(sub: dict[str, Any], value: Any) -> None:
    assert texts(sub, value) == []


def test_an_anchor_means_the_end_and_not_before_a_newline() -> None:
    assert texts({"type": "string", "pattern": "^a$"}, "a\n") != []


def test_pruning_keeps_what_is_known() -> None:
    tree = {
        "type": "object",
        "properties": {
            "known": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
            "open": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"shut": {"type": "object"}},
            },
            "map": {"type": "object", "additionalProperties": {"type": "object"}},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": True},
        },
    }
    value = {
        "apiVersion": "v1",
        "kind": "X",
        "metadata": {"name": "a"},
        "known": [{"a": 1, "b": 2}],
        "open": {"free": 1, "shut": {"lost": 1}},
        "map": {"k": {"lost": 1}},
        "inner": {"apiVersion": "v1", "kind": "Y", "metadata": {}, "lost": 1},
        "lost": 1,
    }
    unknown = schema.fit(tree, value)
    assert sorted(unknown) == [
        "inner.lost",
        "known[0].b",
        "lost",
        "map.k.lost",
        "open.shut.lost",
    ]
    assert "lost" not in repr(value)
    assert value["open"] == {"free": 1, "shut": {}}


def test_defaults_fill_what_is_missing_and_null() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    tree = spec(
        a={"type": "string", "default": "x"},
        b={"type": "string", "default": "x", "nullable": True},
        c={"type": "string"},
        d={"type": "string", "nullable": True},
        items={"type": "array", "items": item},
        deep={"type": "object", "default": {}, "properties": item["properties"]},
    )
    value = {"spec": {"a": None, "b": None, "c": None, "d": None, "items": [{}, {"n": 2}]}}
    schema.default(tree, value)
    assert value["spec"] == {
        "a": "x",
        "b": None,
        "d": None,
        "items": [{"n": 1}, {"n": 2}],
        "deep": {"n": 1},
    }


def test_a_default_is_not_shared_between_objects() -> None:
    tree = spec(m={"type": "object", "default": {}})
    one: dict[str, Any] = {"spec": {}}
    two: dict[str, Any] = {"spec": {}}
    schema.default(tree, one)
    schema.default(tree, two)
    one["spec"]["m"]["x"] = 1
    assert two["spec"]["m"] == {}


RULE = [{"rule": "self == oldSelf", "message": "is immutable"}]


def test_transition_rules_compare_with_the_same_place_before() -> None:
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "properties": {
                "k": {"type": "string"},
                "v": {"type": "integer", "x-kubernetes-validations": RULE},
            },
        },
    }
    by_name = {
        "type": "object",
        "additionalProperties": {"type": "integer", "x-kubernetes-validations": RULE},
    }
    tree = spec(items=keyed, map=by_name)
    old = {"spec": {"items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "map": {"x.y": 1}}}
    moved = {"spec": {"items": [{"k": "b", "v": 2}, {"k": "c", "v": 9}], "map": {"z": 3}}}
    changed = {"spec": {"items": [{"k": "b", "v": 3}], "map": {"x.y": 2}}}

    assert validation.problems(tree, moved, old) == []
    fields = [p.field for p in validation.problems(tree, changed, old)]
    assert fields == ["spec.items[0].v", "spec.map[x.y]"]
    assert validation.problems(tree, changed) == [], "a new object has no before"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=10,
)
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "default": 3, "minimum": 0},
        "b": {"type": "array", "items": {"type": "object", "properties": {"a": {}, "c": {}}}},
        "c": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
    },
}


@given(values)
def test_pruning_and_defaulting_are_idempotent_and_total(value: Any) -> None:
    schema.fit(TREE, value)
    once = copy.deepcopy(value)
    assert schema.fit(TREE, value) == []
    assert value == once
    validation.problems(TREE, value, value)


@given(values)
def test_equality_is_that_of_json(value: Any) -> None:
    assert comparing.same(value, copy.deepcopy(value))
    assert not comparing.same([True], [1])
    assert not comparing.same({"a": 0}, {"a": False})


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    flags = {"nullable": st.booleans(), "x-kubernetes-preserve-unknown-fields": st.just(True)}
    fields = st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    return (
        st.fixed_dictionaries({"type": st.just("object"), "properties": fields}, optional=flags)
        | st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner})
        | st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner}, optional={"maxItems": st.integers(0, 3)}
        )
    )


leaves = st.sampled_from(
    [
        {"type": "string", "default": "x", "maxLength": 2},
        {"type": "string", "format": "duration", "nullable": True},
        {"type": "integer", "default": 3, "minimum": 0, "multipleOf": 3},
        {"type": "number", "maximum": 0.5, "nullable": True},
        {"type": "boolean", "x-kubernetes-validations": [{"rule": "self || !self"}]},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-preserve-unknown-fields": True},
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    ]
)
schemas = st.dictionaries(
    st.sampled_from("abcd"), st.recursive(leaves, _schemas, max_leaves=8), min_size=1
).map(lambda fields: {"type": "object", "properties": fields})


@given(schemas, values, values)
def test_every_accepted_schema_takes_every_value(tree: Any, value: Any, old: Any) -> None:
    assert list(structural.problems(tree, "s")) == []
    schema.fit(tree, value)
    once = copy.deepcopy(value)
    assert schema.fit(tree, value) == []
    assert value == once
    validation.problems(tree, value, old)
    assert value == once, "looking at a value leaves it alone"
    if "x-kubernetes-embedded-resource" not in json.dumps(tree):  # these have to be whole
        assert validation.problems(tree, value, value) == [], "what stays as it was is let pass"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("uri", "http://a.example/x?y", "a b"),
        ("email", "x@y.example", "x@"),
        ("hostname", "a-b.example", "-a"),
        ("ipv4", "10.0.0.1", "::1"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.1/24", "10.0.0.1/33"),
        ("mac", "01-23-45-67-89-AB", "01:23"),
        ("uuid", "550e8400e29b41d4a716446655440000", "550e8400"),
        (
            "uuid3",
            "550e8400-e29b-31d4-a716-446655440000",
            "550e8400-e29b-41d4-a716-446655440000",
        ),
        (
            "uuid4",
            "550e8400-e29b-41d4-a716-446655440000",
            "550e8400-e29b-51d4-a716-446655440000",
        ),
        (
            "uuid5",
            "550e8400-e29b-51d4-a716-446655440000",
            "550e8400-e29b-41d4-a716-446655440000",
        ),
        ("isbn", "978-0-306-40615-7", "978-0-306-40615-8"),
        ("isbn10", "0-306-40615-2", "0-306-40615-3"),
        ("isbn13", "9780306406157", "0306406152"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "123-45-6789", "123456789"),
        ("hexcolor", "#a1b2c3", "#ffff"),
        ("rgbcolor", "rgb(1, 2, 3)", "rgb(1,2,300)"),
        ("byte", "YQ==", ""),
        ("date", "2020-02-29", "2020-02-30"),
        ("duration", "2 weeks", "3 foo"),
        ("datetime", "2020-01-02t03:04:05z", "2020-01-02 03:04:05Z"),
        ("date-time", "2020-01-02T03:04:05.123456789+02:00", "2020-01-02T25:04:05Z"),
    ],
)
def test_formats_are_those_of_kubernetes(name: str, good: str, bad: str) -> None:
    schema_ = {"type": "string", "format": name}
    assert texts(schema_, good) == []
    assert len(texts(schema_, bad)) == 1
