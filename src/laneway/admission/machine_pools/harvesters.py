"""The Harvester clusters, by kubeconfigs in a folder: the keys of a Secret, as a kubelet mounts it.

A key is the name of a cloud credential (`cc-abcde`), or `default` for all others. A guest cluster
names its credential, so that none has to be read. The folder is looked at again and again: a
kubeconfig that changes takes effect, and one that cannot be used is told with every write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from typing import NamedTuple

from laneway.admission.machine_pools.metrics import PoolMetrics
from laneway.controllers.machine_pools.following import SupplySource
from laneway.controllers.machine_pools.writes.case import Harvester
from laneway.kube.client import Client
from laneway.kube.config import SECRET_LIMIT, from_secret
from laneway.kube.errors import ConfigError

log = logging.getLogger(__name__)

DEFAULT = "default"
LOOK_SECONDS = 2.0
_NO_KEY = "the Secret of kubeconfigs has no key {name}, and none that is called default"


class _Followed(NamedTuple):
    """One Harvester cluster."""

    content: bytes
    """Its kubeconfig."""
    task: asyncio.Task[None] | None
    source: SupplySource | None
    why: str
    """Why the kubeconfig cannot be used."""


class FollowedHarvesters:
    """Follows all of them. Run `run` in a task."""

    def __init__(self, folder: str, metrics: PoolMetrics) -> None:
        self._folder = folder
        self._metrics = metrics
        self._followed: dict[str, _Followed] = {}
        self._said: dict[str, str] = {}
        """What was last logged of each."""

    def of(self, credential: str) -> Harvester:
        """That of a cloud credential, `cattle-global-data:cc-abcde`; it may be empty."""
        own = credential.rpartition(":")[2]
        name = own if own in self._followed else DEFAULT
        if name in self._followed:
            return self._harvester(name)
        return Harvester(own or DEFAULT, None, _NO_KEY.format(name=own or DEFAULT))

    def all(self) -> Sequence[Harvester]:
        """All that have a kubeconfig."""
        return [self._harvester(name) for name in sorted(self._followed)]

    def _harvester(self, name: str) -> Harvester:
        one = self._followed[name]
        if one.source is None:
            return Harvester(name, None, one.why)
        supply = one.source.supply()
        return Harvester(name, supply, "" if supply is not None else one.source.trouble)

    async def run(self) -> None:
        """Follow them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._look(tasks)
                self._report()
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        contents = _contents(self._folder)
        for name in [*self._followed]:
            if self._followed[name].content != contents.get(name):
                await self._end(name)
        for name, content in contents.items():
            if name not in self._followed:
                self._followed[name] = _begin(name, content, tasks)

    async def _end(self, name: str) -> None:
        task = self._followed.pop(name).task
        self._metrics.forget(name)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _report(self) -> None:
        for one in self.all():
            self._metrics.known(one.name, known=one.supply is not None)
            before = self._said.get(one.name)
            if one.supply is None and before in (None, ""):
                log.warning("writes of machine pools pass unchecked: %s", one.unknown)
            elif one.supply is not None and before != "":
                log.info("the Harvester cluster %s is known", one.name)
            self._said[one.name] = "" if one.supply is not None else one.why


def _begin(name: str, content: bytes, tasks: asyncio.TaskGroup) -> _Followed:
    try:
        client = Client(from_secret(content, f"key {name}"))
    except ConfigError as error:
        return _Followed(content, None, None, f"its kubeconfig cannot be used: {error}")
    source = SupplySource(client)

    async def follow() -> None:
        async with client:
            await source.run()

    return _Followed(content, tasks.create_task(follow(), name=f"harvester {name}"), source, "")


def _contents(folder: str) -> dict[str, bytes]:
    """The files that are there, by name; the kubelet's own begin with a dot."""
    found = {}
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if not name.startswith(".") and os.path.isfile(path):
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    found[name] = file.read(SECRET_LIMIT + 1)
    return found
