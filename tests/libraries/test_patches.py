"""Patches: which are refused, and what becomes of a document."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kapilite.errors import ApiError
from kapilite.patches import json_patch, patch

REFUSED = "refused"

names = st.sampled_from(["a", "b", "c", "0", "-", "a/b", "~", "", "é"])
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


documents = st.dictionaries(names, values(scalars), max_size=4)

# ---- JSON patches ----

parts = st.sampled_from(["a", "b", "c", "0", "1", "2", "-", "-1", "-2", "+1", "01", "9", "a~1b"])
odd = st.sampled_from(["", "~0", "~", "~2", "~01", "é", " 1", "1.0", "9" * 30])
pointers = st.one_of(
    st.lists(st.one_of(parts, parts, odd), min_size=1, max_size=3).map(
        lambda found: "".join(f"/{part}" for part in found)
    ),
    st.sampled_from(["", "a", "a/b", "/a/"]),
)
contents = values(st.one_of(scalars, st.just(1.0)))


def operation(name: str, *fields: str) -> st.SearchStrategy[dict[str, Any]]:
    known = {"path": pointers, "from": pointers, "value": contents}
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
    more = change.draw(st.sampled_from(["", "/a", "/-", "/0", "/b/c"]))
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
