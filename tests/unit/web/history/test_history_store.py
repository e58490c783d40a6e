"""The file of the history: what it says after restarts, at its bounds, and when it is damaged."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from laneway.core.history import Hold, Span
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.web.history import finding
from laneway.web.history.finding import Found, Query
from laneway.web.history.store import NAME, Event, Keeping, Silence, Store, UnusableError

Open = Callable[..., Store]
DAY = 86_400_000
ANNA, BERT = (Consumer(ConsumerKind.VM, "team", name) for name in ("anna", "bert"))
POD = Consumer(ConsumerKind.POD, "other", "job")


def hold(device: str, holder: Consumer, node: str = "n1") -> Hold:
    return Hold(device, node, "nvidia.com/A2-4Q", holder, "n1-gpu", "A2-4Q")


def event(at: int, device: str, holder: Consumer | None) -> Event:
    return Event(at, device, None if holder is None else hold(device, holder))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the store of one folder, closing it where it is open already."""
    stores: list[Store] = []

    def opens(days: int = 90, mebibytes: int = 256) -> Store:
        for store in stores:
            store.close()
        stores.append(Store(Keeping(str(tmp_path), days, mebibytes)))
        return stores[-1]

    yield opens
    for store in stores:
        store.close()


def told(found: Found) -> list[tuple[str, int, int | None, bool, bool]]:
    """`NAME device` or `gap`, with its times and whether both ends were seen."""
    return [
        (
            f"{one.hold.holder.name} {one.hold.device}" if one.hold else f"gap {one.node}".strip(),
            one.since,
            one.until,
            one.begin_seen,
            one.end_seen,
        )
        for one in found.spans
    ]


def everything(store: Store) -> list[tuple[str, int, int | None, bool, bool]]:
    return told(store.find(Query(), None))


def test_each_change_of_holder_is_an_entry(opened: Open) -> None:
    store = opened()
    store.begin(100, [hold("d0", ANNA)])
    store.write([event(200, "d1", ANNA), event(300, "d1", BERT), event(400, "d1", None)], 500)
    assert everything(store) == [
        ("bert d1", 300, 400, True, True),
        ("anna d1", 200, 300, True, True),
        ("anna d0", 100, None, False, True),
    ]


def test_a_restart_leaves_a_gap_and_guesses_nothing(opened: Open) -> None:
    store = opened()
    store.begin(100, [])
    store.write([event(200, one, ANNA) for one in ("same", "released", "given")], 300)
    store = opened()
    store.begin(900, [hold("same", ANNA), hold("given", BERT)])
    found = store.find(Query(), None)
    assert sorted(told(found), key=lambda one: (one[1], one[0])) == [
        ("anna given", 200, 300, True, False),
        ("anna released", 200, 300, True, False),
        ("anna same", 200, None, True, True),
        ("gap", 300, 900, True, True),
        ("bert given", 900, None, False, True),
    ]
    assert found.gaps == {"": [(300, 900, "")]}


def test_an_agent_that_does_not_report_leaves_a_gap_of_its_node(opened: Open) -> None:
    store = opened()
    store.begin(0, [hold("d1", ANNA), hold("d2", ANNA), hold("d3", ANNA, node="n2")])
    store.write([Silence(100, "n1"), Event(150, "d1", hold("d1", BERT), 100)], 200)
    assert ("gap n1", 100, None, True, True) in everything(store)
    store.write([Event(210, "d2", None, 100), Silence(250, "n1", ends=True)], 300)
    assert everything(store) == [
        ("bert d1", 150, None, False, True),
        ("gap n1", 100, 250, True, True),
        ("anna d3", 0, None, False, True),
        ("anna d2", 0, 100, False, False),
        ("anna d1", 0, 100, False, False),
    ]
    found = store.find(Query(node="n2"), None)
    assert told(found) == [("anna d3", 0, None, False, True)]
    assert found.gaps == {}
    for query in (Query(node="n1"), Query(device="d1")):
        found = store.find(query, None)
        assert "gap n1" in {one[0] for one in told(found)}
        assert found.gaps == {"n1": [(100, 250, "n1")]}


def test_a_node_that_is_silent_when_observation_ends_has_one_gap_after_the_other(
    opened: Open,
) -> None:
    store = opened()
    store.begin(0, [])
    store.write([Silence(100, "n1"), Silence(120, "n2")], 300)
    store = opened()
    store.begin(900, [])
    store.write([Silence(900, "n1")], 950)
    assert everything(store) == [
        ("gap n1", 900, None, True, True),
        ("gap", 300, 900, True, True),
        ("gap n2", 120, 300, True, True),
        ("gap n1", 100, 300, True, True),
    ]


def test_filters_and_pages_show_each_entry_once_and_every_gap(opened: Open) -> None:
    store = opened()
    store.begin(0, [])
    store.write([event(at, f"d{at}", (ANNA, BERT)[at % 2]) for at in range(1, 8)], 10)
    store.begin(20, [hold(f"d{at}", (ANNA, BERT)[at % 2]) for at in range(1, 8)])

    def pages(**chosen: object) -> list[str]:
        names, after = [], None
        while True:
            found = store.find(Query(**chosen, after=after, limit=2), None)  # type: ignore[arg-type]
            names += [one[0] for one in told(found)]
            if not found.more:
                return names
            after = found.spans[-1].since, found.spans[-1].id

    assert pages() == ["gap", *(f"{('anna', 'bert')[at % 2]} d{at}" for at in range(7, 0, -1))]
    assert pages(namespace="team", name="anna") == ["gap", "anna d6", "anna d4", "anna d2"]
    assert pages(device="d3") == ["gap", "bert d3"]
    assert pages(node="n2") == ["gap"]
    assert pages(until=3) == ["anna d2", "bert d1"]


def test_a_user_sees_the_holders_of_allowed_places_only(opened: Open) -> None:
    store = opened()
    store.begin(0, [hold("d0", ANNA), hold("d1", POD)])
    team, other = ANNA._replace(name=""), POD._replace(name="")
    assert store.places() == {team, other}
    assert [one[0] for one in told(store.find(Query(), [team]))] == ["anna d0"]
    assert told(store.find(Query(), [])) == []
    same_name = Consumer(ConsumerKind.POD, "team", "")
    assert told(store.find(Query(), [same_name])) == []


@pytest.mark.parametrize("few", [0, 1_000])
def test_each_question_is_answered_as_by_reading_every_entry(
    opened: Open, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """What overlaps a time, of some holders, in pages: whichever index answers it."""
    monkeypatch.setattr(finding, "_FEW", few)
    luck = random.Random(21)
    store = opened()
    store.begin(0, [])
    spaces = [f"team-{number}" for number in range(12)]
    people = [
        Consumer(luck.choice(list(ConsumerKind)), luck.choice(spaces), luck.choice(["web", "job"]))
        for _ in range(60)
    ]
    devices = [(f"n{number % 5}-d{number}", f"n{number % 5}") for number in range(40)]
    for at in range(1, 400):
        device, node = luck.choice(devices)
        hold_ = hold(device, luck.choice(people), node) if luck.random() < 0.7 else None
        store.write([Event(at, device, hold_)], at)
        if at % 40 == 0:
            store.write([Silence(at, f"n{at // 40 % 5}", ends=at % 80 == 0)], at)
    every = store.find(Query(limit=1_000), None).spans

    def expected(query: Query, allowed: frozenset[Consumer] | None) -> list[int]:
        return [one.id for one in every if fits(one, query, allowed)]

    for _ in range(300):
        query = Query(
            device=luck.choice(["", "", "", luck.choice(devices)[0]]),
            node=luck.choice(["", "", "n1", "n3"]),
            namespace=luck.choice(["", "", luck.choice(spaces)]),
            name=luck.choice(["", "", "web"]),
            since=luck.choice([None, luck.randrange(400)]),
            until=luck.choice([None, luck.randrange(400)]),
            limit=7,
        )
        places = sorted(store.places())
        allowed = luck.choice([None, frozenset(luck.sample(places, luck.randrange(len(places))))])
        if query.device and query.node and not query.device.startswith(query.node):
            continue
        found: list[int] = []
        page = store.find(query, allowed)
        found += [one.id for one in page.spans]
        while page.more:
            last = page.spans[-1]
            page = store.find(msgspec.structs.replace(query, after=(last.since, last.id)), allowed)
            found += [one.id for one in page.spans]
        assert found == expected(query, allowed), (query, allowed)


def fits(span: Span, query: Query, allowed: frozenset[Consumer] | None) -> bool:
    """Whether an entry is one of those asked for."""
    if query.since is not None and span.until is not None and span.until <= query.since:
        return False
    if query.until is not None and span.since >= query.until:
        return False
    node = query.node or query.device.partition("-")[0]
    if (one := span.hold) is None:
        return not node or span.node in ("", node)
    place = one.holder._replace(name="")
    return (
        query.device in ("", one.device)
        and query.node in ("", one.node)
        and query.namespace in ("", place.namespace)
        and (not query.name or (one.holder.name == query.name and place.kind is ConsumerKind.VM))
        and (allowed is None or place in allowed)
    )


def test_a_file_of_an_earlier_laneway_goes_on(opened: Open, tmp_path: Path) -> None:
    store = opened()
    store.begin(0, [hold("d0", ANNA)])
    store.close()
    with sqlite3.connect(tmp_path / NAME) as db:
        names = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
            if not name.startswith("sqlite_")
        ]
        for name in names:
            db.execute(f"DROP INDEX {name}")
        db.execute("CREATE UNIQUE INDEX held ON spans (device) WHERE until IS NULL")
    db.close()
    store = opened()
    store.begin(10, [hold("d0", ANNA)])
    store.write([Silence(20, "n1"), Silence(20, "n2")], 30)
    assert store.set_aside == ""
    assert everything(store) == [
        ("gap n2", 20, None, True, True),
        ("gap n1", 20, None, True, True),
        ("gap", 0, 10, True, True),
        ("anna d0", 0, None, False, True),
    ]


def test_what_is_old_goes_and_what_is_held_stays(opened: Open) -> None:
    store = opened(days=1)
    store.begin(0, [hold("held", ANNA)])
    store.write([event(10, "d", ANNA), event(20, "d", None), event(2 * DAY, "d", ANNA)], 2 * DAY)
    store.write([event(2 * DAY + 5, "d", None)], 2 * DAY + 5)
    store.trim(2 * DAY + 10)
    assert [(name, since) for name, since, *_ in everything(store)] == [
        ("anna d", 2 * DAY),
        ("anna held", 0),
    ]
    assert store.find(Query(), None).began == DAY + 10


def test_the_file_stays_below_its_size_and_loses_the_oldest_first(
    opened: Open, tmp_path: Path
) -> None:
    store = opened(mebibytes=1)
    store.begin(0, [hold("held", ANNA)])
    for first in range(0, 12_000, 1_000):
        store.write(
            [
                event(at, f"device-{at % 50}", (ANNA, BERT)[at % 2])
                for at in range(first, first + 1_000)
            ],
            first + 1_000,
        )
        store.trim(first + 1_000)
    found = store.find(Query(limit=20_000), None)
    rest = [one.since for one in found.spans if one.until is not None]
    assert "anna held" in {one[0] for one in told(found)}
    assert rest == list(range(rest[0], rest[-1] - 1, -1))
    assert rest[-1] > 0
    assert found.began >= rest[-1]
    store.close()
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) < 2 << 20


@pytest.mark.parametrize("spoilt", ["text", "truncated", "newer"])
def test_a_file_that_is_of_no_use_is_set_aside_and_a_new_one_begun(
    opened: Open, tmp_path: Path, spoilt: str
) -> None:
    store = opened()
    store.begin(0, [hold(f"d{at}", ANNA) for at in range(2_000)])
    store.close()
    file = tmp_path / NAME
    if spoilt == "text":
        file.write_text("this is no database, and far too long to be an empty one" * 100)
    elif spoilt == "truncated":
        file.write_bytes(file.read_bytes()[: 10 * 4096])
    else:
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
    before = file.read_bytes()
    store = opened()
    assert Path(store.set_aside).read_bytes() == before
    store.begin(5, [hold("d0", BERT)])
    assert everything(store) == [("bert d0", 5, None, False, True)]


def test_two_processes_do_not_write_one_history(opened: Open, tmp_path: Path) -> None:
    opened()
    with pytest.raises(UnusableError, match="in use by another process"):
        Store(Keeping(str(tmp_path)))
