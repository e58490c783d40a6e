"""Sets of fields: their algebra, and the format in which managedFields carry them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.apply import elements
from kapilite.apply.fieldset import EMPTY, FieldSet, MalformedFields, shown

scalars = st.one_of(st.text(max_size=3), st.integers(-3, 3), st.booleans(), st.floats(-2, 2))
steps = st.one_of(
    st.sampled_from("abc").map(lambda name: f"f:{name}"),
    st.text(max_size=3).map(lambda name: f"f:{name}"),
    scalars.map(elements.value),
    st.lists(
        st.tuples(st.sampled_from("xyz"), scalars), min_size=1, unique_by=lambda pair: pair[0]
    ).map(elements.key),
    st.integers(0, 3).map(lambda index: f"i:{index}"),
)
paths = st.lists(steps, min_size=1, max_size=4).map(tuple)
sets = st.lists(paths, max_size=12).map(FieldSet.of)


@given(sets)
def test_what_is_written_is_read_again(fields: FieldSet) -> None:
    wire = json.loads(json.dumps(fields.encode()))
    assert FieldSet.decode(wire) == fields
    assert FieldSet.decode(wire).encode() == fields.encode()


@given(st.lists(paths, max_size=12))
def test_a_set_has_the_paths_it_was_made_of(given_paths: list[tuple[str, ...]]) -> None:
    fields = FieldSet.of(given_paths)
    assert set(fields) == set(given_paths)
    assert len(list(fields)) == len(set(given_paths))
    assert all(path in fields for path in given_paths)
    assert bool(fields) == bool(given_paths)


@given(sets, sets)
def test_the_operations_are_those_of_sets(left: FieldSet, right: FieldSet) -> None:
    a, b = set(left), set(right)
    assert set(left | right) == a | b
    assert set(left & right) == a & b
    assert set(left - right) == a - b
    assert set(left.without(right)) == {
        path for path in a if not any(path[: i + 1] in b for i in range(len(path)))
    }


@given(sets, sets)
def test_equal_sets_are_equal_however_they_came_about(left: FieldSet, right: FieldSet) -> None:
    rebuilt = (left - right) | (left & right)
    assert rebuilt == left
    assert hash(rebuilt) == hash(left)
    assert (left == right) == (set(left) == set(right))
    assert left - left == EMPTY


@given(sets, sets)
def test_an_operation_changes_neither_set(left: FieldSet, right: FieldSet) -> None:
    before = left.encode(), right.encode()
    _ = left | right, left & right, left - right, left.without(right)
    assert (left.encode(), right.encode()) == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.one_of(
                st.text(max_size=5),
                st.sampled_from(
                    [".", "f:a", "k:{}", 'k:{"a":1}', "k:[", "v:1", "v:", "i:x", "i:1", "q:"]
                ),
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(json_values)
def test_whatever_a_client_sends_is_a_set_or_malformed(wire: Any) -> None:
    try:
        fields = FieldSet.decode(wire)
    except MalformedFields:
        return
    assert FieldSet.decode(fields.encode()) == fields


def test_too_deep_a_set_is_malformed() -> None:
    wire: dict[str, Any] = {}
    for _ in range(400):
        wire = {"f:a": wire}
    with pytest.raises(MalformedFields):
        FieldSet.decode(wire)


def test_the_same_step_written_differently_is_one_step() -> None:
    one = FieldSet.decode({'k:{"name":"a","port":80}': {"f:x": {}}})
    other = FieldSet.decode({'k:{ "port": 80.0, "name": "a" }': {"f:x": {}}})
    assert one == other
    assert [elements.value(item) for item in (1, 1.0, True, 0, False)] == [
        "v:1",
        "v:1",
        "v:true",
        "v:0",
        "v:false",
    ]
    assert FieldSet.decode({"v:1": {}}) != FieldSet.decode({"v:true": {}})


def test_the_wire_format_is_sorted_as_kubernetes_sorts_it() -> None:
    wire = {
        "f:spec": {
            "i:10": {},
            "i:9": {},
            'v:"b"': {},
            'k:{"port":80}': {"f:port": {}, ".": {}},
            "v:2": {},
            'k:{"port":9}': {},
            "f:z": {},
            "f:a": {"f:b": {}, ".": {}},
        }
    }
    text = json.dumps(FieldSet.decode(wire).encode(), separators=(",", ":"))
    assert text == (
        r'{"f:spec":{"f:a":{".":{},"f:b":{}},"f:z":{},"k:{\"port\":9}":{},'
        r'"k:{\"port\":80}":{".":{},"f:port":{}},"v:2":{},"v:\"b\"":{},"i:9":{},"i:10":{}}}'
    )


def test_steps_of_a_later_version_are_passed_over() -> None:
    assert FieldSet.decode({"x:new": {"f:a": {}}, "f:b": {}}) == FieldSet.of([("f:b",)])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:a", elements.key([("port", 80), ("name", "x")])), '.a[name="x",port=80]'),
        (("f:a", elements.value("x")), '.a[="x"]'),
        (("f:a", elements.value(True)), ".a[=true]"),
        (("f:a", "i:3"), ".a[3]"),
    ],
)
def test_paths_are_shown_as_kubernetes_shows_them(path: tuple[str, ...], text: str) -> None:
    assert shown(path) == text
