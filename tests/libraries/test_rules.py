"""Rules within definitions, judged and evaluated by kapilite and by Kubernetes' libraries."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server_support.made_definitions import definition, root
from server_support.writes import DEFINITIONS, Judged, Object, kinds_of, written
from support.expressions import expressions

MANY = settings(max_examples=800, print_blob=True)
NAME = "rules.example.com"

TEXT: Object = {"type": "string", "maxLength": 10}
SPEC: Object = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "d": {"type": "number"},
        "b": {"type": "boolean"},
        "s": TEXT,
        "none": {**TEXT, "nullable": True},
        "raw": {"type": "string", "format": "byte", "maxLength": 8},
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "span": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": True, "maxLength": 5},
        "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
        "words": {
            "type": "array",
            "items": TEXT,
            "maxItems": 4,
            "x-kubernetes-list-type": "set",
        },
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
        "keyed": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": TEXT, "v": {"type": "integer"}},
            },
        },
        "a-b": {"type": "object", "properties": {"if": {"type": "integer"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
FIELDS = {
    "n": "int",
    "d": "double",
    "b": "bool",
    "s": "string",
    "none": "string",
    "raw": "bytes",
    "when": "time",
    "day": "time",
    "span": "span",
    "port": "dyn",
    "list": "ints",
    "words": "strings",
    "map": "pairs",
    "a__dash__b.__if__": "int",
    "keyed[0].k": "string",
    "keyed[0].?v": "opt_int",
    "?none": "opt_string",
    "open.x": "int",
    "zz": "int",
}
SCOPE = {
    f"{who}.spec.{field}": kind for who in ("self", "oldSelf") for field, kind in FIELDS.items()
}
_texts = st.sampled_from(["", "a", "b", "12", "é", "a-b"])
_specs: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([0, 7, -1, 2**63 - 1, 3.0]),
        "d": st.sampled_from([0, 1.5, 2, -1e300]),
        "b": st.booleans(),
        "s": _texts,
        "none": st.none() | _texts,
        "raw": st.sampled_from(["", "YWJj", "/w=="]),
        "when": st.sampled_from(["2020-02-29T01:02:03Z", "2020-02-29t01:02:03.5+05:30"]),
        "day": st.sampled_from(["2020-02-29", "0001-01-01"]),
        "span": st.sampled_from(["1h", "1.5s", "-1m", "3 days"]),
        "port": st.sampled_from([80, "http", "1", 0]),
        "list": st.lists(st.sampled_from([0, 1, 2]), max_size=3),
        "words": st.lists(_texts, max_size=3, unique=True),
        "map": st.dictionaries(_texts, st.sampled_from([1, 2]), max_size=2),
        "keyed": st.lists(
            st.fixed_dictionaries({"k": _texts}, optional={"v": st.sampled_from([1, 2])}),
            max_size=2,
            unique_by=lambda item: item["k"],
        ),
        "a-b": st.fixed_dictionaries({}, optional={"if": st.sampled_from([1, 2])}),
        "open": st.fixed_dictionaries({}, optional={"x": st.sampled_from([1, "a"])}),
    },
)


def ruled(rules: list[str], place: tuple[str, ...] = (), limits: bool = True) -> Object:
    """A definition with rules at one place; lists without limits may be of any length."""
    schema = copy.deepcopy(root({"spec": SPEC}))
    if not limits:
        del schema["properties"]["spec"]["properties"]["keyed"]["maxItems"]
    at = schema
    for name in place:
        at = at["items"] if name == "items" else at["properties"][name]
    at["x-kubernetes-validations"] = [{"rule": rule, "message": "no"} for rule in rules]
    return definition(schema)


def thing(crd: Object, spec: Object) -> Object:
    kind = crd["spec"]["names"]["kind"]
    group = crd["spec"]["group"]
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def theirs(answer: Any) -> Any:
    return {(error["type"], error["field"]) for error in answer["errors"]}


def ours(found: Judged) -> Any:
    return set(found.errors)


def judge(checker: Any, crd: Object, spec: Object, old: Object | None) -> None:
    """Both refuse the definition for the same, or both find the same wrong with the object."""
    answer = checker.ask("define", name=NAME, definition=crd)
    defined = written(DEFINITIONS, crd)
    assert ours(defined) == theirs(answer), (defined, answer)
    if defined.stored is None:
        return
    kind = kinds_of(defined.stored)["v1"]
    sent, before = thing(crd, spec), None if old is None else thing(crd, old)
    question = {"object": sent} | ({} if before is None else {"old": before})
    answer = checker.ask("object", definition=NAME, version="v1", **question)
    found = written(kind, sent, before)
    assert ours(found) == theirs(answer), (spec, old, found, answer)


@MANY
@given(rule=expressions(SCOPE, "bool"), spec=_specs, old=st.none() | _specs)
def test_rules(checker: Any, rule: str, spec: Object, old: Object | None) -> None:
    judge(checker, ruled([rule]), spec, old)


ITEM = {"self.k": "string", "oldSelf.k": "string", "self.?v": "opt_int", "self": "dyn"}


@MANY
@given(
    rules=st.lists(expressions(ITEM, "bool"), min_size=1, max_size=4),
    limits=st.booleans(),
    spec=_specs,
    old=st.none() | _specs,
)
def test_rules_of_items(
    checker: Any, rules: list[str], spec: Object, old: Object | None, *, limits: bool
) -> None:
    """What they cost depends on how many items there can be; all count together."""
    judge(checker, ruled(rules, ("spec", "keyed", "items"), limits), spec, old)
