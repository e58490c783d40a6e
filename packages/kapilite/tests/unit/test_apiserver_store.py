"""The store: one process, one format, one growing resourceVersion, and a history to go back in."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kapilite.errors import ApiError
from kapilite.storage import database
from kapilite.storage.events import Event, Key
from kapilite.storage.store import COMPACT_EVERY, Store, StoreError

RESOURCE = "widgets.lab.example.com"


def obj(name: str, value: int = 0, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "lab.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "uid": f"uid-{name}", **meta},
        "value": value,
    }


def key(name: str) -> Key:
    return Key(RESOURCE, "default", name)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def test_versions_grow_across_restarts(path: str) -> None:
    store = Store(path)
    start = store.rv
    first = store.commit("ADDED", key("a"), obj("a"), None)
    last = store.commit("DELETED", key("a"), obj("a"), first)
    assert start < first.rv < last.rv == store.rv
    store.close()

    again = Store(path)
    assert again.rv == last.rv
    assert again.commit("ADDED", key("b"), obj("b"), None).rv == last.rv + 1
    again.close()


def test_only_one_process_opens_the_file(path: str) -> None:
    store = Store(path)
    with pytest.raises(StoreError, match="in use by another process"):
        Store(path)
    store.close()
    Store(path).close()


def test_no_other_user_may_read_the_file(path: str) -> None:
    store = Store(path)
    store.commit("ADDED", key("a"), obj("a"), None)
    for name in os.listdir(os.path.dirname(path)):
        assert os.stat(f"{os.path.dirname(path)}/{name}").st_mode & 0o077 == 0
    store.close()


def test_foreign_files_are_refused_and_left_alone(path: str) -> None:
    content = b"this is not a database, but somebody's notes " * 100
    Path(path).write_bytes(content)
    with pytest.raises(StoreError, match=r"not a usable store.*choose another data directory"):
        Store(path)
    assert Path(path).read_bytes() == content


def test_another_programs_database_is_refused(path: str) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t(x)")
    other.close()
    with pytest.raises(StoreError, match="not a store of kapilite"):
        Store(path)


def test_another_format_is_refused(path: str) -> None:
    Store(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version=99")
    other.close()
    with pytest.raises(StoreError, match="format 99, this version of kapilite reads format 2"):
        Store(path)


def test_a_path_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot open .*No such file or directory"):
        Store(str(tmp_path / "absent" / "state.db"))


def test_a_failed_transaction_leaves_no_trace(path: str) -> None:
    store = Store(path)
    seen: list[Any] = []
    store.on_commit(seen.append)
    rv = store.rv

    def fail() -> None:
        with store.transaction():
            store.commit("ADDED", key("a"), obj("a"), None)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.get(key("a")) is None
    assert store.rv == rv
    assert seen == []
    assert store.commit("ADDED", key("b"), obj("b"), None).rv == rv + 1
    store.close()


def test_a_listener_that_fails_or_writes_does_not_delay_others(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(path)
    seen: list[str] = []

    def fails(event: Event) -> None:
        if event.key.name == "a":
            store.commit("ADDED", key("by a listener"), obj("by a listener"), None)
            raise OSError("disk full")

    store.on_commit(fails)
    store.on_commit(lambda event: seen.append(event.key.name))
    with store.transaction():
        store.commit("ADDED", key("a"), obj("a"), None)
        store.commit("ADDED", key("b"), obj("b"), None)
    assert seen == ["a", "b", "by a listener"]
    assert "disk full" in caplog.text
    store.close()


def test_what_cannot_be_encoded_is_the_clients_error(path: str) -> None:
    store = Store(path)
    with pytest.raises(ApiError) as caught:
        store.commit("ADDED", key("a"), obj("a") | {"bad": "\ud800"}, None)
    assert caught.value.code == 400
    store.close()


def test_the_history_is_bounded(path: str) -> None:
    store = Store(path, history=100)
    stored = store.commit("ADDED", key("a"), obj("a"), None)
    first = stored.rv
    for value in range(200 + 2 * COMPACT_EVERY):
        stored = store.commit("MODIFIED", key("a"), obj("a", value), stored)
    assert len(store.events_after(RESOURCE, store.rv - 100)) == 100
    with pytest.raises(ApiError) as caught:
        store.events_after(RESOURCE, first)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    with pytest.raises(ApiError):
        store.rows(RESOURCE, at=first)
    store.close()

    again = Store(path, history=100)
    with pytest.raises(ApiError):
        again.events_after(RESOURCE, first)
    assert len(again.events_after(RESOURCE, again.rv - 100)) == 100
    again.close()


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def write(store: Store, count: int, size: int = 0) -> None:
    stored = store.get(key("a"))
    for value in range(count):
        change: Any = "MODIFIED" if stored else "ADDED"
        stored = store.commit(change, key("a"), obj("a", value) | {"x": "y" * size}, stored)


def test_the_history_is_bounded_by_age(path: str) -> None:
    clock = Clock()
    store = Store(path, history_seconds=60, clock=clock)
    write(store, 10)
    clock.time += 40
    write(store, 10)
    young = store.rv - 10
    clock.time += 30
    assert store.tidy()
    assert store.oldest == young
    store.close()

    # Another start of the machine, with another clock: only the time that is open counts.
    clock.time = 5.0
    again = Store(path, history_seconds=60, clock=clock)
    again.tidy()
    assert again.oldest == young
    clock.time += 61
    again.tidy()
    assert again.oldest == again.rv
    again.close()


def test_the_history_is_bounded_by_bytes(path: str) -> None:
    store = Store(path, history_bytes=1_000_000)
    write(store, 1000, size=10_000)
    kept = store.events_after(RESOURCE, store.oldest)
    size = sum(len(event.body) + len(event.previous or b"") for event in kept)
    assert 500_000 < size < 1_000_000 + COMPACT_EVERY * 21_000
    store.close()


def test_versions_never_go_back_even_without_a_history(path: str) -> None:
    clock = Clock()
    store = Store(path, history_seconds=60, clock=clock)
    write(store, 10)
    stored = store.get(key("a"))
    rv = store.commit("DELETED", key("a"), obj("a"), stored).rv
    clock.time += 61
    store.tidy()
    with pytest.raises(ApiError):
        store.events_after(RESOURCE, rv - 1)
    store.close()

    again = Store(path)
    assert again.rv == rv
    assert again.events_after(RESOURCE, rv) == []
    assert again.commit("ADDED", key("b"), obj("b"), None).rv == rv + 1
    again.close()


def test_the_file_shrinks_again(path: str) -> None:
    clock = Clock()
    store = Store(path, history_seconds=60, clock=clock)
    write(store, 1500, size=10_000)
    clock.time += 61
    while store.tidy():
        pass
    store.close()
    assert os.path.getsize(path) < 5_000_000


def test_the_log_does_not_grow_without_bound(path: str) -> None:
    store = Store(path)
    write(store, 3000, size=10_000)
    assert os.path.getsize(f"{path}-wal") < 2 * database.LOG_LIMIT
    store.close()


def test_a_file_of_format_1_is_brought_up_to_date(path: str) -> None:
    owned = obj("b", ownerReferences=[{"uid": "o1", "blockOwnerDeletion": True}, {"uid": "o2"}])
    body = json.dumps(owned).encode()
    old = sqlite3.connect(path)
    old.executescript(FORMAT_1)
    old.execute("INSERT INTO object VALUES(?,?,?,?,?)", (*key("b"), 7, body))
    old.execute("INSERT INTO event VALUES(?,?,?,?,?,?,?)", (7, "ADDED", *key("b"), body, None))
    old.executemany("INSERT INTO owner VALUES(?,?,?,?)", [("o1", *key("b")), ("o2", *key("b"))])
    old.commit()
    old.close()

    store = Store(path)
    assert store.rv == 7
    assert store.oldest == 6
    assert [row.body for row in store.rows(RESOURCE)] == [body]
    assert [event.rv for event in store.events_after(RESOURCE, 6)] == [7]
    assert store.dependents("o1", blocking=True) == store.dependents("o2") == [key("b")]
    assert store.dependents("o2", blocking=True) == []
    assert [work.key for work in store.work()] == [key("b")], "its owners are looked for"
    store.close()


FORMAT_1 = """
CREATE TABLE object(
  resource TEXT, namespace TEXT, name TEXT, rv INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY(resource, namespace, name)) WITHOUT ROWID;
CREATE TABLE event(
  rv INTEGER PRIMARY KEY, change TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL,
  name TEXT NOT NULL, body BLOB NOT NULL, previous BLOB);
CREATE INDEX event_by_resource ON event(resource, rv);
CREATE TABLE owner(
  uid TEXT, resource TEXT, namespace TEXT, name TEXT,
  PRIMARY KEY(uid, resource, namespace, name)) WITHOUT ROWID;
CREATE INDEX owner_by_dependent ON owner(resource, namespace, name);
PRAGMA application_id=0x4C4E5759;
PRAGMA user_version=1;
"""


def test_work_is_stored_with_the_change_that_makes_it(path: str) -> None:
    store = Store(path)
    woken: list[bool] = []
    store.on_change(lambda change, what, new, before: [(what, "")], lambda: woken.append(True))

    def fail() -> None:
        with store.transaction():
            store.commit("ADDED", key("a"), obj("a"), None)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with store.transaction(dry_run=True):
        store.commit("ADDED", key("a"), obj("a"), None)
    assert store.work() == []
    assert woken == []
    store.commit("ADDED", key("a"), obj("a"), None)
    assert woken == [True]
    store.close()

    again = Store(path)
    (work,) = again.work()
    assert work.key == key("a")
    again.enqueue(key("a"))
    again.finish(work)
    (once_more,) = again.work()
    assert once_more.number > work.number, "it was asked for again while it was done"
    again.finish(once_more)
    assert again.work() == []
    again.close()


def test_dependents_are_found_by_owner(path: str) -> None:
    store = Store(path)
    owners = [{"uid": "o1"}, {"uid": "o2"}]
    stored = store.commit("ADDED", key("a"), obj("a", ownerReferences=owners), None)
    assert store.dependents("o1") == store.dependents("o2") == [key("a")]
    stored = store.commit("MODIFIED", key("a"), obj("a", ownerReferences=owners[1:]), stored)
    assert store.dependents("o1") == []
    store.commit("DELETED", key("a"), obj("a", ownerReferences=owners[1:]), stored)
    assert store.dependents("o2") == []
    store.close()


class History(RuleBasedStateMachine):
    """Any moment in the log shows what was there; following the events leads to the present."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(f"{self.folder.name}/state.db")
        self.now: dict[str, int] = {}
        self.moments: dict[int, dict[str, int]] = {}
        self.count = 0

    @initialize()
    def remember(self) -> None:
        self.moments[self.store.rv] = dict(self.now)

    @rule(name=st.sampled_from("abcd"), delete=st.booleans())
    def change(self, name: str, delete: bool) -> None:
        self.count += 1
        before = self.store.get(key(name))
        if before and delete:
            self.store.commit("DELETED", key(name), obj(name, self.count), before)
            del self.now[name]
        else:
            kind = "MODIFIED" if before else "ADDED"
            self.store.commit(kind, key(name), obj(name, self.count), before)  # type: ignore[arg-type]
            self.now[name] = self.count
        self.remember()

    @invariant()
    def every_moment_is_still_there(self) -> None:
        for rv, state in self.moments.items():
            rows = list(self.store.rows(RESOURCE, at=rv))
            assert [row.name for row in rows] == sorted(state)
            followed = dict(state)
            for event in self.store.events_after(RESOURCE, rv):
                if event.change == "DELETED":
                    assert event.previous is not None
                    del followed[event.key.name]
                else:
                    assert (event.key.name in followed) == (event.change == "MODIFIED")
                    followed[event.key.name] = event.object["value"]
            assert followed == self.now

    @invariant()
    def pages_join_up(self) -> None:
        for rv, state in list(self.moments.items())[-3:]:
            found: list[str] = []
            after = ("", "")
            while row := next(self.store.rows(RESOURCE, "default", after=after, at=rv), None):
                found.append(row.name)
                after = (row.namespace, row.name)
            assert found == sorted(state)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=-(-settings.default.max_examples * 25 // 100),
    stateful_step_count=15,
    deadline=None,
)
