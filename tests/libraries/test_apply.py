"""Server-side apply by several managers: the object, the owners of its fields, the conflicts."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kapilite.apply import manage
from kapilite.errors import ApiError
from server_support.made_definitions import definition
from server_support.made_schemas import Object

Shape = Any
"""What a field is: a word, or a word and what is in it."""

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
SCALARS: dict[str, Object] = {
    "text": TEXT,
    "number": NUMBER,
    "nullable": {**TEXT, "nullable": True},
    "either": {"x-kubernetes-int-or-string": True},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
# Containers have something in them: which of several empty ones stay is left to the library.
names = st.sampled_from("abc")
words = st.sampled_from(["x", "y", "z"])
few = st.integers(0, 2)


def shapes() -> st.SearchStrategy[Shape]:
    return st.recursive(
        st.sampled_from(sorted(SCALARS)),
        lambda inner: st.one_of(
            st.tuples(st.just("map"), inner),
            st.tuples(st.just("atomic map"), inner),
            st.tuples(st.sampled_from(["struct", "atomic struct"]), fields(inner)),
            st.tuples(st.sampled_from(["list", "atomic list"]), inner),
            st.tuples(st.just("set"), st.sampled_from(["text", "number"])),
            st.tuples(st.sampled_from(["by name", "by name and number"]), fields(inner)),
        ),
        max_leaves=8,
    )


def fields(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[dict[str, Shape]]:
    return st.dictionaries(names, inner, min_size=1, max_size=3)


def schema(shape: Shape) -> Object:
    if isinstance(shape, str):
        return SCALARS[shape]
    what, inner = shape
    match what:
        case "map" | "atomic map":
            found: Object = {"type": "object", "additionalProperties": schema(inner)}
        case "struct" | "atomic struct":
            found = {"type": "object", "properties": {k: schema(v) for k, v in inner.items()}}
        case "by name" | "by name and number":
            keys = ["name", "number"] if "number" in what else ["name"]
            known = {"name": TEXT, "number": NUMBER} | {k: schema(v) for k, v in inner.items()}
            element = {"type": "object", "required": keys, "properties": known}
            kept = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
            return {"type": "array", "items": element, **kept}
        case _:
            kind = {"list": {}}.get(what, {"x-kubernetes-list-type": what.partition(" ")[0]})
            return {"type": "array", "items": schema(inner), **kind}
    return found | ({"x-kubernetes-map-type": "atomic"} if "atomic" in what else {})


def values(shape: Shape) -> st.SearchStrategy[Any]:
    if isinstance(shape, str):
        return {
            "text": words,
            "number": few,
            "nullable": st.one_of(words, st.none()),
            "either": st.one_of(words, few),
            "any": st.dictionaries(
                names,
                st.recursive(st.one_of(words, few, st.none()), lists_and_maps, max_leaves=4),
                min_size=1,
            ),
        }[shape]
    what, inner = shape
    match what:
        case "map" | "atomic map":
            return st.dictionaries(words, values(inner), min_size=1, max_size=2)
        case "struct" | "atomic struct":
            known = {k: values(v) for k, v in inner.items()}
            return st.fixed_dictionaries({}, optional=known).filter(bool)
        case "set":
            return st.lists(values(inner), min_size=1, max_size=3, unique=True)
        case "by name" | "by name and number":
            keys = {"name": words, "number": few} if "number" in what else {"name": words}
            return st.lists(
                st.fixed_dictionaries(keys, optional={k: values(v) for k, v in inner.items()}),
                min_size=1,
                max_size=3,
                unique_by=lambda element: (element["name"], element.get("number")),
            )
    return st.lists(values(inner), min_size=1, max_size=2)


def lists_and_maps(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=2),
        st.dictionaries(names, inner, min_size=1, max_size=2),
    )


@st.composite
def stories(draw: st.DrawFn) -> tuple[Object, list[tuple[str, str, Object]]]:
    """A schema, and writes: how, by whom, and what."""
    spec = draw(fields(shapes()))
    known = schema(("struct", spec))
    bodies = st.fixed_dictionaries(
        {"spec": values(("struct", spec))},
        optional={"labels": st.dictionaries(words, words, max_size=2)},
    )
    how = st.sampled_from(["apply", "apply", "force", "update"])
    steps = st.lists(
        st.tuples(how, st.sampled_from(["m1", "m2", "m3"]), bodies), min_size=1, max_size=5
    )
    return {"type": "object", "properties": {"spec": known}}, draw(steps)


# ---- what both make of a write ----


def ours(known: Object, live: Object | None, how: str, manager: str, new: Object) -> Any:
    about: Object = {"manager": manager, "subresource": "", "now": "2026-01-01T00:00:00Z"}
    if how == "update":
        entries = manage.updated(known, live, new, **about)
        return {**new, "metadata": {**new["metadata"], "managedFields": entries}}
    try:
        return manage.applied(
            known,
            live,
            new,
            kind="A",
            api_version="example.com/v1",
            force=how == "force",
            **about,
        )
    except ApiError as error:
        return [(cause["field"], cause["message"]) for cause in error.details["causes"]]


def theirs(checker: Any, live: Object | None, how: str, manager: str, new: Object) -> Any:
    answer = checker.ask(
        "apply",
        definition="things",
        version="v1",
        object=new,
        manager=manager,
        force=how == "force",
        update=how == "update",
        **({"live": live} if live else {}),
    )
    assert "refused" not in answer, answer
    if "conflicts" in answer:
        return [(cause["field"], cause["message"]) for cause in answer["conflicts"]]
    return answer["object"]


def told(written: Any) -> Any:
    """The conflicts; or the object without its entries, and these without their times."""
    if isinstance(written, list):
        return sorted(written)  # Kubernetes names the managers in any order
    meta = dict(written["metadata"])
    entries = [{**entry, "time": ""} for entry in meta.pop("managedFields", None) or []]
    entries.sort(key=lambda entry: (entry["manager"], entry["operation"]))
    return {**written, "metadata": meta}, entries


def emptied(written: Any, found: Any) -> Any:
    """With what was emptied left empty: Kubernetes makes it null, and then refuses the object."""
    if written is None and found in ({}, []):
        return found
    if isinstance(written, dict) and isinstance(found, dict):
        return {key: emptied(inner, found.get(key)) for key, inner in written.items()}
    if isinstance(written, list) and isinstance(found, list) and len(written) == len(found):
        return [emptied(*pair) for pair in zip(written, found, strict=True)]
    return written


@settings(max_examples=350)
@given(story=stories())
def test_managers_apply_and_update(
    checker: Any, story: tuple[Object, list[tuple[str, str, Object]]]
) -> None:
    known, steps = story
    assert checker.ask("define", definition=definition(known), name="things")["errors"] == []
    live: Object | None = None
    for how, manager, body in steps:
        meta = {"name": "x"} | ({"labels": body["labels"]} if "labels" in body else {})
        new = {
            "apiVersion": "example.com/v1",
            "kind": "A",
            "metadata": meta,
            "spec": body["spec"],
        }
        written = theirs(checker, live, how, manager, new)
        found = ours(known, live, how, manager, msgspec.json.decode(msgspec.json.encode(new)))
        if not isinstance(written, list):
            written = emptied(written, found)
        assert told(found) == told(written), (known, steps, live, how, manager, new)
        live = live if isinstance(written, list) else written
