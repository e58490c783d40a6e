"""The management cluster as watches report it, and what was admitted and is not reported yet.

Two writes at the same moment may both want the last devices. So what has been admitted counts from
then on, until a watch tells of it or of something later. If another webhook refused it meanwhile,
it is forgotten after a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from laneway.controllers.machine_pools.judged import with_cluster, with_config
from laneway.controllers.machine_pools.look import Managed, by_pool, patience
from laneway.kube import rancher
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.rancher import CONFIGS, GuestCluster, MachineConfig
from laneway.kube.resource import Key, key_of
from laneway.kube.store import Store

HOLD_SECONDS = 10.0
"""So long what was admitted counts if nothing is heard of it."""
MOST = 1_000
"""So many writes are remembered at a time."""
_CLUSTER = rancher.GUEST_CLUSTERS.kind


class _Admitted(NamedTuple):
    """Something that is being written."""

    object: Any
    until: float


class ManagedSource:
    """What the management cluster has. Run `run` in a task."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clusters = Informer(client, rancher.GUEST_CLUSTERS)
        self._configs = {kind: Informer(client, one) for kind, one in CONFIGS.items()}
        self._machines = [Informer(client, one) for one in rancher.POOL_MACHINES]
        self._admitted: dict[tuple[str, Key], _Admitted] = {}
        self._made: tuple[tuple[int, ...], Managed] | None = None

    @property
    def informers(self) -> dict[str, Informer[Any]]:
        """One for each kind, by a name of it."""
        versions = {f"machines {one.resource.version}": one for one in self._machines}
        return {"clusters": self._clusters, **self._configs, **versions}

    @property
    def trouble(self) -> str:
        """Why the management cluster is not known, as the end of a sentence; empty: it is."""
        for name, informer in self.informers.items():
            if (problem := informer.problem) is not None and not informer.unserved:
                return f"{name} of the management cluster cannot be read: {problem}"
        return ""

    def waiting_for(self) -> list[str]:
        """The kinds of which not everything is known yet."""
        return [name for name, one in self.informers.items() if not one.answered.is_set()]

    async def run(self) -> None:
        """Follow the management cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers.values():
                tasks.create_task(informer.run())

    def managed(self) -> Managed:
        """Everything as of now, with what is being written."""
        found = replace(self._stored(), since=patience(datetime.now(UTC)))
        for (kind, _), admitted in self._pending():
            if kind == _CLUSTER:
                found = with_cluster(found, admitted.object)
            else:
                found = with_config(found, kind, admitted.object)
        return found

    def config(self, kind: str, name: str, namespace: str) -> MachineConfig | None:
        """One machine configuration, whether it is stored or being written."""
        pending = dict(self._pending()).get((kind, Key(namespace, name)))
        if pending is not None:
            found: MachineConfig = pending.object
            return found
        return self._configs[kind].store.get(name, namespace)

    def admit(self, kind: str, object_: GuestCluster | MachineConfig) -> None:
        """Count an object as written."""
        if object_.metadata.name:
            until = self._clock() + HOLD_SECONDS
            self._admitted.pop((kind, key_of(object_)), None)
            changed = replace(object_, changed=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
            self._admitted[kind, key_of(object_)] = _Admitted(changed, until)
            if len(self._admitted) > MOST:
                del self._admitted[next(iter(self._admitted))]

    def _stored(self) -> Managed:
        version = tuple(one.store.changes for one in self.informers.values())
        if self._made is None or self._made[0] != version:
            served = next(
                (one for one in self._machines if one.synced.is_set()), self._machines[-1]
            )
            found = Managed(
                clusters=tuple(sorted(self._clusters.store, key=key_of)),
                configs={
                    (kind, one.metadata.namespace, one.metadata.name): one
                    for kind, informer in self._configs.items()
                    for one in informer.store
                },
                machines=by_pool(served.store),
            )
            self._made = version, found
        return self._made[1]

    def _pending(self) -> Iterator[tuple[tuple[str, Key], _Admitted]]:
        """What is being written; the rest is forgotten."""
        for key, admitted in list(self._admitted.items()):
            kind, (namespace, name) = key
            store: Store[Any] = (
                self._clusters.store if kind == _CLUSTER else self._configs[kind].store
            )
            stored = store.get(name, namespace)
            if admitted.until < self._clock() or _is_stored(admitted.object, stored):
                del self._admitted[key]
            else:
                yield key, admitted


def _is_stored(admitted: Any, stored: Any) -> bool:
    """Whether what a watch has told is what was admitted, or later."""
    if stored is None:
        return False
    before, now = admitted.metadata, stored.metadata
    return bool(before.uid != now.uid or before.generation <= now.generation)
