"""Quantities and YAML: which texts are refused, and what the others say."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubebasics import quantity, yaml_text

REFUSED = "refused"

# ---- quantities ----

numbers = st.from_regex(r"[+-]?[0-9]{0,9}(\.[0-9]{0,9})?", fullmatch=True)
suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2", "e", "K", "mi", " ", "e+3"]
)


@settings(max_examples=1500)
@given(text=st.builds(str.__add__, numbers, suffixes))
def test_quantities(checker: Any, text: str) -> None:
    """The amount: of some forms a library keeps the text, and we write the canonical one."""
    answer = checker.ask("quantity", text=text)
    try:
        ours: Any = Decimal(quantity.value(text)) / quantity.NANO
    except ValueError:
        ours = REFUSED
    assert ours == (REFUSED if REFUSED in answer else Decimal(answer["value"])), (text, answer)


# ---- YAML ----

ON_PURPOSE = (
    "aliases are not accepted",
    "merge keys",
    "tags other",
    "a key is a number with a",
    "a key is null",
    "a second document begins here",
    "JSON has no number",
)
"""What is refused, also where Kubernetes reads it, or does not look at it."""


def beyond_libyaml(text: str, theirs: Any) -> bool:
    """What PyYAML's parser refuses: a text that is followed by something else, and `[a:, b]`."""
    return not isinstance(theirs, dict | list) or re.search(r":[,\]}]", text) is not None


plain = st.one_of(
    st.sampled_from(
        """
        y Y yes No ON off TRUE n ~ null Null nULL .inf -.INF .NaN 1:30 1:2:3.5
        2001-01-01 << = 2001-01-01T00:00:00Z 0x1F 0b11 -0b1 0o14 014 08 1_000 _1 1__0 +1
        -0 0.0 1. .5 1e3 1E+2 1e400 9223372036854775807 9223372036854775808
        -9223372036854775809 1.5e-7 0x 0b2 - ? -- @a
        """.split()  # noqa: SIM905 - a table of words
    ),
    st.from_regex(
        r"[+-]?0?[xob]?[0-9a-f_]{1,4}(\.[0-9_]{0,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
    ),
    st.text("ab01:-_.e+#, ~", min_size=1, max_size=5),
)
quoted = st.one_of(
    plain.map('"{}"'.format),
    plain.map("'{}'".format),
    st.sampled_from(
        [r'"\x41\n\u00e9"', "''''", '"a\n  b"', "|\n  a\n  b\n", ">-\n  a\n\n  b", "|2\n   a"]
    ),
    st.sampled_from(["!!str 1", "!!int '3'", "!!bool y", "! 1", "!!float 1", "!x 1", "&a 1", "*a"]),
)
scalars = st.one_of(plain, plain, quoted, st.just(""))
keys = st.sampled_from(["k", "'l'", '"m"', "n o"])
flow = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.builds("{}: {}".format, keys, inner), max_size=3).map(
            lambda parts: f"{{{', '.join(parts)}}}"
        ),
    ),
    max_leaves=4,
)
lines = st.one_of(
    st.builds("a: {}".format, flow),
    st.builds("b:\n  {}: {}\n  c: {}".format, plain, scalars, scalars),
    st.builds("d:\n- {}\n- - {}\n- e: {}".format, scalars, scalars, flow),
    st.sampled_from(
        ["# c", "a: 1 # c", "", "  ", "a : b", "'a':b", "a:b", "\ta: 1", "a:\t1", "<<: {z: 1}"]
    ),
)
odd = st.one_of(
    st.builds("{}: {}".format, scalars, flow), st.builds("? {}\n: {}".format, scalars, flow)
)
"""One in a text: of two keys that become the same in JSON, Kubernetes takes any."""
texts = st.one_of(
    st.builds(lambda one, more: "\n".join([one, *more]), odd, st.lists(lines, max_size=3)),
    st.lists(lines, min_size=1, max_size=3).map("\n".join),
    flow,
)


def within_64_bits(value: Any) -> Any:
    """As Kubernetes reads its own JSON: an integer of more bits is a float."""
    if isinstance(value, dict):
        return {key: within_64_bits(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [within_64_bits(inner) for inner in value]
    small = not isinstance(value, int) or -(1 << 63) <= value < 1 << 63
    return value if small else float(value)


@settings(max_examples=1500)
@given(text=texts)
def test_yaml(checker: Any, text: str) -> None:
    answer = checker.ask("yaml", text=text)
    theirs = within_64_bits(answer.get("json", REFUSED))
    try:
        ours: Any = yaml_text.read(text)
    except yaml_text.YamlError as error:
        if error.why.startswith(ON_PURPOSE):
            return
        if error.why == "not valid YAML" and beyond_libyaml(text, theirs):
            return
        ours = REFUSED
    assert ours == theirs, (text, answer)
