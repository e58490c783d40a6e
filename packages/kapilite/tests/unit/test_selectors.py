"""Selectors choose what Kubernetes would choose, and refuse the rest in its words."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.reads.selectors import parse_fields, parse_labels, supported_fields
from kapilite.storage.store import encode

GPU = {"metadata": {"name": "a", "namespace": "lab", "labels": {"kind": "gpu", "x.io/slot": "1"}}}
BARE = {"metadata": {"name": "b"}}

keys = st.sampled_from(["a", "b", "example.com/c", "in", "notin"])
values = st.sampled_from(["", "1", "x-1.y_2", "in"])
label_sets = st.dictionaries(keys, values)


def objects(labels: dict[str, str]) -> dict[str, object]:
    return {"metadata": {"labels": labels}}


@pytest.mark.parametrize(
    ("text", "gpu", "bare"),
    [
        ("", True, True),
        ("kind", True, False),
        ("!kind", False, True),
        ("! kind", False, True),
        ("kind=gpu", True, False),
        ("kind==gpu", True, False),
        ("kind = nic", False, False),
        ("kind!=gpu", False, True),
        ("kind!=nic", True, True),
        ("kind in (gpu,nic)", True, False),
        ("kind in ( nic )", False, False),
        ("kind notin (gpu)", False, True),
        ("kind notin (nic)", True, True),
        ("x.io/slot=1,kind=gpu", True, False),
        ("x.io/slot=1 , kind=nic", False, False),
        ("kind=", False, False),
        ("kind in (,gpu)", True, False),
        ("kind in (gpu,)", True, False),
        ("kind=in", False, False),
        ("kind in ()", False, False),
        ("kind notin ()", True, True),
        ("x.io/slot>0", True, False),
        ("x.io/slot > 1", False, False),
        ("x.io/slot<2", True, False),
        ("kind>0", False, False),
    ],
)
def test_a_label_selector_chooses(text: str, gpu: bool, bare: bool) -> None:
    selector = parse_labels(text)
    assert (selector(GPU), selector(BARE)) == (gpu, bare)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a in b", "found 'b', expected: '('"),
        ("a in (b", "found '', expected: ',', ')' or identifier"),
        ("a in (b c)", "found 'c', expected: ',', ')' or identifier"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a<", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("!", "found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=(", "found '(', expected: identifier"),
        ("-a=b", 'key: Invalid value: "-a"'),
        ("/a=b", 'key: Invalid value: "/a"'),
        ("a/b/c=d", 'key: Invalid value: "a/b/c"'),
        ("UPPER/a=d", 'key: Invalid value: "UPPER/a"'),
        ("a=b/c", 'Invalid value: "b/c"'),
        ("a=" + "x" * 64, "no more than 63"),
        ("a=b\n=c", "expected: ',' or 'end of string'"),
    ],
)
def test_a_malformed_label_selector_is_a_bad_request(text: str, part: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(text)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert part in caught.value.message


@given(st.text())
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    for parse in (parse_labels, parse_fields):
        try:
            selector = parse(text)
        except ApiError as error:
            assert error.code == 400  # noqa: PT017 - either outcome is right
        else:
            assert selector({}) in {True, False}


@given(st.recursive(st.none() | st.integers() | st.text(), lambda s: st.dictionaries(keys, s)))
def test_no_object_breaks_a_selector(odd: object) -> None:
    for obj in ({"metadata": odd}, {"metadata": {"labels": odd, "name": odd}}):
        assert parse_labels("a in (x)")(obj) in {True, False}
        assert parse_fields("metadata.name=x")(obj) in {True, False}


@given(label_sets, keys, values, values)
def test_an_operator_and_its_opposite_divide_all_objects(
    labels: dict[str, str], key: str, one: str, other: str
) -> None:
    obj = objects(labels)
    assert parse_labels(f"{key}={one}")(obj) != parse_labels(f"{key}!={one}")(obj)
    chosen = parse_labels(f"{key} in ({one},{other})")(obj)
    assert chosen != parse_labels(f"{key} notin ({one},{other})")(obj)
    assert chosen == any(parse_labels(f"{key}={value}")(obj) for value in (one, other))
    assert parse_labels(key)(obj) != parse_labels(f"!{key}")(obj)


@given(label_sets, st.lists(st.tuples(keys, st.sampled_from(["=", "!="]), values), max_size=4))
def test_a_comma_is_and(labels: dict[str, str], terms: list[tuple[str, str, str]]) -> None:
    obj = objects(labels)
    texts = ["".join(term) for term in terms]
    assert parse_labels(",".join(texts))(obj) == all(parse_labels(text)(obj) for text in texts)


scalars = st.sampled_from(
    ["a", "x-1.y_2", "é", 'a"b', "", "true", "false", "1e3", 1, 10**20, 1.5, True]
)


@given(label_sets, keys, st.sampled_from(["=", "!="]), values)
def test_what_is_chosen_by_a_label_has_the_texts_that_a_list_looks_for_first(
    labels: dict[str, str], key: str, operator: str, value: str
) -> None:
    selector = parse_labels(f"{key}{operator}{value}")
    stored = encode({"apiVersion": "v1", "kind": "A", **objects(labels)})
    assert not selector(objects(labels)) or all(one in stored for one in selector.texts)


@example("unschedulable", "=", "", "false")  # empty, it reads as this
@given(st.sampled_from(["size", "unschedulable"]), st.sampled_from(["=", "!="]), scalars, scalars)
def test_what_is_chosen_by_a_field_has_the_texts_that_a_list_looks_for_first(
    field: str, operator: str, value: object, wanted: object
) -> None:
    obj = {"spec": {field: value}}
    text = "true" if wanted is True else wanted
    selector = parse_fields(f"spec.{field}{operator}{text}", (f"spec.{field}",))
    stored = encode({"apiVersion": "v1", "kind": "A", "metadata": {}, **obj})
    assert not selector(obj) or all(one in stored for one in selector.texts)


def test_the_value_of_a_selector_is_looked_for_first() -> None:
    assert parse_labels("nodename=node1").texts == (b'"node1"',)
    assert parse_fields("spec.nodeName=node1", ("spec.nodeName",)).texts == (b"node1",)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name!=a", False),
        ("metadata.name=a,metadata.namespace=lab", True),
        ("metadata.name=a,metadata.namespace=other", False),
        ("metadata.namespace=", False),
        (",metadata.name=a,", True),
    ],
)
def test_a_field_selector_chooses(text: str, chosen: bool) -> None:
    assert parse_fields(text)(GPU) is chosen


def test_an_absent_field_reads_as_empty_and_a_boolean_as_text() -> None:
    supported = ("spec.unschedulable", "metadata.namespace")
    assert parse_fields("metadata.namespace=", supported)(BARE)
    assert parse_fields("spec.unschedulable=true", supported)({"spec": {"unschedulable": True}})


def test_a_value_may_hold_escaped_separators() -> None:
    assert parse_fields(r"reason=a\,b\=c\\", ("reason",))({"reason": "a,b=c\\"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.x=1", "field label not supported: spec.x"),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: a=b"),
        (r"metadata.name=\n", r"invalid field selector: invalid escape sequence: \n"),
    ],
)
def test_a_field_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_fields(text)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_events_are_found_by_what_they_are_about() -> None:
    events = Kind(
        group="", version="v1", kind="Event", plural="events", singular="event", namespaced=True
    )
    text = "involvedObject.kind=Node,involvedObject.name=n1,type!=Normal"
    chosen = parse_fields(text, supported_fields(events))
    event = {"involvedObject": {"kind": "Node", "name": "n1"}, "type": "Warning"}
    assert chosen(event)
    assert not chosen(event | {"type": "Normal"})
