"""Simulated hosts that outlive their process: the base and a log of what was done to it.

A log has one line of JSON per change, a write that reached a driver, a change of owner or a
command, and first a line that names what the base was. Opening replays the changes through the same
code that they went through the first time, which is deterministic, so the files end up identical; a
change that ends differently shows that the base has changed. Every line is on the disk before the
change returns. A crash can leave at most a last line without its end, which is cut off: that change
had not returned. Anything else that is wrong is reported, and nothing is changed.

Hot-plug is not in the log: it is the world's doing, and the next start finds the base's devices.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from typing import TypeVar

import msgspec

from laneway.sim.changes import Change
from laneway.sim.dump import DumpError
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import Spec, build

_FORMAT = 1


class HostLogError(Exception):
    """The log of a simulated host cannot be used; the text says why and what to do."""


class _Head(msgspec.Struct, frozen=True):
    format: int
    base: str
    """What was written to: `model a2`, or `dump` with the digest of the file."""


_Line = TypeVar("_Line", _Head, Change)


def open_simulated(spec: Spec, name: str, log_path: str) -> SimulatedHost:
    """The host as it was left; its log is made when there is none.

    Raises HostLogError, and DumpError when the base is a dump that cannot be used.
    """
    host = build(spec, name)
    expected = _Head(_FORMAT, _base(spec))
    whole, torn = _read(log_path)
    lines = whole.splitlines()
    if lines:
        _check(_decode(lines[0], _Head, log_path, 1), expected, log_path)
    for number, line in enumerate(lines[1:], 2):
        _replay(host, _decode(line, Change, log_path, number), log_path)
    if torn:
        os.truncate(log_path, len(whole))
    if not lines:
        _append(log_path, expected)
        _sync_directory(log_path)
    host.record_changes(lambda change: _append(log_path, change))
    return host


def _base(spec: Spec) -> str:
    if spec.model:
        return f"model {spec.model}{'' if spec.iommu else ',iommu=off'}"
    try:
        with open(spec.path, "rb") as file:
            return f"dump {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise DumpError(f"cannot read the dump {spec.path}: {error.strerror}") from None


def _read(log_path: str) -> tuple[bytes, bool]:
    """The complete lines, and whether an incomplete one follows."""
    try:
        with open(log_path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return b"", False
    except OSError as error:
        raise HostLogError(f"cannot read {log_path}: {error.strerror}; check the file") from None
    end = raw.rfind(b"\n") + 1
    return raw[:end], end < len(raw)


def _check(head: _Head, expected: _Head, log_path: str) -> None:
    if head.format != expected.format:
        raise HostLogError(
            f"{log_path} has format {head.format}, this version of Laneway reads format "
            f"{expected.format}: use another data directory, or delete the file to start again"
        )
    if head.base != expected.base:
        raise HostLogError(
            f"{log_path} belongs to another simulated host ({head.base[:40]}, not "
            f"{expected.base[:40]}): simulate that one, or delete the file to start again"
        )


def _replay(host: SimulatedHost, change: Change, log_path: str) -> None:
    if change.argv:
        outcome, before = _run(host, change.argv), f"status {change.status}"
        operation = f"running {' '.join(change.argv)[:200]}"
    elif change.owner is not None:
        uid, gid = change.owner
        outcome = _word(_errno(lambda: host.set_owner(change.path, uid, gid)))
        before = "success"
        operation = f"changing the owner of {change.path[:200]}"
    elif change.content is not None or change.removed:
        outcome = _word(_errno(lambda: host.replace(change.path, change.content)))
        before = "success"
        operation = f"replacing {change.path[:200]}"
    else:
        outcome = _word(_errno(lambda: host.write(change.path, change.data)))
        before = _word(change.errno)
        operation = f"writing {change.data.strip()[:60]!r} to {change.path[:200]}"
    if outcome != before:
        raise HostLogError(
            f"{log_path}: {operation} now ends in {outcome} instead of {before}, so the state of "
            "the simulated host cannot be restored: delete the file to start again"
        )


def _errno(call: Callable[[], None]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or 0
    return 0


def _run(host: SimulatedHost, argv: tuple[str, ...]) -> str:
    try:
        return f"status {host.call(argv).status}"
    except OSError as error:
        return _word(error.errno or 0)


def _word(number: int) -> str:
    return errno.errorcode.get(number, str(number)) if number else "success"


def _decode(line: bytes, kind: type[_Line], log_path: str, number: int) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError:
        raise HostLogError(
            f"{log_path} line {number} is damaged: restore the file, or delete it to start again"
        ) from None


def _append(log_path: str, line: _Head | Change) -> None:
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        _write(log, msgspec.json.encode(line) + b"\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, log_path) from None
    finally:
        os.close(log)


def _write(log: int, content: bytes) -> None:
    size = os.fstat(log).st_size
    if os.write(log, content) != len(content):
        os.ftruncate(log, size)  # a part of a line would make one with the next
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(log)


def _sync_directory(log_path: str) -> None:
    directory = os.open(os.path.dirname(log_path) or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
