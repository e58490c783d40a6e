"""Looking into JSON that may be anything."""

from __future__ import annotations

import pytest

from laneway.core.raw import Json, at, items, members


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"spec": {"count": 2}}, 2),
        ({"spec": {"count": None}}, None),
        ({"spec": ["count"]}, None),
        ({}, None),
        ("spec", None),
        (None, None),
    ],
)
def test_what_is_not_there_is_none(value: Json, found: Json) -> None:
    assert at(value, ("spec", "count")) == found


@pytest.mark.parametrize("value", [None, 1, "text", True])
def test_what_is_no_object_or_list_has_nothing(value: Json) -> None:
    assert members(value) == {}
    assert list(items(value)) == []
    assert members({"a": value}) == {"a": value}
    assert items([value]) == [value]
