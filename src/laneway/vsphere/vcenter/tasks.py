"""Tasks of vCenter: how far they are, and a wait for any number of them on one thread.

One property collector watches the states of all tasks that are waited for, so that a hundred
machines in the making cost one connection and no polling. Its filters are made by the caller that
begins to wait, and taken away between two of its waits. What came of tasks that end together is
read together, and remembered for callers that ask once more. A wait that breaks off fails for all
callers: the task goes on in vCenter, and can be waited for again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from functools import partial
from typing import Any, TypeAlias

from laneway.core.vsphere.inventory.vms import TaskState
from laneway.vsphere.port import NotFoundInVCenterError, UnreachableVCenterError, VCenterError
from laneway.vsphere.vcenter.faults import fault_of
from laneway.vsphere.vcenter.http import WAIT_S
from laneway.vsphere.vcenter.properties import (
    Collector,
    Properties,
    bound,
    properties,
    read,
    ref_of,
)
from laneway.vsphere.vcenter.pyvmomi import vim, vmodl
from laneway.vsphere.vcenter.session import Session
from laneway.vsphere.vcenter.stub import Nonsense, Stub
from laneway.vsphere.vcenter.threads import Workers

log = logging.getLogger(__name__)

LIMIT_S = 60.0

_REMEMBERED = 1000
"""Tasks that have ended."""

_Outcome: TypeAlias = TaskState | VCenterError

_ENDS = (vim.TaskInfo.State.success, vim.TaskInfo.State.error)


def state_of(info: Any) -> TaskState:
    """A power state that is reached already is no fault: the caller has what it wants."""
    if info.state == vim.TaskInfo.State.success:
        result = info.result
        return TaskState(done=True, result=ref_of(result))
    if info.state != vim.TaskInfo.State.error:
        return TaskState(done=False)
    error = info.error
    if (
        isinstance(error, vim.fault.InvalidPowerState)
        and error.requestedState == error.existingState
    ):
        return TaskState(done=True)
    if not isinstance(error, vmodl.MethodFault):
        raise Nonsense("a task that failed without a fault")
    return TaskState(done=True, fault=fault_of(error))


def look(content: Any, stub: Stub, task: str) -> TaskState | None:
    """None: vCenter has forgotten it."""
    by_ref = read(content, stub, [vim.Task(task, stub)], {vim.Task: ["info"]})
    info = by_ref.get(task, {}).get("info")
    return None if info is None else state_of(info)


def _forgotten(task: str) -> NotFoundInVCenterError:
    return NotFoundInVCenterError(f"vCenter knows nothing of the task {task}")


class Watch:
    """Waits for tasks. Of the event loop; what it does in threads is said by name."""

    def __init__(self, session: Session, askers: Workers) -> None:
        self._session = session
        self._askers = askers
        self._waiter = Workers(session, 1)
        self._waiting: dict[str, list[asyncio.Future[TaskState]]] = {}
        self._ended: dict[str, TaskState] = {}
        self._running: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._collector = ""
        self._changing = threading.Lock()
        self._filters: dict[str, str] = {}

    def ended(self, task: str) -> TaskState | None:
        """What came of a task, if its end is known."""
        return self._ended.get(task)

    async def finished(self, task: str) -> TaskState:
        """Wait for the end of a task."""
        end: asyncio.Future[TaskState] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task, []).append(end)
        try:
            await self._start()
            if (known := self.ended(task)) is not None:
                return known
            await self._askers.run(lambda stub: self._watch_in_thread(stub, task), limit=LIMIT_S)
            return await end
        finally:
            self._leave(task, end)

    def _leave(self, task: str, end: asyncio.Future[TaskState]) -> None:
        waiting = self._waiting[task]
        waiting.remove(end)
        if end.done() and not end.cancelled():
            end.exception()  # no caller may be left
        if not waiting:
            del self._waiting[task]

    async def _start(self) -> None:
        async with self._starting:
            if self._running is None or self._running.done():
                self._filters = {}
                self._ended = {}
                self._collector = await self._askers.run(self._collect_in_thread, limit=LIMIT_S)
                self._running = asyncio.create_task(self._run(), name="vcenter-tasks")

    def _collect_in_thread(self, stub: Stub) -> str:
        collector = bound(self._session.content.propertyCollector, stub)
        return ref_of(collector.CreatePropertyCollector())

    def _watch_in_thread(self, stub: Stub, task: str) -> None:
        """The collector tells at once how far the task is."""
        with self._changing:
            if task not in self._filters:
                spec = Collector.FilterSpec(
                    objectSet=[Collector.ObjectSpec(obj=vim.Task(task, stub), skip=False)],
                    propSet=[properties(vim.Task, ["info.state"])],
                )
                try:
                    made = Collector(self._collector, stub).CreateFilter(spec, False)
                except vmodl.fault.ManagedObjectNotFound as error:
                    if ref_of(error.obj) != task:
                        raise  # the collector itself is gone
                    raise _forgotten(task) from None
                self._filters[task] = ref_of(made)

    async def _run(self) -> None:
        version = ""
        try:
            while True:
                version, outcomes = await self._waiter.run(
                    partial(self._wait_in_thread, version=version),
                    limit=WAIT_S + LIMIT_S,
                    again=False,  # the collector is of the session that would be gone
                )
                for task, outcome in outcomes.items():
                    self._resolve(task, outcome)
        except VCenterError as error:
            self._break_off(str(error))

    def _resolve(self, task: str, outcome: _Outcome) -> None:
        if isinstance(outcome, TaskState):
            if not outcome.done:
                return  # it is reported once more when it is
            self._ended[task] = outcome
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        for waiting in self._waiting.get(task, ()):
            if waiting.done():
                continue
            if isinstance(outcome, TaskState):
                waiting.set_result(outcome)
            else:
                waiting.set_exception(outcome)

    def _break_off(self, why: str) -> None:
        for waiters in self._waiting.values():
            for waiting in waiters:
                if not waiting.done():
                    waiting.set_exception(
                        UnreachableVCenterError(f"the wait for a task broke off: {why}")
                    )

    def _wait_in_thread(self, stub: Stub, *, version: str) -> tuple[str, dict[str, _Outcome]]:
        """What came of the tasks that have ended since the last wait."""
        with self._changing:
            for task in self._filters.keys() - self._waiting.keys():
                self._drop_in_thread(stub, self._filters.pop(task))
        options = Collector.WaitOptions(maxWaitSeconds=WAIT_S)
        update = Collector(self._collector, stub).WaitForUpdatesEx(version or None, options)
        if update is None:
            return version, {}
        ended = [
            ref_of(each.obj)
            for filtered in update.filterSet
            for each in filtered.objectSet
            if each.kind == "leave" or any(change.val in _ENDS for change in each.changeSet)
        ]
        by_ref = read(
            self._session.content,
            stub,
            [vim.Task(task, stub) for task in ended],
            {vim.Task: ["info"]},
        )
        return update.version, {task: self._outcome(task, by_ref.get(task, {})) for task in ended}

    def _outcome(self, task: str, props: Properties) -> _Outcome:
        """What is wrong with one task does not concern those who wait for others."""
        if "info" not in props:
            return _forgotten(task)
        try:
            return state_of(props["info"])
        except Nonsense as error:
            return UnreachableVCenterError(f"{self._session.server} answers nonsense: {error}")

    def _drop_in_thread(self, stub: Stub, made: str) -> None:
        with contextlib.suppress(vmodl.fault.ManagedObjectNotFound):
            vmodl.query.PropertyCollector.Filter(made, stub).DestroyPropertyFilter()

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._break_off("the connection was closed")
        self._waiter.close()
