"""The SQLite file: how it is laid out, opened, locked and brought up to date.

In its place may stand a database in memory (`MEMORY`), which is gone when it is closed.

What is committed survives `kill -9` of the process: the write-ahead log is handed to the operating
system before a commit returns (`synchronous=NORMAL`; only a power cut can take the last commits,
never the file's consistency). Only one process may open the file: SQLite's exclusive lock says
so, and is gone with its process. Pages that become free are returned step by step
(`auto_vacuum=INCREMENTAL`), and the log is cut back after each checkpoint. Nothing is scanned at
the opening, so a file opens as fast after a million changes as after one.
"""

from __future__ import annotations

import os
import sqlite3

MEMORY = ":memory:"
"""The path that is no file."""
FORMAT = 2
APPLICATION_ID = 0x4C4E5759
LOG_LIMIT = 16 * 1024 * 1024
"""Bytes that the write-ahead log keeps after a checkpoint; it is made every 1,000 pages."""

# `mark` is one row: up to which change the history was forgotten, and what `time` and `total` had
# come to by then. It keeps resourceVersions growing when not one event is left.
# `total` counts the bytes of all events ever, so that the size of a part is a difference.
_TABLES = """
CREATE TABLE object(
  resource TEXT, namespace TEXT, name TEXT, rv INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY(resource, namespace, name)) WITHOUT ROWID;
CREATE TABLE event(
  rv INTEGER PRIMARY KEY, time INTEGER NOT NULL, total INTEGER NOT NULL, change TEXT NOT NULL,
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  body BLOB NOT NULL, previous BLOB);
CREATE TABLE mark(rv INTEGER NOT NULL, time INTEGER NOT NULL, total INTEGER NOT NULL);
CREATE TABLE owner(
  uid TEXT, blocking INTEGER, resource TEXT, namespace TEXT, name TEXT,
  PRIMARY KEY(uid, blocking, resource, namespace, name)) WITHOUT ROWID;
CREATE TABLE work(
  number INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT NOT NULL, namespace TEXT NOT NULL,
  name TEXT NOT NULL, uid TEXT NOT NULL, UNIQUE(resource, namespace, name, uid));
"""

_INDEXES = """
CREATE INDEX event_by_resource ON event(resource, rv, namespace, name);
CREATE INDEX owner_by_dependent ON owner(resource, namespace, name);
"""

# Format 1 had no work list: every dependent, namespace and definition is looked at once.
_FROM_1 = """
ALTER TABLE event RENAME TO event_1;
ALTER TABLE owner RENAME TO owner_1;
DROP INDEX event_by_resource;
DROP INDEX owner_by_dependent;
ALTER TABLE object RENAME TO object_1;
{tables}
INSERT INTO object SELECT resource, namespace, name, rv, body FROM object_1;
INSERT INTO event SELECT rv, 0, 0, change, resource, namespace, name, body, previous FROM event_1;
INSERT INTO owner SELECT DISTINCT owner_1.uid, coalesce(json_extract(value,
  '$.blockOwnerDeletion'), 0), resource, namespace, name
  FROM owner_1 JOIN object USING(resource, namespace, name),
  json_each(CAST(body AS TEXT), '$.metadata.ownerReferences')
  WHERE json_extract(value, '$.uid') = owner_1.uid;
INSERT INTO mark SELECT coalesce(min(rv) - 1, 1), 0, 0 FROM event;
INSERT INTO work(resource, namespace, name, uid)
  SELECT resource, namespace, name, '' FROM owner UNION
  SELECT resource, namespace, name, '' FROM object
  WHERE resource IN ('namespaces', 'customresourcedefinitions.apiextensions.k8s.io');
DROP TABLE object_1;
DROP TABLE event_1;
DROP TABLE owner_1;
{indexes}
"""


class StoreError(Exception):
    """The file cannot be used; the text says why and what to do."""


def connect(path: str, contents: bytes = b"") -> sqlite3.Connection:
    """The open file, locked and in the present format. Raises StoreError.

    `contents` are what a database in memory begins with.
    """
    advice = "choose another data directory, or move the file away to start afresh"
    try:
        if path != MEMORY:
            # Secrets lie in it: no other user may read it, also not before SQLite has it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(path, isolation_level=None, timeout=1)
        if contents:
            db.deserialize(contents)
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
    db.execute("PRAGMA auto_vacuum=INCREMENTAL")
    if db.execute("PRAGMA user_version").fetchone()[0] == 0:
        # Read before anything is written: a foreign file is left as it is.
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{path} is not a store of kapilite: {advice}")
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(
            f"BEGIN IMMEDIATE; {_TABLES} {_INDEXES} INSERT INTO mark VALUES(1, 0, 0);"
            f" PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}; COMMIT"
        )
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path} is not a store of kapilite: {advice}")
    _migrate(db)
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found != FORMAT:
        raise StoreError(
            f"{path} is in format {found}, this version of kapilite reads format {FORMAT}: "
            f"use the version that wrote it, or {advice}"
        )
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA journal_size_limit={LOG_LIMIT}")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("BEGIN IMMEDIATE")
    db.execute("COMMIT")


def _migrate(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] != 1:
        return
    script = _FROM_1.format(tables=_TABLES, indexes=_INDEXES)
    db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version=2; COMMIT")
    db.execute("VACUUM")  # lays the file out for incremental vacuuming
