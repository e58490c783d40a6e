"""The journal of one plan: what a process that is started again needs to end what another began.

The whole plan is on the disk before its first write. What follows is written before the step that
it is about, but not waited for on its way to the disk: a process that is started later in the same
boot reads it all the same, however the one before ended. Only a node that dies itself loses it, and
the next boot asks no more than whose plan it was and whether it had ended, which is on the disk.

A killed process can tear the last line only, which then says nothing; anything else that cannot be
read is damage and an error. Every line begins with its checksum: a plan with one wrong bit in an
address would be a plan for another device.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from laneway.core.plan import Plan, Step
from laneway.core.requested import UNKNOWN, Origin
from laneway.host.plans import files
from laneway.host.plans.files import StateError


class Intent(msgspec.Struct, frozen=True, tag="plan", tag_field="is"):
    """First line."""

    boot: str
    actor: str
    reason: str
    plan: Plan
    origin: Origin = UNKNOWN


class Begin(msgspec.Struct, frozen=True, tag="begin", tag_field="is"):
    """A step is about to be done, in the form in which it is done: with ids looked up."""

    index: int
    step: Step


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="is"):
    """A step is done; `found`: hardware was so already, thus nothing is to be undone."""

    index: int
    found: bool = False


class Undo(msgspec.Struct, frozen=True, tag="undo", tag_field="is"):
    """From here on the plan is undone."""

    error: str
    index: int
    """The step that failed."""
    dirty: bool = False
    """Whether that step left hardware neither as before nor as after."""


class Undone(msgspec.Struct, frozen=True, tag="undone", tag_field="is"):
    """A step has been taken back, or could not be."""

    index: int
    left_over: bool = False


class End(msgspec.Struct, frozen=True, tag="end", tag_field="is"):
    """Nothing more is to be done."""


Record = Intent | Begin | Done | Undo | Undone | End


@dataclass
class Written:
    """What a journal says of a plan."""

    intent: Intent
    steps: dict[int, Step] = field(default_factory=dict)
    """Steps begun, in the form in which they were."""
    done: set[int] = field(default_factory=set)
    found: set[int] = field(default_factory=set)
    """Steps that hardware had already: part of `done`, and not to be undone."""
    undo: Undo | None = None
    undone: set[int] = field(default_factory=set)
    left_over: set[int] = field(default_factory=set)
    ended: bool = False

    def take(self, record: Record) -> None:
        """Go on by one record. Raises ValueError for one that cannot follow."""
        if not isinstance(record, Intent | End) and not (
            0 <= record.index < len(self.intent.plan.steps)
        ):
            raise ValueError(f"the plan has no step {record.index}")
        match record:
            case Begin(index, step):
                self.steps[index] = step
            case Done(index, found):
                self.done.add(index)
                if found:
                    self.found.add(index)
            case Undo():
                self.undo = record
            case Undone(index, left_over):
                (self.left_over if left_over else self.undone).add(index)
            case End():
                self.ended = True
            case Intent():
                if record is not self.intent:
                    raise ValueError("a second plan")
            case _:
                assert_never(record)


class Journal:
    """Writes one plan's journal. Every method raises OSError when the disk refuses."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """What the audit record calls the plan."""
        return os.path.basename(self.path).partition(".")[0]

    def start(self, intent: Intent) -> None:
        """Have the plan on the disk; a plan that is not must leave nothing that could be found."""
        try:
            files.append(self.path, _sealed(intent), create=True)
            files.sync_folder(os.path.dirname(self.path))
        except OSError:
            self.discard()
            raise

    def add(self, record: Record) -> None:
        files.append(self.path, _sealed(record), sync=isinstance(record, End))

    def end(self) -> None:
        """Nothing is left to do. The journal goes; the audit record keeps what happened."""
        self.add(End())
        self.discard()

    def discard(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def _sealed(record: Record) -> bytes:
    text = msgspec.json.encode(record)
    return b"%08x %b" % (zlib.crc32(text), text)


def _opened(line: bytes) -> Record:
    """Raises ValueError."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("it is not as it was written")
    record: Record = _DECODER.decode(text)
    return record


_DECODER = msgspec.json.Decoder(Record)


def read(path: str, boot: str) -> Written | None:
    """A journal; None when its first line is torn, so that nothing had been written to hardware.

    In one of another boot, lines that were lost with that boot are passed over. Raises StateError.
    """
    written = None
    for number, line in enumerate(_lines(path), 1):
        try:
            record = _opened(line)
            written = _start(record) if written is None else written
            written.take(record)
        except (msgspec.MsgspecError, ValueError) as error:
            if written is not None and written.intent.boot != boot:
                continue
            named = "it" if written is not None else "audit.jsonl in the same folder"
            raise StateError(
                f"{path}, line {number}, is damaged ({error}). A plan was interrupted and cannot "
                f"be continued: check the devices that {named} names (laneway devices), then "
                "remove that file"
            ) from error
    return written


def _lines(path: str) -> list[bytes]:
    """The complete lines; what a crash has torn is cut off, or the next line would be its end."""
    try:
        with open(path, "rb+") as file:
            content = file.read()
            complete = content.rfind(b"\n") + 1
            if complete < len(content):
                file.truncate(complete)
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    return content[:complete].splitlines()


def _start(record: Record) -> Written:
    if not isinstance(record, Intent):
        raise ValueError("it does not start with a plan")  # noqa: TRY004 - of a file, not of code
    return Written(record)
