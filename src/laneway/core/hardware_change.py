"""What one plan did to hardware, as an event in the API carries it.

The message is for people. An annotation has the same for programs: for whom, why, and each step
with the value before, the value after and its outcome. Both have a limit, because an event is
stored as a whole: steps that find no room are counted. The audit record on the node has all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from laneway.core import keys
from laneway.core.phrases import line
from laneway.core.requested import printable

REASON = "HardwareChanged"
"""Reason of the event."""
MOST_BYTES = 6144
"""Of the annotation."""
MOST_CHARACTERS = 1024
"""Of the message, as Kubernetes limits it."""
_LONGEST = 256
_NOTHING = "found done"


class StepChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step and what became of it."""

    words: str
    outcome: str
    """`done`, `found done`, `failed`, `undone` or `left over`."""
    device: str = ""
    before: str = ""
    after: str = ""
    error: str = ""


class HardwareChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One plan that has ended."""

    plan: str
    """As the audit record calls it."""
    outcome: str
    """`finished` or `closed`, of one that did not come to its end."""
    actor: str = ""
    user: str = ""
    """Who requested it; empty where that is not known."""
    why: str = ""
    error: str = ""
    recovered: bool = False
    """Whether the process that began it had ended before it did."""
    steps: Sequence[StepChange] = ()
    more: int = 0
    """Further steps, which the audit record has."""

    @property
    def is_finished(self) -> bool:
        return self.outcome == "finished"

    @property
    def is_written(self) -> bool:
        """Whether anything was tried on hardware."""
        return any(step.outcome != _NOTHING for step in self.steps) or bool(self.more)


_decode = msgspec.json.Decoder(HardwareChange).decode


def read(annotations: Mapping[str, str]) -> HardwareChange | None:
    """What the annotations of an event say; None where they say nothing that can be read."""
    text = annotations.get(keys.ANNOTATION_HARDWARE_CHANGE)
    try:
        found = None if text is None else _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return found and msgspec.structs.replace(found, user=printable(found.user))


def written(change: HardwareChange) -> str:
    """The annotation, with as many steps as it has room for."""
    short = msgspec.structs.replace(
        change,
        steps=[_clipped(step) for step in change.steps],
        error=_clip(change.error),
        why=_clip(change.why),
        user=printable(change.user),
    )
    encoded = msgspec.json.encode(msgspec.structs.replace(short, steps=(), more=len(change.steps)))
    size, kept = len(encoded) + 64, 0
    for step in short.steps:
        size += len(msgspec.json.encode(step)) + 1
        if size > MOST_BYTES:
            break
        kept += 1
    more = len(change.steps) - kept
    short = msgspec.structs.replace(short, steps=short.steps[:kept], more=more)
    return msgspec.json.encode(short).decode()


def message(change: HardwareChange) -> str:
    """The same as a sentence for each outcome."""
    whom = f" for {change.user}" if change.user else ""
    begun = f"An interrupted plan was ended{whom}." if change.recovered else ""
    actor = f"By {change.actor}{whom}" if change.actor and not begun else "Steps"
    done = [step.words for step in change.steps if step.outcome == "done"]
    texts = [begun, _told(actor, done) if done else ""]
    for outcome, called in (("failed", "Failed"), ("undone", "Undone"), ("left over", "Left over")):
        some = [_with_error(step) for step in change.steps if step.outcome == outcome]
        texts.append(_told(called, some) if some else "")
    if change.error and not any(step.error for step in change.steps):
        texts.append(f"{_clip(change.error).rstrip('.')}.")
    whole = " ".join(text for text in texts if text)
    return whole if len(whole) <= MOST_CHARACTERS else f"{whole[: MOST_CHARACTERS - 1]}…"


_SHOWN = 6
"""So many steps of one outcome a message has."""


def _told(called: str, words: Sequence[str]) -> str:
    shown = "; ".join(_clip(one) for one in words[:_SHOWN])
    rest = len(words) - _SHOWN
    more = f"; and {rest} more step{'s' if rest > 1 else ''}" if rest > 0 else ""
    return f"{called}: {shown}{more}."


def _with_error(step: StepChange) -> str:
    return f"{step.words}: {step.error.rstrip('.')}" if step.error else step.words


def _clipped(step: StepChange) -> StepChange:
    return StepChange(
        words=_clip(step.words),
        outcome=step.outcome,
        device=_clip(step.device),
        before=_clip(step.before),
        after=_clip(step.after),
        error=_clip(step.error),
    )


def _clip(text: str) -> str:
    text = line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
