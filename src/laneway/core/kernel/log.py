"""The kernel's log, as `/dev/kmsg` gives it record by record."""

from __future__ import annotations

from collections.abc import Sequence

CAUGHT_UP = ""
"""Stands among messages where everything so far has been read; no message is empty."""


def parse_record(record: bytes) -> str:
    r"""The message of a record, `6,339,5140900,-;text`, without what the kernel notes in addition.

    Empty for anything else. Bytes that cannot be printed stay in the kernel's notation, `\x0a`.
    """
    head, semicolon, rest = record.partition(b";")
    if not semicolon or not head[:1].isdigit():
        return ""
    return rest.partition(b"\n")[0].decode("utf-8", "replace").strip()


def added(before: Sequence[str], after: Sequence[str]) -> Sequence[str]:
    """What came to a log between two readings; what the first had may be overwritten since."""
    for lost in range(len(before)):
        kept = len(before) - lost
        if after[:kept] == before[lost:]:
            return after[kept:]
    return after
