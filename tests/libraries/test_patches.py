"""Patches: which are refused, and what becomes of a document."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kapilite import builtin
from kapilite.errors import ApiError
from kapilite.patches import json_patch, patch

REFUSED = "refused"

names = st.sampled_from(["a", "a", "b", "b", "c", "0", "-", "a/b", "~", "", "é"])
scalars = st.one_of(
    st.booleans(), st.integers(-2, 2), st.sampled_from([1.5, 1e22, "", "x", "1", "é"])
)


def values(within: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """With nulls in maps alone: over one in a list the library for JSON patches stumbles."""
    return st.recursive(
        within,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(names, st.one_of(inner, inner, st.none()), max_size=3),
        ),
        max_leaves=8,
    )


lists = st.lists(scalars, min_size=1, max_size=3)
documents = st.dictionaries(names, st.one_of(values(scalars), lists), min_size=1, max_size=4)

# ---- JSON patches ----

parts = st.sampled_from(
    ["a", "a", "b", "b", "c", "0", "1", "2", "-", "-1", "-2", "+1", "01", "9", "a~1b"]
)
odd = st.sampled_from(["", "~0", "~", "~2", "~01", "é", " 1", "1.0", "9" * 30])
pointers = st.one_of(
    st.lists(st.one_of(parts, parts, odd), min_size=1, max_size=3).map(
        lambda found: "".join(f"/{part}" for part in found)
    ),
    st.sampled_from(["", "a", "a/b", "/a/"]),
)
contents = values(scalars)
tested = values(st.one_of(scalars, st.just(1.0)))


def operation(name: str, *fields: str) -> st.SearchStrategy[dict[str, Any]]:
    value = tested if name == "test" else contents
    known = {"path": pointers, "from": pointers, "value": value}
    return st.fixed_dictionaries({"op": st.just(name), **{field: known[field] for field in fields}})


operations = st.one_of(
    operation("add", "path", "value"),
    operation("remove", "path"),
    operation("replace", "path", "value"),
    operation("move", "from", "path"),
    operation("copy", "from", "path"),
    operation("test", "path", "value"),
    st.sampled_from([{"op": "add", "path": "/c"}, {"path": "/a"}, {"op": "add"}, {"op": None}]),
    st.sampled_from([{"op": "move", "path": "/a"}, {"op": "ADD", "path": "/a", "value": 1}]),
    st.sampled_from(
        [{"op": "test", "path": "/none", "value": None}, {"Op": "remove", "path": "/a"}]
    ),
)


def written(document: Any, change: Any) -> Any:
    try:
        return json_patch.apply(document, change)
    except ApiError:
        return REFUSED


def asked(checker: Any, how: str, document: Any, change: Any) -> Any:
    answer = checker.ask("patch", how=how, document=document, patch=change)
    return answer.get("document", REFUSED)


@settings(max_examples=1500)
@given(document=documents, change=st.lists(operations, max_size=3))
def test_json_patches(checker: Any, document: dict[str, Any], change: list[Any]) -> None:
    for one in change:
        if one.get("op") == "replace" and one["path"] == "" and not isinstance(one["value"], dict):
            return  # Kubernetes' release of the library refuses it, Debian's does nothing
    assert written(document, change) == asked(checker, "json", document, change), (document, change)


@settings(max_examples=1000)
@given(document=documents, change=st.data())
def test_json_patches_of_what_is_there(checker: Any, document: dict[str, Any], change: Any) -> None:
    """Paths that exist, one into the other: moves and copies into themselves, tests that hold."""
    there = list(places(document, ""))
    where = st.sampled_from(there or [("/a", 1)])
    source, (path, value) = change.draw(where), change.draw(where)
    more = change.draw(st.sampled_from(["", "/a", "/-", "/0", "/-1", "/-2", "/2", "/b/c"]))
    changes = [
        {"op": "test", "path": path, "value": value},
        {
            "op": change.draw(st.sampled_from(["move", "copy"])),
            "from": source[0],
            "path": path + more,
        },
    ]
    assert written(document, changes) == asked(checker, "json", document, changes), (
        document,
        changes,
    )


def places(value: Any, path: str) -> Any:
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in inside:
        here = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield here, inner
        yield from places(inner, here)


# ---- merge patches ----

anything = st.recursive(
    st.one_of(scalars, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)
maps = st.dictionaries(names, anything, max_size=4)


@settings(max_examples=1500)
@given(document=maps, change=st.one_of(maps, maps, anything))
def test_merge_patches(checker: Any, document: dict[str, Any], change: Any) -> None:
    try:
        ours: Any = patch.apply(patch.MERGE, document, change)
    except ApiError:
        ours = REFUSED
    theirs = asked(checker, "merge", document, change)
    if isinstance(theirs, list):
        theirs = REFUSED  # as no object
    assert ours == theirs, (document, change)


# ---- strategic merge patches ----

DEPLOYMENT = next(kind for kind in builtin.KINDS if kind.kind == "Deployment")
words = st.sampled_from(["a", "b", "c"])
numbers = st.sampled_from([80, 443])
texts = st.dictionaries(words, words, min_size=1, max_size=2)


# Lists and maps have something in them: the types of an object leave empty ones out.
def listed(keys: dict[str, st.SearchStrategy[Any]], **more: Any) -> st.SearchStrategy[Any]:
    """A list whose elements are known by these keys."""
    return st.lists(
        st.fixed_dictionaries(keys, optional=more),
        min_size=1,
        max_size=3,
        unique_by=lambda element: [element[key] for key in keys].__repr__(),
    )


env = listed({"name": words}, value=words)
ports = listed({"containerPort": numbers}, name=words)
containers = listed(
    {"name": words}, image=words, env=env, ports=ports, args=st.lists(words, min_size=1, max_size=2)
)
PODS: dict[str, st.SearchStrategy[Any]] = {
    "containers": containers,
    "volumes": listed({"name": words}, emptyDir=st.just({}), hostPath=st.just({"path": "/"})),
    "tolerations": st.lists(st.fixed_dictionaries({"key": words}), min_size=1, max_size=2),
    "nodeSelector": texts,
    "priorityClassName": words,
}
pods = st.fixed_dictionaries({}, optional=PODS)
metadata = st.fixed_dictionaries(
    {"name": st.just("x")},
    optional={"labels": texts, "finalizers": st.lists(words, unique=True, min_size=1, max_size=3)},
)


def deployment(meta: Any, pod: Any, **head: Any) -> dict[str, Any]:
    return {**head, "metadata": meta, "spec": {"template": {"spec": pod}}}


named = {"name": words}
directives = st.one_of(
    st.just({"$patch": "replace"}),
    st.builds(lambda name: {"name": name, "$patch": "delete"}, words),
)
patches = st.builds(
    lambda pod, meta, extra: deployment({**meta, **extra[1]}, {**pod, **extra[0]}),
    st.fixed_dictionaries(
        {},
        optional={
            **PODS,
            "containers": st.builds(
                lambda found, more: found + more, containers, st.lists(directives, max_size=1)
            ),
            "nodeSelector": st.one_of(
                st.none(),
                st.dictionaries(words, st.one_of(words, st.none()), min_size=1, max_size=2),
            ),
            "volumes": st.one_of(PODS["volumes"], st.none()),
        },
    ),
    st.fixed_dictionaries(
        {"name": st.just("x")},
        optional={"labels": texts, "finalizers": st.just(["d"])},  # nothing that is also deleted
    ),
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "$setElementOrder/containers": listed(named),
                "$patch": st.sampled_from(["replace", "merge", "delete"]),
                "$retainKeys": st.just(["containers", "nodeSelector"]),
            },
        ),
        st.fixed_dictionaries(
            {},
            optional={
                "$deleteFromPrimitiveList/finalizers": st.lists(words, min_size=1, max_size=2)
            },
        ),
    ),
)


@settings(max_examples=400)
@given(old=st.builds(deployment, metadata, pods), change=patches)
def test_strategic_merge_patches(checker: Any, old: dict[str, Any], change: dict[str, Any]) -> None:
    document = {"apiVersion": "apps/v1", "kind": "Deployment", **old}
    try:
        ours: Any = patch.apply(patch.STRATEGIC, document, change, DEPLOYMENT.schema)
    except ApiError:
        ours = REFUSED
    theirs = asked(checker, "strategic", document, change)
    assert typed(ours) == typed(theirs), (document, change)


def typed(obj: Any) -> Any:
    """As the object's type has it: without finalizers where none is left."""
    if obj == REFUSED or obj.get("metadata", {}).get("finalizers") != []:
        return obj
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "finalizers"}}
