"""Tables show what a cluster would show for the same object and columns."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.kinds import Column, Kind
from kapilite.printers.durations import human_duration
from kapilite.printers.jsonpath import UnreadableError
from kapilite.printers.tables import compile_path, render

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
DEVICE = {
    "metadata": {
        "name": "n1-0000",
        "creationTimestamp": "2026-05-01T10:00:00Z",
        "labels": {"example.com/slot": "7"},
    },
    "spec": {"enabled": True, "count": 3, "share": 0.5, "tags": ["a", "b"], "empty": None},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ok"},
            {"type": "Paused", "status": "False"},
        ],
        "map": {"b": 1, "a": "x"},
        "since": "2026-04-30T12:00:00Z",
        "until": "2026-05-02T12:00:00Z",
    },
}


def kind(*columns: Column) -> Kind:
    return Kind(
        group="example.com",
        version="v1",
        kind="Device",
        plural="devices",
        singular="device",
        namespaced=False,
        columns=columns,
        custom=True,
    )


def cell(path: str, type_: str = "string", obj: dict[str, Any] = DEVICE) -> Any:
    table = render(kind(Column(name="X", type=type_, json_path=path)), [obj], now=NOW)
    name, value = table["rows"][0]["cells"]
    assert name == obj["metadata"]["name"]
    return value


@pytest.mark.parametrize(
    ("path", "type_", "shown"),
    [
        (".metadata.name", "string", "n1-0000"),
        ("metadata.name", "string", None),
        ("$.metadata.name", "string", "n1-0000"),
        (r".metadata.labels.example\.com/slot", "string", "7"),
        (r".metadata.labels['example\.com/slot']", "string", "7"),
        ('.status.conditions[?(@.type=="Ready")].status', "string", "True"),
        (".status.conditions[?(@.type=='Ready')].reason", "string", "Ok"),
        ('.status.conditions[?(@.type == "Paused")].status', "string", "False"),
        ('.status.conditions[?(@.type=="Absent")].status', "string", None),
        (".status.conditions[?(@.reason)].type", "string", "Ready"),
        (".status.conditions[0].type", "string", "Ready"),
        (".status.conditions[-1].type", "string", "Paused"),
        (".status.conditions[5].type", "string", None),
        (".status.conditions[*].type", "string", "Ready"),
        (".status.conditions[0:1].type", "string", "Ready"),
        (".status..type", "string", "Ready"),
        (".spec.tags", "string", '["a","b"]'),
        (".spec.tags[*]", "string", "a"),
        (".status.map", "string", '{"a":"x","b":1}'),
        (".spec.enabled", "string", "true"),
        (".spec.count", "string", "3"),
        (".spec.enabled", "boolean", True),
        (".spec.count", "boolean", None),
        (".spec.count", "integer", 3),
        (".spec.share", "integer", 0),
        (".spec.enabled", "integer", None),
        (".spec.share", "number", 0.5),
        (".spec.tags", "integer", None),
        (".spec.empty", "string", "<no value>"),
        (".spec.empty", "integer", None),
        (".spec.none.at.all", "string", None),
        (".metadata.name.deeper", "string", None),
        (".metadata.creationTimestamp", "date", "120m"),
        (".status.since", "date", "24h"),
        (".status.until", "date", "<invalid>"),
        (".metadata.name", "date", "<invalid>"),
        (".spec.count", "date", None),
    ],
)
def test_a_cell(path: str, type_: str, shown: object) -> None:
    assert cell(path, type_) == shown


@pytest.mark.parametrize("path", [".a" + "['b','b']" * 20, ".a" + "..[0:1]" * 9])
def test_a_path_that_visits_too_much_leaves_its_cell_empty(path: str) -> None:
    obj: dict[str, Any] = {"metadata": {"name": "x"}, "a": {}}
    for _ in range(30):
        obj["a"] = {"b": obj["a"], "c": [obj["a"]]}
    assert cell(path, obj=obj) is None


def test_the_columns_of_an_object_together_visit_no_more_than_one_may() -> None:
    paths = [*[".list[*].x"] * 50, ".text.*", ".text"]
    columns = [Column(name=path, type="string", json_path=path) for path in paths]
    obj = {"metadata": {"name": "a"}, "list": [{"x": "y"}] * 1000, "text": "t" * 1_000_000}
    (row,) = render(kind(*columns), [obj])["rows"]
    assert row["cells"][:3] == ["a", "y", "y"]
    assert row["cells"][-3:] == [None, None, None]


def test_a_filter_may_use_an_escaped_key_and_quote_brackets() -> None:
    obj = {"metadata": {"name": "x"}, "list": [{"a.b": "(1)]", "v": "yes"}, {"v": "no"}]}
    assert cell(r'.list[?(@.a\.b=="(1)]")].v', obj=obj) == "yes"


@pytest.mark.parametrize("path", ["{.a}", ".a[", ".a[?(@.b==]", ".a[x]", ".a]", ".a[?(", "a["])
def test_an_unreadable_path_is_refused(path: str) -> None:
    with pytest.raises(UnreadableError):
        compile_path(path)


@given(st.text(max_size=30))
def test_a_path_is_refused_or_breaks_no_table(path: str) -> None:
    try:
        compile_path(path)
    except ValueError:
        return
    cell(path)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_no_value_breaks_a_table(value: object) -> None:
    obj = {"metadata": {"name": "x"}, "value": value}
    for type_ in ("string", "integer", "number", "boolean", "date", "other"):
        cell(".value", type_, obj)
        cell(".value[0:2]", type_, obj)


def test_age_is_shown_only_for_kinds_without_columns_of_their_own() -> None:
    without = render(kind(), [DEVICE], now=NOW)
    assert [c["name"] for c in without["columnDefinitions"]] == ["Name", "Age"]
    assert without["rows"][0]["cells"] == ["n1-0000", "120m"]
    own = render(kind(Column(name="Count", type="integer", json_path=".spec.count")), [DEVICE])
    assert [c["name"] for c in own["columnDefinitions"]] == ["Name", "Count"]


def test_a_column_that_cannot_be_read_is_left_out_with_those_after_it() -> None:
    paths = (".spec.count", ".spec[", ".spec.enabled")
    columns = [Column(name=path, type="string", json_path=path) for path in paths]
    assert render(kind(*columns), [DEVICE])["rows"][0]["cells"] == ["n1-0000", "3"]
    assert render(kind(*columns[1:]), [DEVICE])["rows"][0]["cells"] == ["n1-0000"]


def test_the_header_carries_what_the_kind_says() -> None:
    column = Column(name="C", type="integer", json_path=".c", description="Seen.", priority=1)
    plain = Column(name="D", type="string", json_path=".d")
    headers = render(kind(column, plain), [])["columnDefinitions"]
    assert headers[0]["format"] == "name"
    assert headers[1] == {
        "name": "C",
        "type": "integer",
        "format": "",
        "description": "Seen.",
        "priority": 1,
    }
    assert ".d" in headers[2]["description"]
    assert render(kind(column), [], headers=False)["columnDefinitions"] == []


def test_rows_carry_as_much_of_the_object_as_was_requested() -> None:
    def carried(include: str) -> Any:
        return render(kind(), [DEVICE], include_object=include)["rows"][0]["object"]

    assert carried("None") is None
    assert carried("Object") == DEVICE
    assert carried("Metadata") == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": DEVICE["metadata"],
    }


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 - 1, "7h59m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (51 * 3600, "2d3h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_an_age_reads_as_in_kubectl(seconds: float, shown: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == shown


@given(st.lists(st.integers(0, 10**9), min_size=2))
def test_a_longer_time_never_reads_as_a_shorter_one(seconds: list[int]) -> None:
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}

    def read(text: str) -> int:
        total, digits = 0, ""
        for char in text:
            if char.isdigit():
                digits += char
            else:
                total, digits = total + int(digits) * unit[char], ""
        return total

    texts = [human_duration(timedelta(seconds=s)) for s in sorted(seconds)]
    assert all(read(a) <= read(b) for a, b in itertools.pairwise(texts))
