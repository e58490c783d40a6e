"""Objects as Hypothesis makes them for a schema: most values fit it, many do not quite."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from server_support.made_schemas import Made, Object, values

_TEXTS = ("", "a", "aa", "ab", "aaa", "é", "\U0001f600", "10", "1.2.3.4", "2020-01-02", "1h", "b\n")
_INTEGERS = (0, 1, 2, 3, 5, -1, 10, 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 2**63, 2**70)
_NUMBERS = (*_INTEGERS, 0.5, 1.0, -0.0, 1e3, 2.5, 1.5, 1e30, -2.5, 2.0**53, 1e-7)

texts = st.sampled_from(_TEXTS)
_OWNERS: list[Object] = [
    {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": True},
    {"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"},
    {"kind": "A", "nothing": 1},
]
_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", "A/b", "", 1, ".."]),
        "generateName": st.sampled_from(["a-", "a%", ""]),
        "namespace": st.sampled_from(["a", "a.b", ""]),
        "generation": st.sampled_from([0, 1, -1, 1.5]),
        "labels": st.sampled_from([{"a": "b"}, {"a b": "c"}, {"a": "b c"}, {}, None, {"a": 1}]),
        "annotations": st.sampled_from([{"a": "b c"}, {"a b": "c"}, {}]),
        "creationTimestamp": st.sampled_from([None, "2020-01-02T03:04:05Z", "yesterday"]),
        "finalizers": st.sampled_from(
            [[], ["a.example/b"], None, ["a b"], ["orphan", "foregroundDeletion"]]
        ),
        "ownerReferences": st.lists(st.sampled_from(_OWNERS), max_size=2),
        "managedFields": st.sampled_from([[], [{"manager": "a"}], [{"operation": "Apply"}], {}]),
        "nothing": st.just(1),
    },
)
_IDENTITY: dict[str, Made] = {
    "apiVersion": st.sampled_from(["v1", "v1", "example.com/v1", "a/b/c", "", 1, None]),
    "kind": st.sampled_from(["A", "A", "a b", "", 1, None]),
    "metadata": _METADATA | st.sampled_from([None, {}, 1]),
}


def fitting(schema: Object, depth: int = 0) -> Made:
    """Values for a schema; one of ten is any, and one of ten null."""
    good = _of_type(schema, depth)
    choices = [good] * 7
    if schema.get("enum"):
        choices += [st.sampled_from(schema["enum"])] * 3
    return st.one_of(*choices, values, st.none())


def _of_type(schema: Object, depth: int) -> Made:
    if schema.get("x-kubernetes-int-or-string"):
        return texts | st.sampled_from(_NUMBERS)
    match schema.get("type"):
        case "string":
            return texts
        case "integer" | "number":
            return st.sampled_from(_NUMBERS)
        case "boolean":
            return st.booleans()
        case "array":
            items = schema.get("items")
            return st.lists(
                fitting(items, depth + 1) if isinstance(items, dict) else values, max_size=3
            )
        case "object":
            return _object(schema, depth)
    return values


def _object(schema: Object, depth: int) -> Made:
    fields = {
        name: fitting(sub, depth + 1) for name, sub in (schema.get("properties") or {}).items()
    }
    if schema.get("x-kubernetes-embedded-resource"):
        fields = _IDENTITY | fields
    wanted = {name: fields[name] for name in schema.get("required") or () if name in fields}
    others = {name: made for name, made in fields.items() if name not in wanted}
    named = st.fixed_dictionaries(wanted, optional=others)
    extra = schema.get("additionalProperties")
    inner = fitting(extra, depth + 1) if isinstance(extra, dict) else values
    more = st.dictionaries(st.sampled_from(["a", "d", "a.b", "é"]), inner, max_size=2)
    if isinstance(extra, dict) and not fields:
        return more
    return st.one_of(named, named, st.builds(lambda a, b: {**b, **a}, named, more))


@st.composite
def objects(draw: st.DrawFn, schema: Object) -> Object:
    """An object of the kind `A` with this schema for its root, as a server would read it."""
    made = draw(_object(schema, 0))
    whole = {**made, "apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"}}
    read: Object = msgspec.json.decode(msgspec.json.encode(whole))
    return read
