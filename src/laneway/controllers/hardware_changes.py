"""An event on an object for each plan that changed hardware because of it.

The audit record on the node is complete; an event is what a page of a cluster can list by device,
user and time. So each plan has an event of its own, where `EventRecorder` counts equal ones on the
first, and no object has a limit: a plan takes longer than the event about it. While the API server
does not answer, events wait in a bounded buffer, from which the oldest are dropped first. No plan
waits for its event: it has ended by then.

An attempt that wrote nothing and failed like the one before it has no second event.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from typing import NamedTuple

from laneway.api.fields import API_VERSION
from laneway.core import keys
from laneway.core.hardware_change import REASON, HardwareChange, StepChange, message, written
from laneway.core.requested import Origin
from laneway.host.plans.audit import Ended, Entry
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, ApiError, ConfigError, KubeError
from laneway.kube.events import EVENTS, KNOWN, NewEvent, Reporter
from laneway.kube.resource import ObjectRef

log = logging.getLogger(__name__)

BUFFER = 1000
"""So many events wait for the API server."""
PATIENCE_SECONDS = (0.5, 30.0)
"""Between two attempts, at first and at most."""
_BUSY = 429
_FAULT = 500


class _Change(NamedTuple):
    origin: Origin
    time: str
    change: HardwareChange


class HardwareChanges:
    """Writes the events of one node. `tell` is a listener; run `run` in a task."""

    def __init__(self, client: Client, component: str, node: str) -> None:
        self.dropped = 0
        """Events that were not written: over the buffer, or refused."""
        self._client = client
        self._node = node
        self._reporter = Reporter(component, node)
        self._buffer: deque[_Change] = deque()
        self._wanted = asyncio.Event()
        self._failures: OrderedDict[str, tuple[object, ...]] = OrderedDict()
        """How the last attempt for an object failed that wrote nothing."""

    def tell(self, ended: Ended) -> None:
        """Have an event written about a plan that has ended."""
        change = _change(ended)
        if not change.is_written or self._is_told(ended.origin, change):
            return
        if len(self._buffer) >= BUFFER:
            self._buffer.popleft()
            self.dropped += 1
        time = ended.steps[-1].time
        self._buffer.append(_Change(ended.origin, f"{time[:19]}Z", change))
        self._wanted.set()

    async def run(self) -> None:
        """Write what is told until cancelled."""
        wait, most = PATIENCE_SECONDS
        while True:
            while self._buffer:
                change = self._buffer[0]
                if await self._is_done(change):
                    wait = PATIENCE_SECONDS[0]
                    if self._buffer and self._buffer[0] is change:
                        self._buffer.popleft()
                else:
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, most)
            self._wanted.clear()
            await self._wanted.wait()

    def _is_told(self, origin: Origin, change: HardwareChange) -> bool:
        """Whether an attempt failed as the one before, and left hardware as it was."""
        failed = {(step.words, step.error) for step in change.steps if step.outcome == "failed"}
        tried = {step.outcome for step in change.steps} - {"found done", "failed"}
        before = self._failures.pop(origin.object, None)
        if tried or not failed or not origin.name:
            return False
        same = (change.user, frozenset(failed))
        self._failures[origin.object] = same
        while len(self._failures) > KNOWN:
            self._failures.popitem(last=False)
        return before == same

    async def _is_done(self, it: _Change) -> bool:
        """Whether nothing is left to be done about an event: it is written, or never will be."""
        event = NewEvent(
            self._about(it.origin),
            REASON,
            message(it.change),
            it.time,
            warning=not it.change.is_finished,
            # One plan has one event, also where the answer to the first attempt was lost.
            suffix=it.change.plan.rpartition("-")[2],
            annotations={keys.ANNOTATION_HARDWARE_CHANGE: written(it.change)},
        )
        body = self._reporter.body(event)
        try:
            await self._client.create(EVENTS, body, event.namespace)
        except AlreadyExistsError:
            return True
        except (ApiError, ConfigError) as error:
            if isinstance(error, ApiError) and (error.code == _BUSY or error.code >= _FAULT):
                return False
            self.dropped += 1
            log.warning("event %s on %s: %s", REASON, event.about.name, error)
        except KubeError as error:
            log.debug("event %s on %s: %s", REASON, event.about.name, error)
            return False
        return True

    def _about(self, origin: Origin) -> ObjectRef:
        """The object; the node where none led to the plan."""
        if origin.name:
            return ObjectRef(API_VERSION, origin.kind, "", origin.name, origin.uid)
        return ObjectRef("v1", "Node", "", self._node, self._node)


def _change(ended: Ended) -> HardwareChange:
    return HardwareChange(
        plan=ended.plan,
        outcome=ended.outcome,
        actor=ended.actor,
        user=ended.origin.user,
        why=ended.reason,
        error=ended.error,
        recovered=ended.recovered,
        steps=[_step(entry) for entry in ended.steps],
    )


def _step(entry: Entry) -> StepChange:
    return StepChange(
        words=entry.words,
        outcome=entry.outcome,
        device=entry.device,
        before=entry.before,
        after=entry.after,
        error=entry.error,
    )
