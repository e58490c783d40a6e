"""Schemas as Hypothesis makes them: most of them right, many slightly wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]
Made = st.SearchStrategy[Any]

NAMES = ("a", "b", "c", "a-b")
FORMATS = (
    *("int32", "int64", "float", "double", "byte", "date", "date-time", "datetime", "duration"),
    *("ipv4", "ipv6", "cidr", "uri", "email", "hostname", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
    *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "password"),
    *("bsonobjectid", "k8s-short-name", "k8s-long-name", "no-such-format", ""),
)
PATTERNS = ("^a+$", "b", "", r"\d", "(?i)A", "(", "^.{2}$", r"\p{L}", "(?=a)", "[")

values = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2, -1, 5, 2**31, 2**63 - 1, 2**63, 1.0, 1.5, -0.0, 1e3, 1e30])
    | st.sampled_from(["", "a", "aa", "ab", "é", "1.2.3.4", "2020-01-02", "1h", "10"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "kind"]), inner, max_size=3)
    ),
    max_leaves=4,
)

_limits = st.sampled_from([0, 1, 1, 2, 2, 3])
_numbers = st.sampled_from([0, 1, 2, 5, 10, -1, 2.5, 0.5, -2.5, 2**31, 2**63, 1e30])
_texts = st.sampled_from(["", "a"])
_keys = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2)

_rules = st.sampled_from(
    [
        {"rule": "true"},
        {"rule": "true", "message": "a", "reason": "FieldValueInvalid", "fieldPath": ".a"},
        {"rule": " "},
        {"rule": "true", "message": " "},
        {"rule": "true", "message": "a\nb"},
        {"rule": "true &&\ntrue"},
        {"rule": "true", "messageExpression": " "},
        {"rule": "true", "reason": "Other"},
        {"rule": "true", "fieldPath": " "},
    ]
)

# What restricts a value may stand everywhere; the rest says what the value is.
_RESTRICTIONS: dict[str, Made] = {
    "format": st.sampled_from(FORMATS),
    "enum": st.lists(values, min_size=1, max_size=3),
    "pattern": st.sampled_from(PATTERNS),
    "maximum": _numbers,
    "minimum": _numbers,
    "exclusiveMaximum": st.booleans(),
    "exclusiveMinimum": st.booleans(),
    "multipleOf": _numbers,
    "maxLength": _limits,
    "minLength": _limits,
    "maxItems": _limits,
    "minItems": _limits,
    "maxProperties": _limits,
    "minProperties": _limits,
    "required": _keys,
}
_STATEMENTS: dict[str, Made] = {
    "type": st.sampled_from(
        ["string", "integer", "number", "boolean", "array", "object", "null", "x", ""]
    ),
    "nullable": st.booleans(),
    "default": values,
    "title": _texts,
    "description": _texts,
    "uniqueItems": st.booleans(),
    "additionalProperties": st.booleans() | st.just({"type": "string"}),
    "items": st.just({"type": "string"}),
    "x-kubernetes-preserve-unknown-fields": st.booleans(),
    "x-kubernetes-embedded-resource": st.booleans(),
    "x-kubernetes-int-or-string": st.booleans(),
    "x-kubernetes-list-type": st.sampled_from(["atomic", "set", "map", "other"]),
    "x-kubernetes-list-map-keys": _keys,
    "x-kubernetes-map-type": st.sampled_from(["atomic", "granular", "other"]),
    "x-kubernetes-validations": st.lists(_rules, min_size=1, max_size=2),
}
_UNSERVED: dict[str, Made] = {
    "id": st.just("a"),
    "$schema": st.just("a"),
    "$ref": st.sampled_from(["", "#/a"]),
    "additionalItems": st.booleans(),
    "patternProperties": st.just({"a": {"type": "string"}}),
    "definitions": st.just({"a": {"type": "string"}}),
    "dependencies": st.just({"a": ["b"]}),
    "items": st.just([{"type": "string"}]),
    "externalDocs": st.just({"url": "a"}),
    "example": values,
    "nothing": st.just(1),
}
_MISTYPED: dict[str, Made] = dict.fromkeys(
    (*_RESTRICTIONS, *_STATEMENTS, "$ref", "example", "properties", "allOf", "not"), values
)


def pairs(table: dict[str, Made]) -> Made:
    """An entry of a table of names, with a value of its own."""
    return st.one_of([st.tuples(st.just(name), made) for name, made in table.items()])


_restrictions = st.lists(pairs(_RESTRICTIONS), max_size=2).map(dict)


def _logic(inner: Made) -> Made:
    subs = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        st.builds(lambda a, b: {**a, **b}, _restrictions, inner),
        st.builds(lambda sub, name: {"properties": {name: sub}}, inner, st.sampled_from(NAMES)),
        st.builds(lambda sub: {"items": sub}, inner),
        st.builds(lambda sub: {"not": sub}, inner),
        st.builds(
            lambda subs, name: {name: subs}, subs, st.sampled_from(["allOf", "anyOf", "oneOf"])
        ),
    )


_CHOICE = [{"type": "integer"}, {"type": "string"}]
logic = st.recursive(_restrictions, _logic, max_leaves=3)
_alternatives = st.one_of(
    st.just({}),
    st.builds(
        lambda subs, name: {name: subs},
        st.lists(logic, min_size=1, max_size=3),
        st.sampled_from(["allOf", "anyOf", "oneOf"]),
    ),
    st.builds(lambda sub: {"not": sub}, logic),
    st.sampled_from([{"anyOf": _CHOICE}, {"allOf": [{"anyOf": _CHOICE}]}]),
)

_scalars = st.sampled_from(["string", "integer", "number", "boolean"]).map(lambda t: {"type": t})
_leaves = st.one_of(
    _scalars,
    _scalars,
    st.sampled_from(
        [
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": _CHOICE},
            {"x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        ]
    ),
)


def _kept(table: dict[str, Made], sound: Callable[[Object], Object]) -> Callable[[Made], Made]:
    """Schemas around others, with some keywords more."""
    more = st.lists(pairs(table), max_size=4).map(dict)

    def around(inner: Made) -> Made:
        fields = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
        shapes = st.one_of(
            fields.map(lambda found: {"type": "object", "properties": found}),
            inner.map(lambda sub: {"type": "object", "additionalProperties": sub}),
            inner.map(lambda sub: {"type": "array", "items": sub}),
            fields.map(
                lambda found: {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a"],
                    "items": {
                        "type": "object",
                        "required": ["a"],
                        "properties": {**found, "a": {"type": "string"}},
                    },
                }
            ),
            fields.map(
                lambda found: {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {**found, "kind": {"type": "string"}},
                }
            ),
        )
        return st.builds(
            lambda shape, added, choice: sound({**shape, **added, **choice}),
            shapes | _leaves,
            more,
            _alternatives,
        )

    return around


def _as_it_is(schema: Object) -> Object:
    return schema


ODD = {**_RESTRICTIONS, **_STATEMENTS}
odd_schemas = st.recursive(_leaves, _kept({**ODD, **_UNSERVED}, _as_it_is), max_leaves=5)
mistyped_schemas = st.recursive(_leaves, _kept(_MISTYPED, _as_it_is), max_leaves=3)


def _sound(schema: Object) -> Object:
    """Without what is refused in most places."""
    return {
        name: value
        for name, value in schema.items()
        if not (name == "pattern" and value in ("(", "[", "(?=a)"))
    }


_FITTING = {
    **_RESTRICTIONS,
    "nullable": st.booleans(),
    "default": values,
}
schemas = st.recursive(_leaves, _kept(_FITTING, _sound), max_leaves=6)
"""Most of these are accepted."""


_OF_TEXTS = ("maxLength", "minLength", "pattern", "enum", "format")
_OF_NUMBERS = (
    *("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "enum", "format"),
)


def _restricted(kind: str, names: tuple[str, ...]) -> Made:
    table = {name: _RESTRICTIONS[name] for name in names}
    more = st.lists(pairs(table), min_size=1, max_size=3).map(dict)
    return more.map(lambda found: _sound({"type": kind, **found}))


restricted = st.one_of(
    _restricted("string", _OF_TEXTS),
    _restricted("integer", _OF_NUMBERS),
    _restricted("number", _OF_NUMBERS),
)
"""Schemas of texts and numbers with the keywords that are for them."""
