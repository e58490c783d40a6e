"""Rows that are kept show the same as rows that are made again, whatever has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laneway.kube.resource import Key
from laneway.web.caches import Change
from laneway.web.place import parse
from laneway.web.tables.rows import Rows
from support.sample_table import NODES, ROWS, TABLE, Row

QUERIES = (
    "",
    "page=2",
    "node=node1",
    "node=node1&sort=-size",
    "q=gpu1",
    "q=gpu1&group=node",
    "sort=size",
    "sort=-name&page=2",
    "group=node&page=2",
    "group=node&sort=size",
)
CHANGES = st.lists(
    st.tuples(st.integers(0, 130), st.none() | st.integers(0, 8), st.integers(0, 3)), max_size=30
)


@given(CHANGES)
def test_kept_rows_show_what_new_rows_would(changes: list[tuple[int, int | None, int]]) -> None:
    now = {row.name: row for row in ROWS}
    kept: Rows[Row] = TABLE.rows(
        keys=list(now),
        build=now.get,
        touched=lambda change: (change.key.name,),
        indexed=[NODES.id],
    )
    for query in QUERIES:  # every order is asked for before anything changes
        TABLE.view(kept, parse(f"/gpus?{query}"))
    for number, size, node in changes:
        name = f"gpu{number}"
        now.pop(name, None)
        if size is not None:
            now[name] = Row(name, f"node{node}", size)
        kept.changed(Change("gpus", Key("", name), None, None))

    for query in QUERIES:
        _looks_alike(kept, list(now.values()), query)
        for nodes in ({"node1"}, {"node0", "node2", "node9"}, set[str]()):
            seen = [row for row in now.values() if row.node in nodes]
            _looks_alike(kept.only(NODES.id, nodes), seen, query)
            assert set(kept.only(NODES.id, nodes).values(NODES.id)) == {row.node for row in seen}


def _looks_alike(kept: Rows[Row], rows: list[Row], query: str) -> None:
    place = parse(f"/gpus?{query}")
    found, fresh = TABLE.view(kept, place), TABLE.view(rows, place)
    assert [row.name for row in found.rows] == [row.name for row in fresh.rows], query
    assert (found.matching, found.total) == (fresh.matching, fresh.total)
    assert [(g.title, g.size) for g in found.groups] == [(g.title, g.size) for g in fresh.groups]


def test_only_the_latest_change_has_moved_rows() -> None:
    now = {row.name: row for row in ROWS}
    kept = TABLE.rows(keys=list(now), build=now.get, touched=lambda change: (change.key.name,))
    before = now["gpu5"]
    now["gpu5"] = before._replace(size=99)
    change = Change("gpus", Key("", "gpu5"), before, now["gpu5"])

    kept.changed(change)

    [moved] = kept.moved(change)
    assert (moved.before, moved.after) == (before, now["gpu5"])
    kept.changed(change._replace(before=now["gpu5"]))
    assert kept.moved(change) == ()
