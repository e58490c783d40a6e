"""Custom objects, judged and stored by kapilite and by Kubernetes' libraries: one outcome."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kapilite.gotext.numbers import reread
from kapilite.kinds import Kind
from server_support.made_definitions import definition, root
from server_support.made_objects import objects
from server_support.made_schemas import FORMATS, Object, restricted, schemas, values
from server_support.writes import DEFINITIONS, Judged, kept, kinds_of, written

MANY = settings(max_examples=1000)
FEWER = settings(max_examples=500)
NAME = "as.example.com"


def defined(checker: Any, crd: Object) -> Kind | None:
    """The kind that a definition makes, which the checker knows too; None where both refuse it."""
    found = written(DEFINITIONS, crd)
    answer = checker.ask("define", name=NAME, definition=crd)
    errors = frozenset((error["type"], error["field"]) for error in answer["errors"])
    assert found.errors == errors
    return kinds_of(found.stored)["v1"] if found.stored else None


def theirs(checker: Any, sent: Object, old: Object | None = None) -> Judged:
    """What the libraries say, in our terms."""
    question = {"object": sent} | ({} if old is None else {"old": old})
    answer = checker.ask("object", definition=NAME, version="v1", **question)
    if "unreadable" in answer:
        return _comparable(Judged(is_readable=False))
    errors = frozenset((error["type"], error["field"]) for error in answer["errors"])
    unknown = tuple(f'unknown field "{path}"' for path in answer["unknown"])
    return _comparable(Judged(errors=errors, unknown=unknown, stored=answer.get("object")))


def ours(kind: Kind, sent: Object, old: Object | None = None) -> Judged:
    return _comparable(written(kind, sent, old))


def _comparable(found: Judged) -> Judged:
    """Without what the server decides."""
    content = {name: value for name, value in (found.stored or {}).items() if name != "metadata"}
    return found._replace(unknown=tuple(sorted(found.unknown)), stored=_read(content))


def _read(value: Any) -> Any:
    """Numbers as Go reads them: what is stored keeps the digits that were sent."""
    if isinstance(value, dict):
        return {name: _read(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_read(item) for item in value]
    is_large = isinstance(value, int) and not -(2**63) <= value < 2**63
    return float(value) if is_large else reread(value)


at_the_root = st.sampled_from(
    [
        *({}, {}, {}, {"required": ["spec"]}, {"maxProperties": 4}, {"minProperties": 5}),
        *({"not": {"required": ["spec"]}}, {"anyOf": [{"required": ["a"]}, {"maxProperties": 4}]}),
    ]
)


@st.composite
def kinds_and_objects(draw: st.DrawFn) -> tuple[Object, Object, Object]:
    """A definition, and two objects of its kind.

    Where only the subresource reaches the status, the first has none and none by default: of what
    is dropped, kapilite does not say that it could not be read, and a default is kept at once.
    """
    status: Object = draw(st.just({"type": "object"}) | schemas)
    more: Object = {"subresources": {"status": {}}} if draw(st.booleans()) else {}
    if more:
        status = {name: value for name, value in status.items() if name != "default"}
    schema = root({"spec": draw(schemas), "status": status}, **draw(at_the_root))
    sent, old = draw(objects(schema)), draw(objects(schema))
    if more:
        sent.pop("status", None)
    return definition(schema, **more), sent, old


@MANY
@given(made=kinds_and_objects())
def test_new_objects(checker: Any, made: tuple[Object, Object, Object]) -> None:
    crd, sent, _ = made
    kind = defined(checker, crd)
    assume(kind is not None)
    assert kind is not None
    assert ours(kind, sent) == theirs(checker, sent)


@FEWER
@given(made=kinds_and_objects(), is_same=st.booleans())
def test_changes(checker: Any, made: tuple[Object, Object, Object], *, is_same: bool) -> None:
    """What was there before need not be valid: its definition may have been another."""
    crd, sent, old = made
    kind = defined(checker, crd)
    assume(kind is not None)
    assert kind is not None
    if is_same:
        old["spec"] = sent.get("spec")
    before = kept(kind, old)
    assume(before is not None)
    assert ours(kind, sent, before) == theirs(checker, sent, old)


@st.composite
def kinds_of_values(draw: st.DrawFn) -> tuple[Object, Object]:
    """A definition with a field for each of some schemas of texts and numbers, and an object."""
    made = draw(st.lists(restricted, min_size=8, max_size=8))
    schema = root({f"f{index}": one for index, one in enumerate(made)})
    return definition(schema), draw(objects(schema))


@FEWER
@given(made=kinds_of_values())
def test_texts_and_numbers(checker: Any, made: tuple[Object, Object]) -> None:
    crd, sent = made
    kind = defined(checker, crd)
    assert kind is not None
    assert ours(kind, sent) == theirs(checker, sent)


_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCALED = definition(
    root({"spec": _OPEN, "status": _OPEN}),
    subresources={
        "scale": {
            "specReplicasPath": ".spec.n",
            "statusReplicasPath": ".status.a.n",
            "labelSelectorPath": ".status.s",
        }
    },
)
_parts = st.dictionaries(st.sampled_from(["n", "a", "s"]), values | st.builds(dict, n=values))


@FEWER
@given(spec=_parts, status=_parts)
def test_scales(checker: Any, spec: Object, status: Object) -> None:
    kind = defined(checker, SCALED)
    assert kind is not None
    made = {"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"}}
    sent = msgspec.json.decode(msgspec.json.encode({**made, "spec": spec, "status": status}))
    assert ours(kind, sent) == theirs(checker, sent)


SAMPLES = (
    *("aGk=", "YQ==", "a", "2020-02-29", "2020-01-02T03:04:05Z", "2020-01-02t03:04:05.5+02:00"),
    *("1h30m", "2 weeks", "1.5h", "3d", "-1s", "1us", "1 day 2 hours", "10.0.0.1", "010.0.0.1"),
    *("::1", "::ffff:1.2.3.4", "fe80::1%eth0", "10.0.0.0/8", "::/0", "1.2.3.4/33", "01.2.3.4/8"),
    *("http://a.example/x?y#z", "/a/b", "mailto:a@b", "//a", "a:b", "x@y.example", "A <a@b>"),
    *('"a b"@c.example', "a@[1.2.3.4]", "a-b.example", "-a", "a_b", "a.b.c1", "1.a", "é.example"),
    *("01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "0123.4567.89ab.cdef"),
    *("550e8400-e29b-41d4-a716-446655440000", "550e8400e29b31d4a716446655440000"),
    *("550e8400-e29b-51d4-a716-446655440000", "550e8400-e29b-51d4-f716-446655440000"),
    *("0-306-40615-2", "0306406152", "043942089X", "978-0-306-40615-7", "9780306406157"),
    *("4111 1111 1111 1111", "378282246310005", "6011111111111117", "2221000000000009"),
    *("123-45-6789", "123 45 6789", "123456789", "12345 6789", "#fff", "a1b2c3", "#ffff"),
    *("rgb(1,2,3)", "rgb( 255 , 0,0)", "rgb(256,0,0)", "507f1f77bcf86cd799439011"),
    *("a" * 63, "a" * 64, "a-b", "a.b", "A", ".".join(["a" * 60] * 4), ".".join(["a" * 63] * 4)),
)
_characters = st.sampled_from('0123456789abcdefghxzXTZ:-./@ %#[](),+<>"\\é\n_')


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Texts of all formats, and such as are almost of one."""
    text = draw(st.sampled_from(SAMPLES))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 1))
        text = text[:at] + draw(_characters | st.just("")) + text[at + length :]
    return text


FORMATTED = definition(
    root({f"f{index}": {"type": "string", "format": name} for index, name in enumerate(FORMATS)})
)


@FEWER
@given(text=texts())
def test_formats(checker: Any, text: str) -> None:
    kind = kinds_of(written(DEFINITIONS, FORMATTED).stored or {})["v1"]
    checker.ask("define", name=NAME, definition=FORMATTED)
    sent = {"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"}}
    sent |= {f"f{index}": text for index in range(len(FORMATS))}
    found, wanted = ours(kind, sent), theirs(checker, sent)
    assert {FORMATS[int(field[1:])] for _, field in found.errors} == {
        FORMATS[int(field[1:])] for _, field in wanted.errors
    }, text
