"""Objects, their history and the work that follows from changes, in one SQLite file.

All resources share one resourceVersion that grows by one with every change and never goes back,
also when nothing of the history is left. The history is kept with the body before and after each
change, so a watch can resume anywhere in it with selectors that see objects come and go, and a
list can be continued as of the moment it began. What lies before it is answered as `Expired`.
It is bounded by count, by bytes and by age; every few writes forget a few old changes, so no
write pays for many. Age is the time this store was open, measured by a clock that cannot be set:
a history cannot age by a wrong date, nor stop ageing.

What must happen after a change (`follow`) is written down as work in the same transaction, so it
happens also when the process is killed right after the commit.

Bodies are stored as JSON bytes with apiVersion and kind first, ready to be sent.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kapilite.errors import ApiError
from kapilite.storage import database
from kapilite.storage.database import StoreError
from kapilite.storage.events import Event, Fanout, Key

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator

    from kapilite.storage.events import EventType

__all__ = ["FIRST", "HISTORY", "Row", "Store", "StoreError", "Stored", "Work"]

log = logging.getLogger(__name__)

HISTORY = 50_000
HISTORY_BYTES = 128 * 1024 * 1024
HISTORY_SECONDS = 3600
COMPACT_EVERY = 20
COMPACT_AT_MOST = 100
"""Changes forgotten in one step, some milliseconds."""
WORK_AT_MOST = 50
"""Pieces of work that are read at once."""
SPARE_PAGES = 256
"""Free pages that are not returned, since the next writes need them: 2 MiB."""
OBJECT_LIMIT = 4 * 1024 * 1024
"""More than one request can bring, so only an object that grows patch by patch meets it."""

_NOW = """
SELECT namespace, name, body FROM object
WHERE resource = :resource AND (:all OR namespace = :namespace)
AND (namespace, name) > (:after_namespace, :after_name)
ORDER BY namespace, name
"""

# What has changed since `at` is seen as it was before its first later change.
_AT = """
WITH changed AS (
  SELECT min(rv) AS first FROM event
  WHERE resource = :resource AND rv > :at AND (:all OR namespace = :namespace)
  AND (namespace, name) > (:after_namespace, :after_name)
  GROUP BY namespace, name)
SELECT namespace, name, body FROM object
WHERE resource = :resource AND (:all OR namespace = :namespace)
AND (namespace, name) > (:after_namespace, :after_name) AND rv <= :at
UNION ALL
SELECT namespace, name, previous FROM changed JOIN event ON event.rv = changed.first
WHERE previous IS NOT NULL
ORDER BY namespace, name
"""


_COUNT = f"SELECT count(*) FROM ({_NOW})"  # noqa: S608 - both parts are constants
_COUNT_AT = f"SELECT count(*) FROM ({_AT})"  # noqa: S608 - of our own text

FIRST = Key("", "", "")
"""Before every key."""


class Stored(NamedTuple):
    """An object as it lies in the store."""

    rv: int
    body: bytes


class Row(NamedTuple):
    """One object of a list."""

    namespace: str
    name: str
    body: bytes


class Work(NamedTuple):
    """Something to look at: the object, or with a `uid` the dependents of the owner so called."""

    number: int
    key: Key
    uid: str


class Store:
    """One open file. All calls are short and made from one thread, the event loop's."""

    def __init__(
        self,
        path: str,
        *,
        contents: bytes = b"",
        history: int = HISTORY,
        history_bytes: int = HISTORY_BYTES,
        history_seconds: int = HISTORY_SECONDS,
        fanout: Fanout | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fanout = fanout or Fanout()
        self._history = history
        self._history_bytes = history_bytes
        self._history_seconds = history_seconds
        self._db = database.connect(path, contents)
        self._oldest: int
        self._total: int
        self._oldest, at, self._total = self._db.execute("SELECT * FROM mark").fetchone()
        self._rv = self._oldest
        newest = self._db.execute("SELECT rv, time, total FROM event ORDER BY rv DESC LIMIT 1")
        if (row := newest.fetchone()) is not None:
            self._rv, at, self._total = row
        self._clock = clock
        self._began = clock() - at
        self._pending: list[Event] | None = None
        self._worked = False
        self._on_commit: list[Callable[[Event], None]] = []
        self._untold: deque[Event] = deque()
        self._follow: Callable[..., Iterable[tuple[Key, str]]] = _nothing
        self._wake: Callable[[], None] = _ignore
        self.closed = False

    @property
    def rv(self) -> int:
        """The resourceVersion of the latest change."""
        return self._rv

    @property
    def oldest(self) -> int:
        """The resourceVersion after which every change is known."""
        return self._oldest

    def contents(self) -> bytes:
        """All that is stored now, for another store in memory to begin with."""
        return self._db.serialize()

    def close(self) -> None:
        self.closed = True
        self._db.close()

    def check(self) -> None:
        """Read from the file; raises what SQLite raises when it cannot."""
        self._db.execute("SELECT rv FROM event LIMIT 1").fetchone()

    def on_commit(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with each change after its commit.

        One that raises is logged and keeps no other from hearing of the change: what is
        committed cannot fail any more. One that writes gets that after all others have
        got what came before.
        """
        self._on_commit.append(listener)

    def on_change(
        self,
        follow: Callable[[EventType, Key, dict[str, Any], bytes | None], Iterable[tuple[Key, str]]],
        wake: Callable[[], None],
    ) -> None:
        """`follow` says what work a change makes; `wake` is called when there is some."""
        self._follow, self._wake = follow, wake

    @contextmanager
    def transaction(self, *, dry_run: bool = False) -> Iterator[None]:
        """All changes made inside are stored and seen together, or not at all (as a `dry_run` is).

        Inside another transaction it is a part of that one.
        """
        if self._pending is not None:
            yield
            return
        before = self._rv, self._oldest, self._total
        self._pending, self._worked = [], False
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            events = [] if dry_run else self._pending
            if events and self._rv % COMPACT_EVERY < len(events):
                self._compact()
            self._db.execute("ROLLBACK" if dry_run else "COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._rv, self._oldest, self._total = before
            raise
        finally:
            self._pending = None
        if dry_run:
            self._rv, self._oldest, self._total = before
            return
        self.fanout.publish(events)
        if self._worked:
            self._wake()
        self._tell(events)

    def _tell(self, events: Iterable[Event]) -> None:
        is_told = bool(self._untold)  # further down the stack, by a listener that writes
        self._untold.extend(events)
        while self._untold and not is_told:
            for listener in self._on_commit:
                try:
                    listener(self._untold[0])
                except Exception:
                    log.exception("a change is stored, but not everything follows it")
            self._untold.popleft()

    def commit(
        self, change: EventType, key: Key, new: dict[str, Any], previous: Stored | None
    ) -> Stored:
        """Store one change under the next resourceVersion, which is written into `new`."""
        with self.transaction():
            rv = self._rv + 1
            new["metadata"]["resourceVersion"] = str(rv)
            body = encode(new)
            before = previous.body if previous else None
            self._total += len(body) + len(before or b"")
            self._db.execute(
                "INSERT INTO event VALUES(?,?,?,?,?,?,?,?,?)",
                (rv, self._now(), self._total, change, *key, body, before),
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
            for what, uid in self._follow(change, key, new, before):
                self.enqueue(what, uid)
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
        rows = self._select((_NOW, _AT), resource, namespace, after, at)
        return map(Row._make, rows)

    def count(
        self,
        resource: str,
        namespace: str | None = None,
        after: tuple[str, str] = ("", ""),
        *,
        at: int | None = None,
    ) -> int:
        """How many objects follow `after`, now or as of `at`."""
        found = self._select((_COUNT, _COUNT_AT), resource, namespace, after, at).fetchone()
        return int(found[0])

    def events_after(
        self, resource: str, rv: int, *, until: int | None = None, limit: int = -1
    ) -> list[Event]:
        """The changes since `rv`; Expired when the history does not reach back so far."""
        self._require_known(rv)
        rows = self._db.execute(
            "SELECT rv, change, namespace, name, body, previous FROM event"
            " WHERE resource=? AND rv>? AND rv<=? ORDER BY rv LIMIT ?",
            (resource, rv, self._rv if until is None else until, limit),
        )
        return [
            Event(number, change, Key(resource, namespace, name), body, previous)
            for number, change, namespace, name, body, previous in rows
        ]

    def _select(
        self,
        statements: tuple[str, str],
        resource: str,
        namespace: str | None,
        after: tuple[str, str],
        at: int | None,
    ) -> sqlite3.Cursor:
        """Run the statement for now, or the one for a moment of the past."""
        at = self._rv if at is None else at
        self._require_known(at)
        return self._db.execute(
            statements[at != self._rv],
            {
                "resource": resource,
                "all": namespace is None,
                "namespace": namespace,
                "after_namespace": after[0],
                "after_name": after[1],
                "at": at,
            },
        )

    # Owners.

    def dependents(
        self, uid: str, *, after: Key = FIRST, limit: int = -1, blocking: bool = False
    ) -> list[Key]:
        """Objects that name `uid` as an owner, in order; those that block its deletion alone."""
        rows = self._db.execute(
            "SELECT resource, namespace, name FROM owner WHERE uid=? AND blocking IN (1, ?)"
            " AND (resource, namespace, name) > (?,?,?)"
            " ORDER BY resource, namespace, name LIMIT ?",
            (uid, 1 if blocking else 0, *after, limit),
        )
        return [Key(*row) for row in rows]

    def owned(self, after: Key, limit: int) -> list[Key]:
        """Objects that have owners, in order."""
        rows = self._db.execute(
            "SELECT DISTINCT resource, namespace, name FROM owner"
            " WHERE (resource, namespace, name) > (?,?,?)"
            " ORDER BY resource, namespace, name LIMIT ?",
            (*after, limit),
        )
        return [Key(*row) for row in rows]

    # Work.

    def enqueue(self, key: Key, uid: str = "") -> None:
        """Look at this later. What waits already goes to the end, under a new number."""
        self._db.execute(
            "INSERT OR REPLACE INTO work(resource, namespace, name, uid) VALUES(?,?,?,?)",
            (*key, uid),
        )
        self._worked = True

    def work(self, after: int = 0) -> list[Work]:
        """The next of it, in order."""
        rows = self._db.execute(
            "SELECT number, resource, namespace, name, uid FROM work WHERE number>?"
            " ORDER BY number LIMIT ?",
            (after, WORK_AT_MOST),
        )
        return [Work(row[0], Key(*row[1:4]), row[4]) for row in rows]

    def finish(self, work: Work) -> None:
        """It is done, unless it was requested again in the meantime."""
        self._db.execute("DELETE FROM work WHERE number=?", (work.number,))

    # Upkeep.

    def tidy(self) -> bool:
        """Forget what is old and return free pages, a little of both; whether more is left."""
        before = self._oldest
        with self.transaction():
            self._compact()
        free = self._db.execute("PRAGMA freelist_count").fetchone()[0] - SPARE_PAGES
        if free > 0:
            # A script is run to its end; `execute` would return one page.
            self._db.executescript(f"PRAGMA incremental_vacuum({min(free, COMPACT_AT_MOST)})")
        return self._oldest != before or free > COMPACT_AT_MOST

    def _require_known(self, rv: int) -> None:
        """A version to come is no better than one forgotten: it is of another store."""
        if not self._oldest <= rv <= self._rv:
            raise ApiError(410, "Expired", f"too old resource version: {rv} ({self._oldest})")

    def _now(self) -> int:
        return int(self._clock() - self._began)

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
                "INSERT OR IGNORE INTO owner VALUES(?,?,?,?,?)",
                [(owner["uid"], bool(owner.get("blockOwnerDeletion")), *key) for owner in owners],
            )

    def _compact(self) -> None:
        """Forget a few of the changes that are beyond a bound; all bounds grow with rv."""
        row = self._db.execute(
            "SELECT rv, time, total FROM event WHERE rv<=? AND (rv<=? OR total<=? OR time<=?)"
            " ORDER BY rv DESC LIMIT 1",
            (
                self._oldest + COMPACT_AT_MOST,
                self._rv - self._history,
                self._total - self._history_bytes,
                self._now() - self._history_seconds,
            ),
        ).fetchone()
        if row is not None:
            self._oldest = row[0]
            self._db.execute("UPDATE mark SET (rv, time, total) = (?,?,?)", row)
            self._db.execute("DELETE FROM event WHERE rv<=?", (self._oldest,))


def _nothing(*_: Any) -> Iterable[tuple[Key, str]]:
    return ()


def _ignore() -> None:
    pass


def encode(value: dict[str, Any]) -> bytes:
    """The form in which an object is kept and sent, what it is first. Raises ApiError."""
    head = {"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": value["metadata"]}
    try:
        body = msgspec.json.encode(head | value)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "BadRequest", f"the object cannot be stored: {error}") from error
    if len(body) > OBJECT_LIMIT:
        text = f"the object is too large: {len(body)} bytes, the limit is {OBJECT_LIMIT}"
        raise ApiError(413, "RequestEntityTooLarge", text)
    return body
