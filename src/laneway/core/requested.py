"""The user who requested a desired state, as its object says, and for whom a plan is made.

An object says what is to be, but not who wrote that. So admission notes on each object from whose
spec writes to hardware follow which user changed it last, and when. It writes the annotation on
every such change, whatever the client sent, and puts it back where a client changes it alone. What
Laneway's own accounts write has another origin: a layout's note goes to the objects below it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.core import keys

LONGEST = 256
"""A name that an identity provider makes can be of any length."""


class RequestedBy(msgspec.Struct, frozen=True):
    """Who changed a desired state last, and when."""

    user: str = ""
    """Empty where that is not known."""
    time: str = ""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The object whose desired state led to a plan, and the user who requested it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    user: str = ""
    generation: int = 0
    """`DELETION` (`core.tracing`) of an object that is deleted."""
    span: int = 0
    """What led to the plan, in the trace of this generation; 0 for nothing that is traced."""

    @property
    def object(self) -> str:
        return f"{self.kind} {self.name}" if self.name else ""

    def on_behalf(self, actor: str) -> str:
        """Who makes the plan, as the audit record has it."""
        return f"{actor} for {self.user}" if self.user else actor


UNKNOWN = Origin()
"""Of a plan that no object led to."""

_decode = msgspec.json.Decoder(RequestedBy).decode


def read(annotations: Mapping[str, str]) -> RequestedBy:
    """What annotations say; blank where they say nothing that can be read."""
    try:
        found = _decode(annotations.get(keys.ANNOTATION_REQUESTED_BY, "{}"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return RequestedBy()
    return RequestedBy(printable(found.user), printable(found.time))


def written(user: str, time: str) -> str:
    """What the annotation says of a user; empty for none."""
    name = printable(user)
    return msgspec.json.encode(RequestedBy(name, time)).decode() if name else ""


def printable(text: str) -> str:
    """A name without what would change how the text around it looks, and not too long."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)[
        :LONGEST
    ]
