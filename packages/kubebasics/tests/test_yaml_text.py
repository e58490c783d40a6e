"""YAML as Kubernetes reads it; what it makes of a scalar is that of its own reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebasics.yaml_text import YamlError, read, read_all, write

# By sigs.k8s.io/yaml, goyaml.v2/resolve.go, and what its way through JSON makes of numbers.
READ = {
    "y": True,
    "Y": True,
    "yes": True,
    "on": True,
    "ON": True,
    "True": True,
    "n": False,
    "No": False,
    "off": False,
    "FALSE": False,
    "yES": "yES",
    "~": None,
    "null": None,
    "''": "",
    "'y'": "y",
    "12": 12,
    "+12": 12,
    "-12": -12,
    "1_000": 1000,
    "014": 12,
    "0o14": 12,
    "-0o14": -12,
    "0x1F": 31,
    "0b101": 5,
    "-0b101": -5,
    "08": 8,
    "0": 0,
    "1:1": "1:1",
    "1:1:1.5": "1:1:1.5",
    "190:20:30": "190:20:30",
    "2001-12-14": "2001-12-14",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "1.5": 1.5,
    ".5": 0.5,
    "+.5": 0.5,
    "1.": 1,
    "3.0": 3,
    "1e3": 1000,
    "1e400": "1e400",
    "1.2.3": "1.2.3",
    "0xfg": "0xfg",
    "0b12": "0b12",
    "-": [None],
    "+": "+",
    ".": ".",
    "_1": "_1",
    "<<": "<<",
    "9223372036854775807": 9223372036854775807,
    "-9223372036854775808": -9223372036854775808,
    "9223372036854775808": 9223372036854775808.0,
    "0xffffffffffffffff": 18446744073709551615.0,
    "1" * 30: float("1" * 30),
    "!!str 12": "12",
    "!!int 12": 12,
    "!!float 1": 1,
    "! 12": "12",
    "!!null ~": None,
}


@pytest.mark.parametrize("text", READ)
def test_scalars_are_what_kubernetes_reads(text: str) -> None:
    found = read(text)
    assert (type(found), found) == (type(READ[text]), READ[text])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (".inf", "JSON has no number"),
        ("-.Inf", "JSON has no number"),
        (".nan", "JSON has no number"),
        ("9" * 5_000, "a number is too large"),
        ("0x" + "f" * 5_000, "a number is too large"),
        ("0b" + "1" * 5_000, "a number is too large"),
        ("-0" + "7" * 5_000, "a number is too large"),
        ("a: &x [1]\nb: *x", "line 2: aliases are not accepted"),
        ("<<: {a: 1}", "merge keys"),
        ("a: 1\n---\nb: 2", "a second document begins here"),
        ("? [a]\n: 1", "a key is a map or a list"),
        ("~: 1", "a key is null"),
        ("1.5: 1", "a key is a number with a fraction"),
        ("!!set {a}", "tags other than"),
        ("!!binary aGk=", "tags other than"),
        ("!!python/name:os.system x", "tags other than"),
        ("!!int x", "this is no int"),
        ("!!bool 1", "this is no bool"),
        ("!!int yes", "this is no int"),
        ("a: [", "line 1: not valid YAML"),
        ("a: b: c", "line 1: not valid YAML"),
    ],
)
def test_what_is_refused_is_reported_with_its_line(text: str, why: str) -> None:
    with pytest.raises(YamlError, match=why):
        read(text)


@pytest.mark.parametrize("text", [b"\xff\xfe\xff", b"a: \x00", "\ud800"])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(YamlError, match=r"not a YAML text file|not valid YAML"):
        read(text)


def test_maps_and_lists() -> None:
    text = "a: {b: [1, {c: }]}\n5: x\ny: z\na2:\n- - q\n"
    assert read(text) == {"a": {"b": [1, {"c": None}]}, "5": "x", "true": "z", "a2": [["q"]]}
    assert read("") is None
    assert read("a: 1\na: 2") == {"a": 2}


def test_depth_and_number_of_values_are_limited() -> None:
    assert read("[" * 20 + "]" * 20, depth=20)
    with pytest.raises(YamlError, match="nested more than 20"):
        read("[" * 100_000, depth=20)
    assert read("[1, 2, 3]", values=3) == [1, 2, 3]
    with pytest.raises(YamlError, match="more values"):
        read("[1, 2, 3, 4]", values=3)


@pytest.mark.parametrize("text", ["1:" * 1_000_000 + "1.5", "0" * 2_000_000 + "x"])
def test_long_scalars_take_no_time(text: str) -> None:
    """Read to base 60 the first takes hours; the test would not end."""
    assert read(text) == text


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text(st.characters(codec="utf-8"))
    | st.sampled_from([text for text in READ if text.isprintable()]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ynof01:x~<"), inner),
)


@given(_JSON)
def test_what_is_written_reads_the_same(value: Any) -> None:
    assert read(write(value)) == value


def test_several_documents() -> None:
    assert read_all("a: 1\n---\n---\n- b\n") == [{"a": 1}, None, ["b"]]
    assert read_all("") == []
    with pytest.raises(YamlError, match="more values"):
        read_all("a: 1\n---\nb: 2\n", values=1)
