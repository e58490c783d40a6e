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
import os
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from laneway.core.history import Hold, bridged
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.web.history import finding
from laneway.web.history.finding import Found, Query

VERSION = 1
NAME = "history.db"
_DAY = 86_400_000
_MIB = 1 << 20
_REMOVED = 0.05
"""This part of the entries goes at once where the file is full."""

_TABLES = f"""
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
CREATE TABLE places (kind TEXT, namespace TEXT, PRIMARY KEY (kind, namespace)) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID, STRICT;
PRAGMA user_version = {VERSION};
COMMIT;
"""
_INDEXES = """
BEGIN;
CREATE UNIQUE INDEX IF NOT EXISTS still ON spans (device, node) WHERE until IS NULL;
CREATE INDEX IF NOT EXISTS by_time ON spans (since, id);
CREATE INDEX IF NOT EXISTS by_end ON spans (until) WHERE until IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_device ON spans (device, since, id);
CREATE INDEX IF NOT EXISTS by_node ON spans (node, since, id);
CREATE INDEX IF NOT EXISTS by_place ON spans (kind, namespace, since, id);
CREATE INDEX IF NOT EXISTS by_name ON spans (name, kind, namespace, since, id);
CREATE INDEX IF NOT EXISTS by_gap ON spans (node, since, id) WHERE device = '';
CREATE INDEX IF NOT EXISTS still_by_time ON spans (since, id) WHERE until IS NULL;
CREATE INDEX IF NOT EXISTS still_by_node ON spans (node, since, id) WHERE until IS NULL;
CREATE INDEX IF NOT EXISTS still_by_place ON spans (kind, namespace, since, id)
    WHERE until IS NULL;
DROP INDEX IF EXISTS held;
DROP INDEX IF EXISTS by_holder;
COMMIT;
"""
"""For files of earlier versions as well: they had `held` and `by_holder` in place of some."""


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
    unseen_since: int | None = None
    """Where it was not observed when that happened: from when on it was not."""


class Silence(NamedTuple):
    """The agent of a node does not report from now on, or does again."""

    at: int
    node: str
    ends: bool = False


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
            db.execute(
                "UPDATE spans SET until = max(since, ?) WHERE device = '' AND until IS NULL",
                (seen,),
            )
            if "seen" in facts and now > seen:
                _insert_gap(db, seen, now)
            for hold in found.begun:
                _insert(db, now, hold, begin_seen=False)
            db.execute("INSERT OR IGNORE INTO facts VALUES ('began', ?)", (now,))
            _seen(db, now)

    def write(self, changes: Iterable[Event | Silence], seen: int) -> None:
        """Take changes in; everything up to `seen` was observed, but for what silences say."""
        with self._changing() as db:
            for change in changes:
                if isinstance(change, Silence):
                    _silence(db, change)
                    continue
                is_seen = change.unseen_since is None
                db.execute(
                    "UPDATE spans SET until = max(since, ?), end_seen = ? "
                    "WHERE device = ? AND until IS NULL",
                    (change.at if is_seen else change.unseen_since, is_seen, change.device),
                )
                if change.hold is not None:
                    _insert(db, change.at, change.hold, begin_seen=is_seen)
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
            return finding.places(self._reader)

    def find(self, query: Query, allowed: Iterable[Consumer] | None) -> Found:
        """Entries of holders in these places, None for all; gaps concern every holder."""
        with self._reading:
            return finding.find(self._reader, query, allowed)

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
            db.executescript(_TABLES)
        elif version != VERSION:
            raise sqlite3.DatabaseError(f"version {version}")
        elif db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("damaged")
        db.executescript(_INDEXES)
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


def _insert_gap(db: sqlite3.Connection, since: int, until: int | None, node: str = "") -> None:
    db.execute(
        "INSERT INTO spans VALUES (NULL, ?, ?, '', ?, '', '', '', '', '', '', 1, 1)",
        (since, until, node),
    )


def _silence(db: sqlite3.Connection, silence: Silence) -> None:
    if not silence.ends:
        _insert_gap(db, silence.at, None, silence.node)
        return
    db.execute(
        "UPDATE spans SET until = max(since, ?) WHERE device = '' AND node = ? AND until IS NULL",
        (silence.at, silence.node),
    )


def _seen(db: sqlite3.Connection, at: int) -> None:
    db.execute(
        "INSERT INTO facts VALUES ('seen', ?) "
        "ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        (at,),
    )


def _begins(db: sqlite3.Connection, at: int) -> None:
    """What was before is not known any more."""
    db.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'began'", (at,))
