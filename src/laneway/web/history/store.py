"""The file of the history: SQLite, bounded in age and size, written and read in threads.

An entry is closed once and never changed again. What is oldest is removed first; an entry of a
device that is still held stays. `seen` says up to when everything was observed, so the time from
there to the next start is known as a gap, whatever ended the process.

A file that is damaged, or of another version, is renamed and a new one begun: the history is a
record, and the interface works without it. One process writes a folder at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from laneway.core.history import Hold, Period, Span, bridged
from laneway.core.ledger.facts import Consumer, ConsumerKind

VERSION = 1
NAME = "history.db"
_DAY = 86_400_000
_MIB = 1 << 20
_REMOVED = 0.05
"""This part of the entries goes at once where the file is full."""
_GAPS = 10_000
"""So many gaps are looked at to say how much of an entry was not observed."""

_SCHEMA = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE spans (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    since INTEGER NOT NULL,
    until INTEGER,
    device TEXT NOT NULL,
    node TEXT NOT NULL,
    gpu TEXT NOT NULL,
    profile TEXT NOT NULL,
    resource TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    begin_seen INTEGER NOT NULL,
    end_seen INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX held ON spans (device) WHERE until IS NULL;
CREATE INDEX by_time ON spans (since, id);
CREATE INDEX by_end ON spans (until) WHERE until IS NOT NULL;
CREATE INDEX by_device ON spans (device, since, id);
CREATE INDEX by_node ON spans (node, since, id);
CREATE INDEX by_holder ON spans (name, since, id);
CREATE TABLE places (kind TEXT, namespace TEXT, PRIMARY KEY (kind, namespace)) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID, STRICT;
PRAGMA user_version = {VERSION};
COMMIT;
"""
_COLUMNS = (
    "id, since, until, device, node, gpu, profile, resource, kind, namespace, name, "
    "begin_seen, end_seen"
)


class Keeping(NamedTuple):
    """Where the history is kept, and how much of it."""

    folder: str
    days: int = 90
    mebibytes: int = 256


class UnusableError(Exception):
    """The file cannot be used now, in words."""


class Event(NamedTuple):
    """A device has another holder from now on, or none."""

    at: int
    device: str
    hold: Hold | None


class Query(msgspec.Struct, frozen=True):
    """Which entries are wanted; empty fields do not matter."""

    device: str = ""
    node: str = ""
    namespace: str = ""
    name: str = ""
    since: int | None = None
    until: int | None = None
    after: tuple[int, int] | None = None
    """The time and id of the last entry of the page before."""
    limit: int = 50


class Found(NamedTuple):
    """A page, the newest first."""

    spans: Sequence[Span]
    more: bool
    gaps: Sequence[Period]
    """In the time of these entries."""
    began: int
    """Before that nothing is known."""


class Store:
    """The file, open. `close` it."""

    def __init__(self, keeping: Keeping) -> None:
        """Open the file, or begin one. Raises UnusableError."""
        self.set_aside = ""
        """Where an earlier file is that could not be used."""
        self._path = os.path.join(keeping.folder, NAME)
        self._keeping = keeping
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._closing = contextlib.ExitStack()
        try:
            os.makedirs(keeping.folder, mode=0o700, exist_ok=True)
            self._lock(os.path.join(keeping.folder, "lock"))
            try:
                self._writer = self._opened()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                self._put_aside()
                self._writer = self._opened()
            self._reader = self._connected()
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise UnusableError(f"{self._path}: {error}") from error
        except UnusableError:
            self.close()
            raise

    def close(self) -> None:
        """Let others have the folder, once no thread writes or reads."""
        with self._writing, self._reading:
            self._closing.close()

    # ---- writing ----

    def begin(self, now: int, holds: Collection[Hold]) -> None:
        """Observation begins: what is held now, after a gap if there was any before."""
        with self._changing() as db:
            facts = dict(db.execute("SELECT name, value FROM facts"))
            seen = min(facts.get("seen", now), now)
            rows = db.execute(
                "SELECT device, kind, namespace, name FROM spans "
                "WHERE until IS NULL AND device != ''"
            )
            before = {
                device: Consumer(ConsumerKind(kind), namespace, name)
                for device, kind, namespace, name in rows
            }
            found = bridged(before, holds)
            db.executemany(
                "UPDATE spans SET until = max(since, ?), end_seen = 0 "
                "WHERE device = ? AND until IS NULL",
                ((seen, device) for device in found.ended),
            )
            if "seen" in facts and now > seen:
                db.execute(
                    "INSERT INTO spans VALUES (NULL, ?, ?, '', '', '', '', '', '', '', '', 1, 1)",
                    (seen, now),
                )
            for hold in found.begun:
                _insert(db, now, hold, begin_seen=False)
            db.execute("INSERT OR IGNORE INTO facts VALUES ('began', ?)", (now,))
            _seen(db, now)

    def write(self, events: Iterable[Event], seen: int) -> None:
        """Take changes in; everything up to `seen` was observed."""
        with self._changing() as db:
            for event in events:
                db.execute(
                    "UPDATE spans SET until = max(since, ?) WHERE device = ? AND until IS NULL",
                    (event.at, event.device),
                )
                if event.hold is not None:
                    _insert(db, event.at, event.hold, begin_seen=True)
            _seen(db, seen)

    def trim(self, now: int) -> None:
        """Remove what is too old, and the oldest where there is too much."""
        oldest = now - self._keeping.days * _DAY
        with self._changing() as db:
            if db.execute("DELETE FROM spans WHERE until < ?", (oldest,)).rowcount:
                _begins(db, oldest)
        while self._size() > self._keeping.mebibytes * _MIB:
            with self._changing() as db:
                [closed] = db.execute(
                    "SELECT count(*) FROM spans WHERE until IS NOT NULL"
                ).fetchone()
                if not closed:
                    break
                rows = db.execute(
                    "DELETE FROM spans WHERE id IN (SELECT id FROM spans WHERE until IS NOT NULL "
                    "ORDER BY until LIMIT ?) RETURNING until",
                    (max(1, int(closed * _REMOVED)),),
                ).fetchall()
                _begins(db, max(until for (until,) in rows))
        with self._writing:
            self._writer.execute("PRAGMA incremental_vacuum").fetchall()

    def _size(self) -> int:
        with self._writing:
            numbers = [
                self._writer.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            ]
        return int((numbers[0] - numbers[1]) * numbers[2])

    # ---- reading ----

    def places(self) -> frozenset[Consumer]:
        """Each kind of holder and namespace in the history, without names."""
        with self._reading:
            rows = self._reader.execute("SELECT kind, namespace FROM places").fetchall()
        return frozenset(Consumer(ConsumerKind(kind), namespace, "") for kind, namespace in rows)

    def find(self, query: Query, allowed: Iterable[Consumer] | None) -> Found:
        """Entries of holders in these places, None for all; gaps concern every device."""
        conditions, values = _conditions(query)
        gaps, times = _times(query)
        if allowed is not None:
            parts = []
            for kind, namespaces in _by_kind(allowed).items():
                parts.append("(kind = ? AND namespace IN (SELECT value FROM json_each(?)))")
                values += [kind, msgspec.json.encode(namespaces).decode()]
            conditions.append(f"({' OR '.join(parts) or '0'})")
        with self._reading:
            held = self._select([*conditions, *gaps], [*values, *times], query.limit)
            unseen = self._select(["device = ''", *gaps], times, query.limit)
            found = list(heapq.merge(held, unseen, key=lambda one: (-one.since, -one.id)))
            page = found[: query.limit]
            periods = self._gaps(min((one.since for one in page), default=0)) if page else []
            row = self._reader.execute("SELECT value FROM facts WHERE name = 'began'").fetchone()
        return Found(page, len(found) > query.limit, periods, row[0] if row else 0)

    def _select(
        self, conditions: Sequence[str], values: Sequence[object], limit: int
    ) -> list[Span]:
        rows = self._reader.execute(
            f"SELECT {_COLUMNS} FROM spans WHERE {' AND '.join(conditions)} "  # noqa: S608 - ours
            "ORDER BY since DESC, id DESC LIMIT ?",
            [*values, limit + 1],
        )
        return [_span(row) for row in rows]

    def _gaps(self, since: int) -> list[Period]:
        rows = self._reader.execute(
            "SELECT since, until FROM spans WHERE device = '' AND until > ? "
            "ORDER BY since DESC LIMIT ?",
            (since, _GAPS),
        )
        return [Period(*row) for row in rows]

    # ---- the file ----

    def _lock(self, path: str) -> None:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._closing.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnusableError(f"{self._path} is in use by another process") from None

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._closing.callback(db.close)
        return db

    def _opened(self) -> sqlite3.Connection:
        """Raises sqlite3.DatabaseError for what is no history of this version."""
        db = self._connected()
        [version] = db.execute("PRAGMA user_version").fetchone()
        [tables] = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not version and not tables:
            db.executescript(_SCHEMA)
        elif version != VERSION:
            raise sqlite3.DatabaseError(f"version {version}")
        elif db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("damaged")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA journal_size_limit = 4194304")
        return db

    def _put_aside(self) -> None:
        self.set_aside = f"{self._path}.unusable"
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}{ending}", f"{self.set_aside}{ending}")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")


def _insert(db: sqlite3.Connection, at: int, hold: Hold, *, begin_seen: bool) -> None:
    kind, namespace, name = hold.holder
    db.execute(
        "INSERT INTO spans VALUES (NULL, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
        (
            at,
            hold.device,
            hold.node,
            hold.gpu,
            hold.profile,
            hold.resource,
            kind.value,
            namespace,
            name,
            begin_seen,
        ),
    )
    db.execute("INSERT OR IGNORE INTO places VALUES (?, ?)", (kind.value, namespace))


def _seen(db: sqlite3.Connection, at: int) -> None:
    db.execute(
        "INSERT INTO facts VALUES ('seen', ?) "
        "ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        (at,),
    )


def _begins(db: sqlite3.Connection, at: int) -> None:
    """What was before is not known any more."""
    db.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'began'", (at,))


def _conditions(query: Query) -> tuple[list[str], list[object]]:
    """Which holders and devices."""
    named = {
        "device": query.device,
        "node": query.node,
        "namespace": query.namespace,
        "name": query.name,
    }
    chosen = {column: value for column, value in named.items() if value}
    kind = ["kind = ?"] if query.name else []
    return (
        ["device != ''", *kind, *(f"{column} = ?" for column in chosen)],
        [*(ConsumerKind.VM.value for _ in kind), *chosen.values()],
    )


def _times(query: Query) -> tuple[list[str], list[object]]:
    """What overlaps the time that is asked for, on this page."""
    conditions, values = ["1"], list[object]()
    if query.since is not None:
        conditions.append("(until IS NULL OR until > ?)")
        values.append(query.since)
    if query.until is not None:
        conditions.append("since < ?")
        values.append(query.until)
    if query.after is not None:
        conditions.append("(since, id) < (?, ?)")
        values += query.after
    return conditions, values


def _by_kind(places: Iterable[Consumer]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for place in places:
        found.setdefault(place.kind.value, []).append(place.namespace)
    return found


def _span(row: Sequence[Any]) -> Span:
    id_, since, until, device, node, gpu, profile, resource, kind, namespace, name, *seen = row
    hold = None
    if device:
        holder = Consumer(ConsumerKind(kind), namespace, name)
        hold = Hold(device, node, resource, holder, gpu, profile)
    return Span(id_, since, until, hold, *map(bool, seen))
