"""The laws of server-side apply, on objects with every kind of list and map."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from kapilite.apply import manage, trees, types
from kapilite.apply.fieldset import EMPTY, FieldSet
from kapilite.errors import ApiError

Object = dict[str, Any]

TEXT = {"type": "string"}
PORT = {
    "type": "object",
    "required": ["name", "port"],
    "properties": {
        "name": TEXT,
        "port": {"type": "integer"},
        "val": TEXT,
        "opts": {"type": "object", "additionalProperties": TEXT},
    },
}
SPEC: dict[str, Any] = {
    "map": {"type": "object", "additionalProperties": TEXT},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "name"],
        "items": PORT,
    },
    "atomicList": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "atomic"},
    "atomicMap": {
        "type": "object",
        "additionalProperties": TEXT,
        "x-kubernetes-map-type": "atomic",
    },
    "tree": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "text": TEXT,
    "either": {"x-kubernetes-int-or-string": True},
    "maybe": {"type": "string", "nullable": True},
    "deep": {
        "type": "object",
        "properties": {
            "a": TEXT,
            "inner": {"type": "object", "properties": {"x": TEXT, "y": TEXT}},
        },
    },
}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}
KIND = types.of_kind(SCHEMA)

words = st.sampled_from("abc")
maps = st.dictionaries(words, words, max_size=3)
trees_of_json = st.recursive(
    words | st.booleans() | st.integers(0, 2) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
ports = st.lists(
    st.fixed_dictionaries(
        {"name": words, "port": st.integers(1, 2)}, optional={"val": words, "opts": maps}
    ),
    max_size=4,
    unique_by=lambda item: (item["name"], item["port"]),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "map": maps,
    "set": st.lists(words, unique=True),
    "ports": ports,
    "atomicList": st.lists(words, max_size=2),
    "atomicMap": maps,
    "tree": st.dictionaries(words, trees_of_json, max_size=3),
    "text": words,
    "either": words | st.integers(0, 2),
    "maybe": words | st.none(),
    "deep": st.fixed_dictionaries(
        {}, optional={"a": words, "inner": st.dictionaries(st.sampled_from("xy"), words)}
    ),
}


def object_of(meta: Object, spec: Object | None) -> Object:
    obj = {"apiVersion": "lab.example.com/v1", "kind": "Rig", "metadata": {"name": "r", **meta}}
    return obj if spec is None else {**obj, "spec": spec}


metas = st.fixed_dictionaries({}, optional={"labels": maps, "annotations": maps})
specs = st.fixed_dictionaries({}, optional=FIELDS)
objects = st.builds(object_of, metas, st.none() | specs)
managers = st.sampled_from(["m1", "m2", "m3"])
steps = st.tuples(st.sampled_from(["apply", "put"]), managers, objects)
lives = st.lists(steps, min_size=1, max_size=5)


class Clock:
    """Every write has a time of its own."""

    def __init__(self) -> None:
        self.second = 0

    def __call__(self) -> str:
        self.second += 1
        return f"2026-01-01T00:{self.second // 60:02}:{self.second % 60:02}Z"


def apply(
    live: Object | None, sent: Object, manager: str, now: str, *, force: bool = True
) -> Object:
    return manage.applied(
        SCHEMA,
        live,
        sent,
        kind="Rig",
        api_version="lab.example.com/v1",
        manager=manager,
        force=force,
        subresource="",
        now=now,
    )


def put(live: Object | None, new: Object, manager: str, now: str) -> Object:
    owners = manage.updated(SCHEMA, live, new, manager=manager, subresource="", now=now)
    meta = {k: v for k, v in new["metadata"].items() if k != "managedFields"}
    return {**new, "metadata": {**meta, **({"managedFields": owners} if owners else {})}}


def lived(history: list[tuple[str, str, Object]], clock: Clock) -> Object:
    """The object that comes of these writes."""
    live: Object | None = None
    for verb, manager, obj in history:
        live = (apply if verb == "apply" else put)(live, obj, manager, clock())
    assert live is not None
    return live


def owners_of(obj: Object) -> dict[tuple[str, str], FieldSet]:
    return {
        (entry["manager"], entry["operation"]): FieldSet.decode(entry["fieldsV1"])
        for entry in obj["metadata"].get("managedFields", [])
    }


def bare(obj: Object) -> Object:
    return {
        **obj,
        "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"},
    }


def own(sent: Object) -> FieldSet:
    return trees.fields(KIND, sent) - manage.NEVER_OWNED


def leaves(sent: Object) -> FieldSet:
    """What was applied but for empty maps and lists, and nulls."""
    full = without_empty(sent)
    return trees.fields(KIND, full) - manage.NEVER_OWNED


def without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {name: without_empty(item) for name, item in value.items()}
    return {name: item for name, item in kept.items() if item not in ({}, [], None)}


def reformed(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a value took another form, so that nothing of what was in it can be left."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() & after.keys():
            yield from reformed(before[name], after[name], (*path, f"f:{name}"))
    elif type(before) is not type(after):
        yield path


laws = settings(
    max_examples=-(-settings.default.max_examples * 60 // 100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@laws
@given(lives, managers, objects)
def test_applying_twice_is_applying_once(
    history: list[tuple[str, str, Object]], manager: str, sent: Object
) -> None:
    clock = Clock()
    once = apply(lived(history, clock), sent, manager, clock())
    assume(owners_of(once))  # an object that never had an owner looks as if it were of older times
    assert apply(once, sent, manager, clock()) == once


@laws
@given(lives, managers, objects)
def test_a_manager_owns_precisely_what_it_applied_last(
    history: list[tuple[str, str, Object]], manager: str, sent: Object
) -> None:
    clock = Clock()
    merged = apply(lived(history, clock), sent, manager, clock())
    assert owners_of(merged).get((manager, "Apply"), EMPTY) == own(sent)


@laws
@given(lives, managers, objects)
@example([("apply", "m1", object_of({}, {}))], "m1", object_of({}, {"set": []}))
@example([("apply", "m1", object_of({}, {"map": {}}))], "m1", object_of({}, {"set": []}))
def test_what_is_applied_is_there(
    history: list[tuple[str, str, Object]], manager: str, sent: Object
) -> None:
    clock = Clock()
    merged = apply(lived(history, clock), sent, manager, clock())
    # An empty map or list only says that it is there: what others put into it stays.
    change = trees.compare(KIND, sent, merged)
    assert not change.modified & leaves(sent)
    assert not change.removed


@laws
@given(lives, managers, objects)
def test_a_forced_apply_takes_what_it_changes_from_everybody_else(
    history: list[tuple[str, str, Object]], manager: str, sent: Object
) -> None:
    clock = Clock()
    live = lived(history, clock)
    merged = apply(live, sent, manager, clock())
    touched = trees.compare(KIND, bare(live), bare(merged)).touched
    for (name, operation), fields in owners_of(merged).items():
        if (name, operation) != (manager, "Apply"):
            assert not fields & touched


@laws
@given(lives, managers, objects)
def test_an_apply_is_refused_exactly_where_others_own_what_it_would_change(
    history: list[tuple[str, str, Object]], manager: str, sent: Object
) -> None:
    clock = Clock()
    live = lived(history, clock)
    before = copy.deepcopy(live)
    forced = apply(live, sent, manager, clock())
    try:
        merged = apply(live, sent, manager, clock(), force=False)
    except ApiError as error:
        refusal = error
    else:
        assert bare(merged) == bare(forced)
        assert owners_of(merged) == owners_of(forced)
        return
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert {cause["reason"] for cause in refusal.details["causes"]} == {"FieldManagerConflict"}
    assert bare(live) != bare(forced)
    assert live == before


@laws
@given(lives, managers, objects)
@example(
    [("apply", "m1", object_of({}, {"tree": {"a": {"a": None}}}))],
    "m2",
    object_of({}, {"tree": {"a": "a"}}),
)
def test_only_what_no_other_manager_owns_is_removed(
    history: list[tuple[str, str, Object]], manager: str, sent: Object
) -> None:
    clock = Clock()
    live = lived(history, clock)
    merged = apply(live, sent, manager, clock())
    removed = trees.compare(KIND, bare(live), bare(merged)).removed
    removed = removed.without(FieldSet.of(reformed(live, merged)))
    last = owners_of(live).get((manager, "Apply"), EMPTY)
    assert not removed.without(trees.named(KIND, last)), "something that it never applied went"
    for key, fields in owners_of(live).items():
        if key != (manager, "Apply"):
            assert not fields & removed & last
            # Only the item or key that it alone owns takes along what is in it.
            assert not (fields & removed).without(last)


@laws
@given(objects, objects)
def test_managers_of_different_fields_do_not_get_in_each_others_way(
    one: Object, other: Object
) -> None:
    for path in ("labels", "annotations"):
        if path in one["metadata"]:
            other["metadata"].pop(path, None)
    if one.get("spec") and other.get("spec"):
        other["spec"] = {k: v for k, v in other["spec"].items() if k not in one["spec"]}
    # Whether a map is there at all is a fact that both would tell.
    one, other = without_empty(one), without_empty(other)
    clock = Clock()
    start = apply(None, object_of({}, None), "m0", clock())
    here, there = start, start
    for manager, sent in (("m1", one), ("m2", other)):
        here = apply(here, sent, manager, clock(), force=False)
    for manager, sent in (("m2", other), ("m1", one)):
        there = apply(there, sent, manager, clock(), force=False)
    assert bare(here) == bare(there)
    assert owners_of(here) == owners_of(there)


@laws
@given(lives, managers, objects)
def test_an_update_alone_owns_what_it_changes(
    history: list[tuple[str, str, Object]], manager: str, new: Object
) -> None:
    clock = Clock()
    live = lived(history, clock)
    assume(live["metadata"].get("managedFields"))
    stored = put(live, new, manager, clock())
    change = trees.compare(KIND, bare(live), bare(stored))
    touched = change.touched - manage.NEVER_OWNED
    after = owners_of(stored)
    assert not touched - after.get((manager, "Update"), EMPTY)
    for key, fields in after.items():
        assert fields, "an entry that owns nothing"
        assert not fields & change.removed
        if key != (manager, "Update"):
            assert not fields & touched


@laws
@given(lives, managers)
def test_a_write_that_changes_nothing_changes_no_owner(
    history: list[tuple[str, str, Object]], manager: str
) -> None:
    clock = Clock()
    live = lived(history, clock)
    first = put(live, bare(live), manager, clock())
    assert put(first, bare(live), manager, clock()) == first
    assert bare(first) == bare(live)
    assert first["metadata"].get("managedFields", []) == [] or {
        (entry["manager"], entry["operation"], entry["time"])
        for entry in first["metadata"]["managedFields"]
    } <= {
        (entry["manager"], entry["operation"], entry["time"])
        for entry in live["metadata"]["managedFields"]
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "labels", "finalizers", "managedFields", "spec", "port", *SPEC]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)
hostile = st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values).map(
    lambda body: {"apiVersion": "lab.example.com/v1", "kind": "Rig", **body}
)


@laws
@given(lives, hostile, st.booleans(), st.sampled_from(["kubectl", "m1"]))
def test_whatever_is_applied_is_merged_or_refused_as_an_api_error(
    history: list[tuple[str, str, Object]], sent: Object, force: bool, manager: str
) -> None:
    clock = Clock()
    live = lived(history, clock)
    try:
        apply(live, sent, manager, clock(), force=force)
    except ApiError as error:
        refusal = error
    else:
        return
    assert refusal.code in (400, 409)
    assert refusal.message


entries = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "manager": words | json_values,
            "operation": st.sampled_from(["Apply", "Update", "update", ""]) | json_values,
            "apiVersion": st.just("v1") | json_values,
            "time": st.sampled_from(["2026-01-01T00:00:00Z", "x", "0001-01-01T00:00:00+23:00"])
            | json_values,
            "fieldsType": st.just("FieldsV1") | json_values,
            "fieldsV1": st.just({"f:spec": {"f:text": {}}}) | json_values,
            "subresource": st.just("status") | json_values,
        },
    )
    | json_values,
    max_size=3,
)


@laws
@given(lives, objects, entries | json_values)
def test_whatever_managed_fields_a_client_sends_the_outcome_can_be_read(
    history: list[tuple[str, str, Object]], new: Object, sent: Any
) -> None:
    clock = Clock()
    live = lived(history, clock)
    new["metadata"]["managedFields"] = sent
    stored = put(live, new, "m1", clock())
    for entry in stored["metadata"].get("managedFields", []):
        assert FieldSet.decode(entry["fieldsV1"])
    assert apply(stored, object_of({}, {"text": "a"}), "m2", clock())
