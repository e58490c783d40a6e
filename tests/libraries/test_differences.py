"""Texts, read by kapilite and by Kubernetes' libraries: one verdict."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

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
