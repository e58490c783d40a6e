"""Selectors of labels and fields: which are refused, and what the others choose."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kapilite.builtin import rules
from kapilite.definitions import crds
from kapilite.errors import ApiError
from kapilite.reads.selectors import parse_fields, parse_labels, supported_fields
from server_support import made_definitions

MANY = settings(max_examples=1500)
REFUSED = "refused"


# ---- labels ----

keys = st.sampled_from(["a", "b", "x.io/a", "", "-a", "A" * 64, "x/y/z"])
values = st.sampled_from(["", "1", "v", "2", "a b", "é", "V" * 64])
terms = st.one_of(
    st.builds("{}{}{}".format, keys, st.sampled_from(["=", "==", "!=", " = ", ">", "<"]), values),
    st.builds(
        "{} {} ({})".format,
        keys,
        st.sampled_from(["in", "notin", "IN"]),
        st.lists(values, max_size=3).map(",".join),
    ),
    keys,
    keys.map("!{}".format),
    st.text("ab=!(),in ", max_size=8),
)


@MANY
@given(
    text=st.lists(terms, max_size=3).map(",".join),
    labels=st.dictionaries(st.sampled_from(["a", "b", "x.io/a"]), st.sampled_from(["", "1", "v"])),
)
def test_label_selectors(checker: Any, text: str, labels: dict[str, str]) -> None:
    answer = checker.ask("labels", selector=text, labels=labels)
    theirs = REFUSED if REFUSED in answer or answer.get("errors") else answer["matches"]
    try:
        ours: Any = parse_labels(text)({"metadata": {"labels": labels}})
    except ApiError:
        ours = REFUSED
    assert ours == theirs, (text, labels, answer)


expressions = st.fixed_dictionaries(
    {"key": keys, "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "in", ""])},
    optional={"values": st.lists(values, max_size=2)},
)
selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(keys, values, max_size=2),
        "matchExpressions": st.lists(expressions, max_size=3),
    },
)


@MANY
@given(
    selector=selectors,
    labels=st.dictionaries(st.sampled_from(["a", "b", "x.io/a"]), st.sampled_from(["", "1", "v"])),
)
def test_label_selectors_of_objects(
    checker: Any, selector: dict[str, Any], labels: dict[str, str]
) -> None:
    answer = checker.ask("labels", object=selector, labels=labels)
    problems = [(p.field, p.message) for p in rules.selector("selector", selector)]
    errors = [(error["field"], error["message"]) for error in answer.get("errors") or ()]
    assert sorted(problems) == sorted(errors), selector
    if not errors:
        assert rules.chooses(selector, labels) == answer["matches"], (selector, labels)


# ---- fields ----


class Everything(tuple[str, ...]):
    """Of field labels."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True


labels_of_fields = st.sampled_from(["a", "b.c", "", " a", "a!", "a\\"])
escaped = st.text("ax\\,=! é", max_size=5)
field_terms = st.one_of(
    st.builds("{}{}{}".format, labels_of_fields, st.sampled_from(["=", "==", "!="]), escaped),
    st.text("ab.=!\\, ", max_size=6),
)
found_fields = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("a", "b.c"), st.sampled_from(["", "x", "a,b", "=", "\\"]))
)


@MANY
@given(text=st.lists(field_terms, max_size=3).map(",".join), fields=found_fields)
def test_field_selectors(checker: Any, text: str, fields: dict[str, str]) -> None:
    if re.search("(^|,)!?=", text):
        return  # the empty label, which no kind has
    answer = checker.ask("fields", selector=text, fields=fields)
    obj: dict[str, Any] = {"a": fields.get("a"), "b": {"c": fields.get("b.c")}}
    try:
        ours: Any = parse_fields(text, Everything())(obj)
    except ApiError:
        ours = REFUSED
    assert ours == answer.get("matches", REFUSED), (text, fields, answer)


paths = st.sampled_from([".spec.a", ".spec.b", ".spec.c", ".spec.d.e", ".top"])
TYPES = {"a": "string", "b": "integer", "c": "boolean"}
contents = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from(["", "x", "a,b=c"]),
        "b": st.sampled_from([0, -1, 2**53 + 1]),
        "c": st.booleans(),
        "d": st.fixed_dictionaries({}, optional={"e": st.sampled_from(["", "x"])}),
    },
)


@settings(max_examples=150)
@given(
    chosen=st.lists(paths, min_size=1, unique=True), spec=contents, top=st.sampled_from(["", "y"])
)
def test_selectable_fields(checker: Any, chosen: list[str], spec: dict[str, Any], top: str) -> None:
    crd = definition(chosen)
    assert checker.ask("define", definition=crd, name="selectable")["errors"] == []
    obj = {"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "n"}, "spec": spec}
    obj["top"] = top
    theirs = checker.ask("object", definition="selectable", version="v1", object=obj)["fields"]
    crds.default_names(crd)
    crd["status"] = crds.established(crd, None)
    (kind,) = crds.kinds(crd)
    supported = supported_fields(kind)
    assert set(supported) == {*theirs, "metadata.namespace"}
    for label, value in theirs.items():
        text = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        assert parse_fields(f"{label}={text}", supported)(obj), (label, value, obj)
        assert not parse_fields(f"{label}={text}0", supported)(obj), (label, value, obj)


def definition(chosen: list[str]) -> dict[str, Any]:
    known = {name: {"type": type_} for name, type_ in TYPES.items()}
    inner = {"type": "object", "properties": {"e": {"type": "string"}}}
    spec = {"type": "object", "properties": {**known, "d": inner}}
    schema = {"type": "object", "properties": {"spec": spec, "top": {"type": "string"}}}
    fields = [{"jsonPath": path} for path in chosen]
    return made_definitions.definition(schema, selectableFields=fields)
