"""Spans of a change, from the write to an object to the last write to hardware.

Objects carry no trace context. So the ids of a trace follow from the object's uid and generation:
the web interface, the webhook, the manager and the agent tell spans of one trace without a word
between them, and an agent that was restarted goes on with the trace of the plan that it recovers.
The deletion of an object is one more trace (`DELETION`). What an object leads to on others is in
their traces, which its own links to. An id is a hash, which
tells nothing of the object. Attributes name devices and objects, never values before and after a
step, and never the kernel command line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

Attribute = str | int | bool

DELETION = 0
"""In place of a generation: the deletion of an object, whichever generation it had then."""


class SpanId(NamedTuple):
    """A span, in its trace."""

    trace: int
    """128 bits."""
    span: int
    """64 bits."""

    def child(self, *names: object) -> SpanId:
        """A span below it; other names are other spans."""
        return SpanId(self.trace, _hash(8, f"{self.span:016x}", *names))


class Span(NamedTuple):
    """Something that was done, once it has ended. Times are nanoseconds since 1970."""

    id: SpanId
    parent: int
    """0 for none."""
    name: str
    began: int
    ended: int
    attributes: Mapping[str, Attribute] = {}
    error: str = ""
    """Why it failed; empty where it did not."""
    links: tuple[SpanId, ...] = ()
    """Spans of other traces that follow from it."""


Tracer = Callable[[Span], None]
"""Takes spans. It neither waits nor raises."""


def root(uid: str, generation: int) -> SpanId:
    """The write of one generation of an object: the span above all others of its trace.

    `generation`: `DELETION` for its deletion.
    """
    return SpanId(_hash(16, "trace", uid, generation), _hash(8, "root", uid, generation))


def about(
    kind: str, name: str, uid: str, generation: int, **more: Attribute
) -> dict[str, Attribute]:
    """The attributes of a span about an object; `more`: further ones below `laneway`."""
    found: dict[str, Attribute] = {
        "laneway.object.kind": kind,
        "laneway.object.name": name,
        "laneway.object.uid": uid,
    }
    if generation != DELETION:
        found["laneway.object.generation"] = generation
    found.update({f"laneway.{key}": value for key, value in more.items() if value != ""})
    return found


def _hash(size: int, *parts: object) -> int:
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=size)
    return int.from_bytes(digest.digest()) or 1  # 0 is no id
