"""Objects and their history in one SQLite file.

What is committed survives `kill -9` of the process: the write-ahead log is handed to the operating
system before a commit returns (`synchronous=NORMAL`; only a power cut can take the last commits,
never the file's consistency). All resources share one resourceVersion that grows by one with
every change. The log keeps the last `history` changes with the body before and after each, so a
watch can resume anywhere in it with selectors that see objects come and go, and a list can be
continued as of the moment it began. What lies before it is answered as `Expired`.

Bodies are stored as JSON bytes with apiVersion and kind first, ready to be sent. Only one process
may open the file: SQLite's exclusive lock says so, and is gone with its process.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from laneway.apiserver.errors import ApiError
from laneway.apiserver.events import Event, Fanout, Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laneway.apiserver.events import EventType

FORMAT = 1
APPLICATION_ID = 0x4C4E5759
HISTORY = 10_000
COMPACT_EVERY = 500
OBJECT_LIMIT = 4 * 1024 * 1024
"""More than one request can bring, so only an object that grows patch by patch meets it."""

_TABLES = """
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
"""

_NOW = """
SELECT namespace, name, body FROM object
WHERE resource = :resource AND (:all OR namespace = :namespace)
AND (namespace, name) > (:after_namespace, :after_name)
ORDER BY namespace, name
"""

# What has changed since `at` is seen as it was before its first later change; min() makes SQLite
# take the other columns from that row.
_AT = """
SELECT namespace, name, body FROM object
WHERE resource = :resource AND (:all OR namespace = :namespace)
AND (namespace, name) > (:after_namespace, :after_name) AND rv <= :at
UNION ALL
SELECT namespace, name, previous FROM (
  SELECT namespace, name, previous, min(rv) FROM event
  WHERE resource = :resource AND rv > :at AND (:all OR namespace = :namespace)
  AND (namespace, name) > (:after_namespace, :after_name)
  GROUP BY namespace, name)
WHERE previous IS NOT NULL
ORDER BY namespace, name
"""


class StoreError(Exception):
    """The file cannot be used; the text says why and what to do."""


class Stored(NamedTuple):
    """An object as it lies in the store."""

    rv: int
    body: bytes


class Row(NamedTuple):
    """One object of a list."""

    namespace: str
    name: str
    body: bytes


class Store:
    """One open file. All calls are short and made from one thread, the event loop's."""

    def __init__(self, path: str, *, history: int = HISTORY, fanout: Fanout | None = None) -> None:
        self.fanout = fanout or Fanout()
        self._history = history
        self._db = _open(path)
        first, last = self._db.execute("SELECT min(rv), max(rv) FROM event").fetchone()
        self._rv: int = last or 1
        self._oldest: int = (first or 2) - 1
        self._pending: list[Event] | None = None
        self._on_commit: list[Callable[[Event], None]] = []

    @property
    def rv(self) -> int:
        """The resourceVersion of the latest change."""
        return self._rv

    def close(self) -> None:
        self._db.close()

    def check(self) -> None:
        """Read from the file; raises what SQLite raises when it cannot."""
        self._db.execute("SELECT rv FROM event LIMIT 1").fetchone()

    def on_commit(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with each change after its commit."""
        self._on_commit.append(listener)

    @contextmanager
    def transaction(self, *, dry_run: bool = False) -> Iterator[None]:
        """All changes made inside are stored and seen together, or not at all (as a `dry_run` is).

        Inside another transaction it is a part of that one.
        """
        if self._pending is not None:
            yield
            return
        rv, oldest = self._rv, self._oldest
        self._pending = []
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            events = [] if dry_run else self._pending
            if events:
                self._compact()
            self._db.execute("COMMIT" if events else "ROLLBACK")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._rv, self._oldest = rv, oldest
            raise
        finally:
            self._pending = None
        if not events:
            self._rv, self._oldest = rv, oldest
        self.fanout.publish(events)
        for event in events:
            for listener in self._on_commit:
                listener(event)

    def commit(
        self, change: EventType, key: Key, new: dict[str, Any], previous: Stored | None
    ) -> Stored:
        """Store one change under the next resourceVersion, which is written into `new`."""
        with self.transaction():
            rv = self._rv + 1
            new["metadata"]["resourceVersion"] = str(rv)
            body = _encode(new)
            before = previous.body if previous else None
            self._db.execute(
                "INSERT INTO event VALUES(?,?,?,?,?,?,?)", (rv, change, *key, body, before)
            )
            if change == "DELETED":
                self._db.execute(
                    "DELETE FROM object WHERE (resource, namespace, name)=(?,?,?)", key
                )
            else:
                self._db.execute(
                    "INSERT OR REPLACE INTO object VALUES(?,?,?,?,?)", (*key, rv, body)
                )
            self._index_owners(change, key, new, before)
            self._rv = rv
            if self._pending is not None:
                self._pending.append(Event(rv, change, key, body, before))
            return Stored(rv, body)

    def get(self, key: Key) -> Stored | None:
        row = self._db.execute(
            "SELECT rv, body FROM object WHERE (resource, namespace, name)=(?,?,?)", key
        ).fetchone()
        return Stored(*row) if row else None

    def rows(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        after: tuple[str, str] = ("", ""),
        at: int | None = None,
    ) -> Iterator[Row]:
        """The objects of a resource in order, now or as they were at resourceVersion `at`."""
        at = self._rv if at is None else at
        self._require_known(at)
        rows = self._db.execute(
            _NOW if at == self._rv else _AT,
            {
                "resource": resource,
                "all": namespace is None,
                "namespace": namespace,
                "after_namespace": after[0],
                "after_name": after[1],
                "at": at,
            },
        )
        return map(Row._make, rows)

    def count(self, resource: str, namespace: str | None, after: tuple[str, str]) -> int:
        """How many objects follow `after`, at this moment."""
        row = self._db.execute(
            "SELECT count(*) FROM object WHERE resource=? AND (? OR namespace=?)"
            " AND (namespace, name) > (?,?)",
            (resource, namespace is None, namespace, *after),
        ).fetchone()
        return int(row[0])

    def events_after(self, resource: str, rv: int) -> list[Event]:
        """The changes since `rv`; Expired when the log does not reach back so far."""
        self._require_known(rv)
        rows = self._db.execute(
            "SELECT rv, change, namespace, name, body, previous FROM event"
            " WHERE resource=? AND rv>? ORDER BY rv",
            (resource, rv),
        )
        return [
            Event(number, change, Key(resource, namespace, name), body, previous)
            for number, change, namespace, name, body, previous in rows
        ]

    def dependents(self, uid: str) -> list[Key]:
        """The objects that name `uid` as an owner."""
        rows = self._db.execute("SELECT resource, namespace, name FROM owner WHERE uid=?", (uid,))
        return [Key(*row) for row in rows]

    def _require_known(self, rv: int) -> None:
        """A version to come is no better than one forgotten: it is of another store."""
        if not self._oldest <= rv <= self._rv:
            raise ApiError(410, "Expired", f"too old resource version: {rv} ({self._oldest})")

    def _index_owners(
        self, change: EventType, key: Key, new: dict[str, Any], before: bytes | None
    ) -> None:
        # The byte search spares decoding the body before: most objects have no owners.
        had = before is not None and b'"ownerReferences"' in before
        owners = [] if change == "DELETED" else new["metadata"].get("ownerReferences") or []
        if had:
            self._db.execute("DELETE FROM owner WHERE (resource, namespace, name)=(?,?,?)", key)
        if owners:
            self._db.executemany(
                "INSERT OR IGNORE INTO owner VALUES(?,?,?,?)",
                [(owner["uid"], *key) for owner in owners],
            )

    def _compact(self) -> None:
        if self._rv - self._oldest >= self._history + COMPACT_EVERY:
            self._oldest = self._rv - self._history
            self._db.execute("DELETE FROM event WHERE rv<=?", (self._oldest,))


def _encode(value: dict[str, Any]) -> bytes:
    head = {"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": value["metadata"]}
    try:
        body = msgspec.json.encode(head | value)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "BadRequest", f"the object cannot be stored: {error}") from error
    if len(body) > OBJECT_LIMIT:
        text = f"the object is too large: {len(body)} bytes, the limit is {OBJECT_LIMIT}"
        raise ApiError(413, "RequestEntityTooLarge", text)
    return body


def _open(path: str) -> sqlite3.Connection:
    advice = "choose another data directory, or move the file away to start afresh"
    try:
        # Secrets lie in it: nobody else may read it, also not before SQLite has it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(path, isolation_level=None, timeout=1)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot open {path}: {error}") from error
    try:
        _prepare(db, path, advice)
    except sqlite3.DatabaseError as error:
        db.close()
        if "locked" in str(error):
            raise StoreError(
                f"{path} is in use by another process: stop it, or choose another data directory"
            ) from error
        raise StoreError(f"{path} is not a usable store ({error}): {advice}") from error
    except StoreError:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: str, advice: str) -> None:
    db.execute("PRAGMA locking_mode=EXCLUSIVE")
    db.execute("PRAGMA page_size=8192")
    if db.execute("PRAGMA user_version").fetchone()[0] == 0:
        # Read before anything is written: a foreign file is left as it is.
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{path} is not a store of Laneway: {advice}")
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(
            f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id={APPLICATION_ID};"
            f" PRAGMA user_version={FORMAT}; COMMIT"
        )
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path} is not a store of Laneway: {advice}")
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found != FORMAT:
        raise StoreError(
            f"{path} is in format {found}, this version of Laneway reads format {FORMAT}: "
            f"use the version that wrote it, or {advice}"
        )
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("BEGIN IMMEDIATE")
    db.execute("COMMIT")
