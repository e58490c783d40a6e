"""The audit record on standard output, and in a file of the reader's choice.

A line is the one that the node's own `audit.jsonl` has. The log goes to standard error, so standard
output has nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import msgspec

from laneway.host.plans import files
from laneway.host.plans.audit import Entry
from laneway.roles.telemetry.errors import SendError, TelemetryError
from laneway.roles.telemetry.outbox import Deliver


def stdout_sink(entries: Sequence[Entry]) -> None:
    """Print the lines. Raises SendError."""
    try:
        for entry in entries:
            sys.stdout.write(msgspec.json.encode(entry).decode() + "\n")
        sys.stdout.flush()
    except (OSError, ValueError) as error:  # closed
        raise SendError(str(error)) from error


def file_sink(path: str) -> Deliver[Entry]:
    """Append the lines to a file, which may be rotated away. Raises TelemetryError."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise TelemetryError(
            f"--audit: {path} cannot be written: {error.strerror}; choose a file in a folder that "
            "exists and can be written"
        ) from error

    def deliver(entries: Sequence[Entry]) -> None:
        lines = b"\n".join(map(msgspec.json.encode, entries))
        try:
            files.append(path, lines, create=True)
        except OSError as error:
            raise SendError(f"{error.filename}: {error.strerror}") from error

    return deliver
