"""What is remembered of the attempts for one machine, beyond what its object says.

Losing it, as when the manager changes, costs an attempt and nothing else. An attempt that failed is
made again after a wait that grows, never for all machines at the same moment. One that cannot
succeed is made again only when something has changed, and then not at once either: an inventory in
which something changes all the time must not become a loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from laneway.core.refusals.base import Refusal
from laneway.core.vsphere.inventory.vms import Fault
from laneway.core.vsphere.provisioning.steps import History

FOREVER = float("inf")
DOUBTS = 3
"""So many failures in a row, for what may be of storage or network that all hosts share, count as
the host's: with the growing waits between them, an outage of some seconds costs no machine its
place, and a host that is alone with it is left before anybody has to look."""


class Pace(NamedTuple):
    """How long is waited, in seconds."""

    first: float = 2.0
    """After the first failure; each further one doubles it."""
    longest: float = 300.0
    look: float = 5.0
    """Between two looks at a guest that starts or stops, of which there is no event."""
    task: float = 60.0
    """Between two looks at a task, in case its end is not reported."""
    rest: float = 120.0
    """Between two looks at a machine that is as it should be, or waits for something to change."""
    readmit: float = 600.0
    """Until a host that would not take or start a machine is tried again, though nothing is known
    to have changed: its memory and processors are not followed."""
    await_clone: float = 10.0
    """How long a clone whose answer was lost may take to show up anywhere."""


@dataclass
class RetryState:
    """Of one VSphereVM, by its uid."""

    uid: str
    jitter: Callable[[], float] = random.random
    server: str = ""
    """Its vCenter."""
    host: str = ""
    """Where it is, or has its devices reserved."""
    ordering: str = ""
    """What the task in flight is for."""
    attempts: int = 0
    due: float = 0.0
    """Not before this time is anything ordered."""
    shown: tuple[float, str] = (0.0, "")
    """The same, and as it is written for people."""
    fault: Fault | None = None
    """Why the last attempt failed; None: it did not."""
    refusal: Refusal | None = None
    """Why nothing is reserved."""
    generation: tuple[int, bool] = (0, False)
    """Generation of the object, and whether it is to be deleted, when that was."""
    blocked: bool = False
    """Only a change helps."""
    news: bool = False
    """Something of the inventory has changed since anything was ordered."""
    spec: Mapping[str, Any] | None = None
    """All that the object says, read before anything is ordered for it."""
    clone_awaited: bool = False
    one_by_one: bool = False
    metadata_set: bool = False
    in_vm_group: bool = False
    cancelled: bool = False
    guest_asked: bool = False
    guest_deaf: bool = False
    """The guest cannot be asked to shut down."""
    devices: Sequence[Any] | None = None
    """What was last written of its devices, which CAPV's own definitions do not keep."""
    excluded: dict[str, float] = field(default_factory=dict)
    """Hosts that would not take or start it, and when they are to be tried again."""
    suspected: tuple[str, int] = ("", 0)
    """The host that last failed it for what may be of others, and how often in a row."""
    tried: str = ""
    """Where it was last to be made or started; empty: something else was ordered since."""
    changed_hosts: set[str] = field(default_factory=set)
    """Those of these hosts where something has changed since."""

    def failed(self, fault: Fault, now: float, pace: Pace, *, terminal: bool) -> float:
        """Count a failure; how long to wait."""
        self.fault = fault
        self.blocked = terminal and not self.news
        wait = self._wait(pace)
        self.attempts += 1
        self.due = FOREVER if self.blocked else now + wait
        return wait

    def succeeded(self) -> None:
        """What was ordered was done: the next step starts without retries."""
        self.attempts = 0
        self.due = 0.0
        self.fault = None
        self.blocked = False
        self.suspected = ("", 0)

    def order(self, host: str = "") -> None:
        """Something is ordered; `host`: of the one that is to take or start it."""
        self.news = False
        self.tried = host
        self.changed_hosts.discard(host)

    def suspect(self, host: str) -> bool:
        """Count a failure that may be of others than the host; whether it counts as the host's."""
        before, times = self.suspected
        self.suspected = (host, times + 1 if host == before else 1)
        return self.suspected[1] >= DOUBTS

    def exclude(self, host: str, now: float, pace: Pace, *, suspected: bool = False) -> None:
        """A host would not take or start it; `suspected`: which may have been of others."""
        self.excluded[host] = now + (self._wait(pace) if suspected else pace.readmit)
        self.suspected = ("", 0)
        self.attempts += 1

    def forgive(self, now: float, pace: Pace) -> bool:
        """Whether there are hosts to try again, as something has changed there; but not at once."""
        forgiven = self.changed_hosts & self.excluded.keys()
        for host in forgiven:
            del self.excluded[host]
        if forgiven:
            self.due = now + self._wait(pace)
        return bool(forgiven)

    def readmit(self, now: float) -> None:
        """Try hosts again that would not take or start it long ago."""
        self.excluded = {host: until for host, until in self.excluded.items() if until > now}

    def rest(self, now: float, pace: Pace) -> float:
        """Until it is asked again for what was refused, if nothing changes before."""
        return min([pace.rest, *(until - now for until in self.excluded.values())])

    def changed(self, hosts: frozenset[str], now: float, pace: Pace) -> None:
        """Something of the inventory has changed: what could not be may be possible now."""
        self.news = True
        self.changed_hosts |= hosts & {self.tried, *self.excluded}
        self.refusal = None
        if self.blocked:
            self.blocked = False
            self.due = now + self._wait(pace)

    def rewritten(self, generation: tuple[int, bool]) -> None:
        """The object may have been changed, and with it what is wrong."""
        if generation != self.generation:
            self.generation = generation
            self.spec = None
            self.refusal = None
            self.succeeded()

    def history(self, *, made: bool, ordered: bool, patience: bool) -> History:
        """The same, as steps are decided from it."""
        return History(
            made=made,
            ordered=ordered,
            clone_awaited=self.clone_awaited,
            one_by_one=self.one_by_one,
            metadata_set=self.metadata_set,
            in_vm_group=self.in_vm_group,
            excluded=frozenset(self.excluded),
            cancelled=self.cancelled,
            guest_asked=self.guest_asked,
            patience=patience,
        )

    def _wait(self, pace: Pace) -> float:
        limit = min(pace.first * 2.0 ** min(self.attempts, 16), pace.longest)
        return limit * (1 + self.jitter()) / 2
