"""Tasks as vCenter has them: queued, running, done; held back, delayed or failed on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from laneway.core.vsphere.inventory.vms import Fault, TaskState
from support.memory_vcenter.world import RefusedError

QUEUED, RUNNING, SUCCESS, ERROR = "queued", "running", "success", "error"


@dataclass
class Task:
    """One order."""

    ref: str
    method: str
    target: str
    """Ref of the VM or cluster that it is of."""
    entity: str
    """Name of the VM; of a clone, the name that it is to have."""
    work: Callable[[], str]
    state: str = QUEUED
    result: str = ""
    fault: Fault | None = None
    fault_is_reached: bool = False
    """It failed because the state that was requested had been reached already."""
    held: Callable[[], None] | None = None
    """Goes on with it once it is released."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def done(self) -> bool:
        return self.state in (SUCCESS, ERROR)

    def seen(self) -> TaskState:
        if not self.done:
            return TaskState(done=False)
        if self.fault_is_reached:
            return TaskState(done=True)
        return TaskState(done=True, result=self.result, fault=self.fault)

    def end(self, result: str = "", fault: Fault | None = None) -> None:
        self.result, self.fault = result, fault
        self.state = ERROR if fault is not None else SUCCESS
        self.ended.set()


class ReachedError(RefusedError):
    """The VM is in the power state that was requested."""


@dataclass
class Pace:
    """How tasks of a method are held or delayed."""

    method: str
    vm: str
    seconds: float = 0.0
    hold: bool = False
    after: bool = False
    queued: bool = False


@dataclass
class Mischief:
    """One thing that goes wrong on purpose."""

    kind: str
    method: str
    vm: str
    host: str
    times: int
    fault: Fault


def fits(pattern: str, name: str) -> bool:
    return not pattern or fnmatchcase(name, pattern)


class Tasks:
    """All of one vCenter."""

    def __init__(self) -> None:
        self.all: list[Task] = []
        self.paces: list[Pace] = []
        self.mischief: list[Mischief] = []
        self._number = 0

    def start(self, method: str, target: str, entity: str, work: Callable[[], str]) -> Task:
        """Take an order: it is carried out now, or by and by."""
        self._number += 1
        task = Task(f"task-{self._number}", method, target, entity, work)
        busy = self._in_progress(task)
        self.all.append(task)
        pace = self._pace_of(task)
        if busy is not None:
            task.end(fault=busy)
        elif pace is None:
            self._carry_out(task)
        else:
            self._slowly(task, pace)
        return task

    def _slowly(self, task: Task, pace: Pace) -> None:
        finish: Callable[[], None] = lambda: self._carry_out(task)  # noqa: E731 - chosen below
        if pace.after:
            ended = self._try(task)
            finish = lambda: task.end(*ended)  # noqa: E731 - the alternative
        if not pace.queued:
            task.state = RUNNING
        task.held = lambda: None if task.done else finish()
        if not pace.hold:
            asyncio.get_running_loop().call_later(pace.seconds, task.held)

    def _carry_out(self, task: Task) -> None:
        task.state = RUNNING
        task.end(*self._try(task))

    def _try(self, task: Task) -> tuple[str, Fault | None]:
        try:
            self.fail(task.method, task.entity)
            return task.work(), None
        except ReachedError as reached:
            task.fault_is_reached = True
            return "", reached.fault
        except RefusedError as refused:
            return "", refused.fault

    def _in_progress(self, task: Task) -> Fault | None:
        """Why a VM takes no order: it has one that is not done."""
        clone = task.method == "CloneVM_Task"
        for other in self.all:
            if other.done or other.target != task.target or not task.target.startswith("vm-"):
                continue
            theirs = other.method == "CloneVM_Task"
            if clone and theirs and other.entity == task.entity:
                return Fault("DuplicateName", f"The name '{task.entity}' already exists.")
            if not clone and not theirs:
                return Fault("TaskInProgress", "Another task is already in progress.")
        return None

    def _pace_of(self, task: Task) -> Pace | None:
        fitting = (
            pace
            for pace in self.paces
            if fits(pace.method, task.method) and fits(pace.vm, task.entity)
        )
        return next(fitting, None)

    def fail(self, method: str, vm: str, host: str = "", *, kind: str = "task") -> None:
        """Raise if that is to go wrong now; `host`: the one that was chosen, if one was."""
        for one in self.mischief:
            if (
                one.kind == kind
                and fits(one.method, method)
                and fits(one.vm, vm)
                and bool(one.host) == bool(host)
                and fits(one.host, host)
            ):
                one.times -= one.times > 0
                if not one.times:
                    self.mischief.remove(one)
                raise RefusedError(one.fault.type, one.fault.text)

    def release(self, method: str, vm: str) -> None:
        self.paces = [
            one for one in self.paces if not fits(method, one.method) or not fits(vm, one.vm)
        ]
        for task in self.all:
            if task.held is not None and fits(method, task.method) and fits(vm, task.entity):
                held, task.held = task.held, None
                held()

    def cancel(self, ref: str) -> None:
        for task in self.all:
            if task.ref == ref and not task.done:
                task.end(fault=Fault("RequestCanceled", "The task was canceled by a user."))

    def at_work(self, target: str) -> tuple[str, ...]:
        return tuple(one.ref for one in self.all if one.target == target and not one.done)

    def find(self, ref: str) -> Task | None:
        return next((one for one in self.all if one.ref == ref), None)

    def forget(self) -> None:
        self.all = [one for one in self.all if not one.done]

    def seen(self) -> list[dict[str, Any]]:
        return [
            {"ref": one.ref, "method": one.method, "vm": one.entity, "state": one.state}
            | ({"fault": one.fault.text} if one.fault is not None else {})
            for one in self.all
        ]
