"""What happened in a cluster lately: events, and every write to hardware among them.

Agents write an event for each plan that changed hardware, with its steps as an annotation
(`core.hardware_change`). A user who may create events can write one as well, with anything in it:
what cannot be read is shown as the plain event that it is, and the audit record on the node is what
proves a write.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from laneway.api import ObjectMeta
from laneway.core import hardware_change
from laneway.core.hardware_change import HardwareChange, StepChange
from laneway.kube.resource import Resource


class Involved(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The object that an event is about."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class Source(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The component that reports an event, and on which node."""

    component: str = ""
    host: str = ""


class Series(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """How often an event was seen, as newer clients write it."""

    count: int = 0
    last_observed_time: str = ""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """A core/v1 Event, as far as it is shown."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: Involved = Involved()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: str = ""
    last_timestamp: str = ""
    event_time: str = ""
    source: Source = Source()
    reporting_component: str = ""
    series: Series = Series()


EVENTS = Resource("", "v1", "events", True, Event, "Event")


class Row(NamedTuple):
    """One event."""

    key: str
    """Of the event: its namespace and name."""
    time: str
    """When it was seen last, as the API writes times; empty where the event does not say."""
    moment: datetime
    kind: str
    name: str
    namespace: str
    component: str
    node: str
    reason: str
    text: str
    warning: bool
    times: int
    change: HardwareChange | None = None
    """What was done to hardware; None of any other event."""

    @property
    def who(self) -> str:
        """The user who requested a write to hardware; empty where that is not known."""
        return self.change.user if self.change else ""

    @property
    def outcome(self) -> str:
        """`done` or `failed` of a write to hardware; empty of any other event."""
        if self.change is None:
            return ""
        return "done" if self.change.is_finished else "failed"

    @property
    def steps(self) -> Sequence[StepChange]:
        return self.change.steps if self.change else ()

    @property
    def devices(self) -> tuple[str, ...]:
        """What the steps wrote to, as the node calls it: `0000:08:00.4`."""
        return tuple(dict.fromkeys(step.device for step in self.steps if step.device))


_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def row_of(event: Event) -> Row:
    """One event as it is shown."""
    about, meta = event.involved_object, event.metadata
    time = (
        event.series.last_observed_time
        or event.last_timestamp
        or event.event_time
        or event.first_timestamp
        or meta.creation_timestamp
    )
    of_hardware = event.reason == hardware_change.REASON
    return Row(
        key=f"{meta.namespace}/{meta.name}",
        time=time,
        moment=moment(time) or _BEFORE_ALL,
        kind=about.kind,
        name=about.name,
        namespace=about.namespace,
        component=event.reporting_component or event.source.component,
        node=event.source.host,
        reason=event.reason,
        text=event.message,
        warning=event.type == "Warning",
        times=max(event.count, event.series.count, 1),
        change=hardware_change.read(meta.annotations) if of_hardware else None,
    )


def moment(time: str) -> datetime | None:
    """A time as the API writes it; None for anything else."""
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
