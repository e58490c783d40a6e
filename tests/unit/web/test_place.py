"""Addresses keep a page's state, and whatever a name contains stays one part of a path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.web.page import Page, Routes
from laneway.web.place import address, link, parse

ROUTES = Routes(
    [
        Page("/", "", lambda _visit: {}),
        Page("/gpus/{name}", "", lambda _visit: {}),
        Page("/vms/{namespace}/{name}", "", lambda _visit: {}),
    ],
    [],
)


@given(st.text(min_size=1).filter(lambda name: name.isprintable()))
def test_a_page_gets_the_name_that_its_link_was_made_of(name: str) -> None:
    found = ROUTES.page(link("gpus", name))

    assert found is not None
    assert found[1] == {"name": name}


@pytest.mark.parametrize("path", ["/gpus", "/gpus/a/b", "/gpus/", "//", "/vms/a"])
def test_other_addresses_are_no_page(path: str) -> None:
    assert ROUTES.page(path) is None


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=5))
def test_a_query_is_read_as_it_was_written(fields: list[tuple[str, str]]) -> None:
    assert list(parse(address("/gpus", fields)).query) == fields


def test_one_field_is_changed_and_the_others_stay() -> None:
    place = parse("/gpus?node=a&q=&state=on&page=3")

    assert place.with_(node="b") == "/gpus?state=on&node=b"
    assert place.with_(node="") == "/gpus?state=on"
    assert place.with_(page="4") == "/gpus?node=a&state=on&page=4"
    assert place.url == "/gpus?node=a&state=on&page=3"


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="fields"):
        parse("/gpus?" + "&".join(f"a{n}=1" for n in range(1000)))
