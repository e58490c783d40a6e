"""One of several processes leads, by a Lease in the API.

The protocol is client-go's, so a Lease that we hold reads like any other:

- The leader renews the Lease. A candidate compares what it says with what it said before,
  and takes over once nothing has changed for the time that the Lease itself grants; times of other
  machines are never compared with our own clock.
- Every write names the version that it was decided upon, so of two that take over at once one wins.
- A leader that cannot renew in time stops leading before another can begin: the deadline is shorter
  than what the Lease grants, and it counts from before the last request that succeeded.
- A leader that stops in good order releases the Lease, and the next one need not wait.
- A server that says when to come back is not asked before, even where that costs the Lease: all
  candidates are told the same, and each stops in time or stands by.

`clock` is all the time that there is, so that tests need none of their own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import msgspec

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    pause_after,
)
from laneway.kube.resource import Resource

log = logging.getLogger(__name__)

R = TypeVar("R")


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who leads, and since when."""

    holder_identity: str = ""
    """Empty: none."""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A coordination.k8s.io/v1 Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "leases", True, Lease)


@dataclass(frozen=True, slots=True)
class Timing:
    """Each is shorter than the one before, or two could lead."""

    lease_seconds: int = 15
    """How long those who stand by wait for a leader that is silent."""
    renew_seconds: float = 10.0
    """After how long a leader that cannot renew gives up."""
    retry_seconds: float = 2.0
    """How often it renews, and those who stand by look."""


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float, /) -> None: ...


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float, /) -> None:
        await asyncio.sleep(seconds)


class Election:
    """Our part in the election by one Lease."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        timing: Timing | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`client`: one that does not wait where the server puts a request off."""
        self.identity = identity
        """No two processes may have the same."""
        self.leading = False
        self._client = client
        self._namespace = namespace
        self._name = name
        self._timing = timing or Timing()
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._not_before = 0.0
        """When the server may be asked again, by its own word."""
        self._problem = ""

    @property
    def holder(self) -> str:
        """Who leads, as far as we know; empty while there is no leader."""
        return self._seen.spec.holder_identity if self._seen is not None else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait, lead whenever it is our turn, and release the Lease at the end, until cancelled.

        `lead` is cancelled when the Lease is lost, and called again when it is won back. What it
        raises is raised here.
        """
        try:
            while True:
                await self._stand_by()
                log.info("leading: %s holds the lease %s", self.identity, self._name)
                await self._lead(lead)
                log.warning("no longer leading: the lease %s could not be renewed", self._name)
        finally:
            if self.leading:
                self.leading = False
                await self._within(self._timing.retry_seconds, self._release())

    async def _stand_by(self) -> None:
        while not await self._attempt():
            await self._clock.sleep(self._timing.retry_seconds * (1 + 0.2 * self._jitter()))
        self.leading = True

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Both until the Lease is lost, or until one of them fails."""
        work = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (work, renewing):
                if task.done():
                    task.result()
        finally:
            # The work is over before another may lead.
            await _stop(work)
            await _stop(renewing)

    async def _keep(self) -> None:
        """Renew until that has not been possible for too long."""
        while True:
            await self._clock.sleep(self._timing.retry_seconds)
            while not await self._attempt():
                left = self._renewed_at + self._timing.renew_seconds - self._clock.monotonic()
                if left <= 0 or self.holder != self.identity:
                    self.leading = False
                    return
                await self._clock.sleep(min(left, self._timing.retry_seconds))

    async def _attempt(self) -> bool:
        """One look, and one write if it is our turn. Whether we hold the Lease then."""
        began = self._clock.monotonic()
        if began < self._not_before:
            return False
        limit = self._timing.renew_seconds
        if self.leading:
            limit = max(self._renewed_at + limit - began, 0.0)
        problem = ""
        held: bool | None = False
        try:
            held = await self._within(limit, self._take_or_renew())
            if held is None:
                problem = "the API server does not answer"
        except KubeError as error:
            problem = str(error)
            self._not_before = self._clock.monotonic() + pause_after(error, 0.0)
        if problem and problem != self._problem:
            log.warning("lease %s/%s: %s", self._namespace, self._name, problem)
        self._problem = problem
        if held:
            self._renewed_at = began
        return bool(held)

    async def _take_or_renew(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFoundError:
            return await self._create()
        self._note(lease)
        if lease.spec.holder_identity not in ("", self.identity) and self._granted(lease):
            return False
        try:
            self._note(await self._write(lease, self._claim(lease.spec)))
        except ConflictError:
            return False  # Another was faster.
        return True

    async def _create(self) -> bool:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._claim(LeaseSpec()),
        }
        try:
            self._note(await self._client.create(LEASES, body, self._namespace))
        except AlreadyExistsError:
            return False
        return True

    def _claim(self, before: LeaseSpec) -> dict[str, Any]:
        now = _micro_time(self._clock.now())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.lease_seconds,
            "renewTime": now,
        }
        if before.holder_identity != self.identity:
            others = before.renew_time != ""
            spec["acquireTime"] = now
            spec["leaseTransitions"] = before.lease_transitions + 1 if others else 0
        return spec

    async def _release(self) -> None:
        lease = self._seen
        if lease is None or lease.spec.holder_identity != self.identity:
            return
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": _micro_time(self._clock.now()),
        }
        try:
            await self._write(lease, spec)
        except KubeError as error:
            log.warning("lease %s/%s is not released: %s", self._namespace, self._name, error)
        else:
            log.info("the lease %s is released", self._name)

    async def _write(self, lease: Lease, spec: dict[str, Any]) -> Lease:
        version = {"resourceVersion": lease.metadata.resource_version}
        body = {"metadata": version, "spec": spec}
        return await self._client.patch(LEASES, self._name, body, self._namespace)

    def _note(self, lease: Lease) -> None:
        """Remember what the Lease says, and when it last said something new."""
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen_at = self._clock.monotonic()
        self._seen = lease

    def _granted(self, lease: Lease) -> bool:
        return self._clock.monotonic() < self._seen_at + lease.spec.lease_duration_seconds

    async def _within(self, seconds: float, work: Coroutine[Any, Any, R]) -> R | None:
        """The result, or None when it takes longer; by our clock, which is not the event loop's."""
        task = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            await _stop(timer)
            await _stop(task)


async def _stop(task: asyncio.Future[Any]) -> None:
    """Have it ended, however it ends."""
    if not task.done():
        task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # Seen, so that it is not reported as forgotten.


def _micro_time(when: datetime) -> str:
    """A Kubernetes MicroTime: always six digits behind the point."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
