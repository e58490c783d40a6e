"""What is written to the API, counted by watching: every event of a watch is a write."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from laneway.api import ObjectMeta
from laneway.api.registry import KINDS
from laneway.kube.client import Client
from laneway.kube.errors import GoneError, NotFoundError
from laneway.kube.resource import Resource

Json = dict[str, Any]
SECONDS = 60.0
LOOKS = 10
"""How many times the manager's Lease is renewed before a cluster that is still written to fails."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/harvester-system/leases/laneway-manager"
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
OTHERS = (
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    *(("admissionregistration.k8s.io", "v1", plural) for plural in CONFIGURATIONS),
    ("kubevirt.io", "v1", "kubevirts"),
    ("kubevirt.io", "v1", "virtualmachines"),
    ("", "v1", "nodes"),
    ("", "v1", "events"),
)
_TIMES = ("lastTransitionTime", "lastTimestamp", "firstTimestamp", "time")


class _Any(msgspec.Struct, frozen=True):
    """Any object."""

    metadata: ObjectMeta = ObjectMeta()


class Write(NamedTuple):
    """One version of an object, or its end."""

    type: str
    plural: str
    object: Json

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


def content(obj: Json) -> Json:
    """What a reader acts on: without versions, times and who wrote it."""
    kept = ("labels", "annotations", "finalizers", "deletionTimestamp")
    metadata = {key: value for key, value in obj["metadata"].items() if key in kept}
    return {**_timeless(obj), "metadata": metadata}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if key not in _TIMES}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


class Writes:
    """All writes since the watches began; `since` counts from there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.seen: list[Write] = []

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch all kinds that are served by now, until the block ends."""
        resources = [Resource(*key, False, _Any) for key in OTHERS]
        resources += [Resource(k.group, k.version, k.plural, False, _Any) for k in KINDS if k.group]
        async with asyncio.TaskGroup() as tasks:
            watches = []
            for resource in resources:
                with contextlib.suppress(NotFoundError):
                    version = await self._version(resource)
                    watches.append(tasks.create_task(self._watch(resource, version)))
            try:
                yield
            finally:
                for watch in watches:
                    watch.cancel()

    async def _watch(self, resource: Resource[_Any], version: str) -> None:
        while True:
            events = self._client.watch(resource, resource_version=version)
            try:
                async with contextlib.aclosing(events):
                    async for event in events:
                        obj = msgspec.json.decode(event.object)
                        version = obj["metadata"]["resourceVersion"]
                        if event.type != "BOOKMARK":
                            self.seen.append(Write(event.type, resource.plural, obj))
            except GoneError:  # as on a real server when the definition of a kind changes
                version = await self._version(resource)

    async def _version(self, resource: Resource[_Any]) -> str:
        pages = [page async for page in self._client.list(resource)]
        return pages[-1].resource_version

    async def rest(self) -> None:
        """Wait until the leader renews its Lease twice and nothing else is written meanwhile."""
        for _ in range(LOOKS):
            before = len(self.seen)
            await self._renewed()
            await self._renewed()
            if len(self.seen) == before:
                return
        raise AssertionError(f"written again and again: {self.counted(before)}")

    async def _renewed(self) -> None:
        async with asyncio.timeout(SECONDS):
            before = now = await self._renewal()
            while now == before:
                await asyncio.sleep(0.1)
                now = await self._renewal()

    async def _renewal(self) -> str:
        lease = msgspec.json.decode(await self._client.raw(LEASE))
        return str(lease["spec"]["holderIdentity"] + lease["spec"]["renewTime"])

    def counted(self, since: int = 0) -> Counter[str]:
        """How often each object was written."""
        return Counter(f"{write.plural}/{write.name}" for write in self.seen[since:])

    def of(self, *plurals: str, since: int = 0) -> list[Write]:
        return [write for write in self.seen[since:] if write.plural in plurals]


def undone(
    writes: Sequence[Write], part: Callable[[Json], Json] = content
) -> Iterator[tuple[str, Json]]:
    """Objects of which a part came back to what it was: one write undid another, or was made twice.

    Writes that leave the part as it is do not count.
    """
    had: dict[str, list[Json]] = {}
    for write in writes:
        now = part(write.object)
        before = had.setdefault(write.object["metadata"]["uid"], [])
        if write.type == "DELETED" or before[-1:] == [now]:
            continue
        if now in before:
            yield f"{write.plural}/{write.name}", now
        before.append(now)
