"""Texts and expressions, read by kapilite and by Kubernetes' libraries: one verdict."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kapilite.cel.checker import check
from kapilite.cel.program import Budget, CostExceeded, program
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.types import BOOL, DOUBLE, INT, STRING
from kapilite.cel.values import CelError
from kapilite.errors import ApiError
from kapilite.reads.selectors import parse_labels
from kubebasics import quantity

MANY = settings(max_examples=2000)
REFUSED = "refused"


numbers = st.from_regex(r"[+-]?[0-9]{0,9}(\.[0-9]{0,9})?", fullmatch=True)
suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2", "e", "K", "mi", " ", "e+3"]
)


@MANY
@given(text=st.builds(str.__add__, numbers, suffixes))
def test_quantities(checker: Any, text: str) -> None:
    """The amount: of some forms a library keeps the text, and we write the canonical one."""
    answer = checker.ask("quantity", text=text)
    try:
        ours: Any = Decimal(quantity.value(text)) / quantity.NANO
    except ValueError:
        ours = REFUSED
    assert ours == (REFUSED if REFUSED in answer else Decimal(answer["value"])), (text, answer)


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


TYPES = {"n": INT, "s": STRING, "b": BOOL, "d": DOUBLE}
NAMES = {"n": "int", "s": "string", "b": "bool", "d": "double"}
VARIABLES = {"n": 7, "s": "a-b.c/d", "b": True, "d": 1.5}
_ints = st.sampled_from(["n", "0", "1", "-3", "9223372036854775807", "size(s)", "int(d)", "2"])
_texts = st.sampled_from(["s", "''", "'a'", "'é'", "string(n)", "string(d)", "'A-b'"])
_doubles = st.sampled_from(["d", "0.0", "-1.5", "1e300", "double(n)"])
_bools = st.sampled_from(["b", "true", "false"])


def _combined(parts: Any) -> Any:
    ints, texts, doubles, bools = parts
    return (
        st.one_of(
            ints,
            st.builds("({} {} {})".format, ints, st.sampled_from("+-*/%"), ints),
            st.builds("size({})".format, texts),
            st.builds("{}.indexOf({})".format, texts, texts),
            st.builds("({} ? {} : {})".format, bools, ints, ints),
            st.builds("[{}, {}].sum()".format, ints, ints),
            st.builds("[{}, {}].max()".format, ints, ints),
            st.builds("[{}, {}][{}]".format, ints, ints, ints),
        ),
        st.one_of(
            texts,
            st.builds("({} + {})".format, texts, texts),
            st.builds("{}.substring({})".format, texts, ints),
            st.builds("{}.replace({}, {})".format, texts, texts, texts),
            st.builds("{}.lowerAscii()".format, texts),
            st.builds("{}.split({}).join('+')".format, texts, texts),
            st.builds("{}.charAt({})".format, texts, ints),
            st.builds("string({})".format, ints),
        ),
        st.one_of(
            doubles,
            st.builds("({} {} {})".format, doubles, st.sampled_from("+-*/"), doubles),
        ),
        st.one_of(
            bools,
            st.builds("({} {} {})".format, ints, st.sampled_from(["<", ">=", "==", "!="]), ints),
            st.builds("({} {} {})".format, texts, st.sampled_from(["<", "==", "!="]), texts),
            st.builds("({} {} {})".format, doubles, st.sampled_from(["<", "==", ">"]), doubles),
            st.builds("({} {} {})".format, bools, st.sampled_from(["&&", "||"]), bools),
            st.builds("!{}".format, bools),
            st.builds("{}.startsWith({})".format, texts, texts),
            st.builds("{}.contains({})".format, texts, texts),
            st.builds("[{}, {}].exists(x, x > {})".format, ints, ints, ints),
            st.builds("{{{}: {}}}.all(k, k != {})".format, texts, ints, texts),
            st.builds("({} in [{}, {}])".format, ints, ints, ints),
            st.builds("isQuantity({})".format, texts),
            st.builds("({} == {})".format, ints, texts),
        ),
    )


expressions = st.one_of(*_combined(_combined((_ints, _texts, _doubles, _bools))))


def ours(text: str) -> Any:
    """The value; "refused" before it is evaluated, "error" while it is."""
    try:
        check(text, program(text).tree, TYPES)
    except CelSyntaxError:
        return REFUSED
    try:
        return program(text).evaluate(VARIABLES, Budget(1_000_000))
    except (CelError, CostExceeded):
        return "error"


@MANY
@given(text=expressions)
def test_expressions(checker: Any, text: str) -> None:
    answer = checker.ask("cel", expression=text, variables=VARIABLES, types=NAMES)
    if REFUSED in answer:
        theirs: Any = REFUSED
    elif "error" in answer:
        theirs = "error"
    else:
        theirs = answer["value"]
    found = ours(text)
    if isinstance(found, float) and not math.isfinite(found):
        found = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}[str(found)]
    assert found == theirs, (text, answer)
