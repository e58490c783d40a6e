"""Tables show what the query of their page says, and redraw for changes that they show."""

from __future__ import annotations

import pytest

from laneway.kube.resource import Key
from laneway.web.caches import Change
from laneway.web.place import parse
from laneway.web.tables.table import View, concerns
from support.sample_table import ROWS, TABLE, Row


def view(query: str) -> View[Row]:
    return TABLE.view(ROWS, parse(f"/gpus?{query}"))


def test_a_page_of_rows_and_the_way_to_the_next() -> None:
    first = view("")
    assert [row.name for row in first.rows][:2] == ["gpu0", "gpu1"]
    assert (first.first, first.last, first.matching, first.total) == (1, 50, 120, 120)
    assert (first.previous_url, first.next_url) == ("", "/gpus?page=2")

    last = view("page=3&size=50")
    assert (last.first, last.last, last.next_url) == (101, 120, "")


@pytest.mark.parametrize("query", ["page=99", "page=99999999999", "page=-1", "page=x", "size=7"])
def test_what_the_query_cannot_mean_shows_the_table_all_the_same(query: str) -> None:
    assert view(query).rows


def test_filters_and_search_together_and_the_way_out_of_each() -> None:
    found = view("node=node1&q=GPU1&sort=-name")

    assert {row.node for row in found.rows} == {"node1"}
    assert all("gpu1" in row.name for row in found.rows)
    assert [(chip.title, chip.value) for chip in found.chips] == [("Node", "Node 1"), ("", "GPU1")]
    assert found.chips[0].url == "/gpus?q=GPU1&sort=-name"
    assert found.matching < found.total == len(ROWS)


def test_sorting_says_how_it_is_sorted_and_turns_round() -> None:
    found = view("sort=size")
    name, size, notes = found.heads

    assert [row.size for row in found.rows] == sorted(row.size for row in found.rows)
    assert (size.sorted, size.sort_url) == ("ascending", "/gpus?sort=-size")
    assert (name.sorted, name.sort_url) == ("", "/gpus?sort=name")
    assert (notes.sorted, notes.sort_url) == ("", "")
    # Equal ones stay in the order that a user knows.
    assert [row.name for row in found.rows][:3] == ["gpu0", "gpu7", "gpu14"]


def test_groups_have_all_their_rows_counted_whatever_page_shows_them() -> None:
    found = view("group=node&size=25")

    assert [(group.title, group.size, len(group.rows)) for group in found.groups] == [
        ("Node 0", 40, 25)
    ]


def test_another_filter_begins_at_the_first_page() -> None:
    assert view("page=2").heads[0].sort_url == "/gpus?sort=name"


def redraws(query: str, before: Row | None, after: Row | None) -> bool:
    shows = concerns(view(query), "gpus", lambda row: row, lambda _change: False)
    name = (after or before or ROWS[0]).name
    return shows(Change("gpus", Key("", name), before, after))


def test_a_table_is_drawn_again_for_what_it_shows_and_for_nothing_else() -> None:
    shown, beyond = ROWS[0], ROWS[110]

    assert redraws("", shown, shown._replace(size=9))
    assert not redraws("", beyond, beyond._replace(size=9))
    assert redraws("sort=size", beyond, beyond._replace(size=9))
    assert redraws("", None, Row("gpu999", "node0", 1))
    assert redraws("", beyond, None)
    assert not redraws("node=node1", None, Row("gpu999", "node0", 1))
    assert redraws("node=node0", beyond, beyond._replace(node="node0"))
