"""What a Harvester cluster has, kept up to date by watches.

Nothing is told while something may be out of date: a cluster that does not answer, a kind that may
not be listed, a watch that is broken. `trouble` says what it is. That the cluster answers is asked
again and again, because a connection that has died looks like one on which nothing happens.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import msgspec

from laneway.api import PCIDeviceClaim, USBDeviceClaim, decode
from laneway.api.setting import Setting
from laneway.controllers.cluster.caches import VGPUS, Vgpu
from laneway.controllers.ledger.objects import PODS, Pod
from laneway.controllers.ledger.source import LedgerSource
from laneway.controllers.machine_pools import look, supply
from laneway.controllers.machine_pools.look import Supply
from laneway.controllers.machine_pools.supply import NODES, SizedNode
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger
from laneway.core.phrases import listed
from laneway.kube import pods
from laneway.kube.client import Client
from laneway.kube.errors import KubeError
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import (
    INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from laneway.kube.resource import KubeObject, Resource, served

ASK_SECONDS = 5.0
"""How often the cluster is asked whether it answers, and how long it may take."""


class SizedPod(Pod, frozen=True, kw_only=True, rename="camel", gc=False):
    """A pod of which little is kept but what it requests of its node."""

    node: str = ""
    """Empty: it requests nothing, or has no node yet."""
    vm: Consumer | None = None
    requested: Mapping[str, int] = {}


def _sized(_: type[SizedPod], raw: bytes | msgspec.Raw) -> SizedPod:
    whole, light = decode(pods.Pod, raw), PODS.decode(raw)
    ended = supply.has_ended(whole)
    return SizedPod(
        metadata=light.metadata,
        spec=light.spec,
        status=light.status,
        node="" if ended else whole.spec.node_name,
        vm=None if ended else supply.vm_of(whole.metadata),
        requested={} if ended else dict(supply.requested(whole)),
    )


SIZED_PODS = Resource("", "v1", "pods", True, SizedPod, "Pod", decoder=_sized)


@dataclass(frozen=True)
class Informers:
    """One for each kind that decides about machines; a `LedgerSource` is made from them."""

    claims: Informer[PCIDeviceClaim]
    vgpus: Informer[Vgpu]
    usb_claims: Informer[USBDeviceClaim]
    vms: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    pods: Informer[SizedPod]
    nodes: Informer[SizedNode]
    settings: Informer[Setting]

    @classmethod
    def of(cls, client: Client) -> Self:
        """Caches that are filled once their informers run."""
        return cls(
            claims=Informer(client, served(PCIDeviceClaim)),
            vgpus=Informer(client, VGPUS),
            usb_claims=Informer(client, served(USBDeviceClaim)),
            vms=Informer(client, VIRTUAL_MACHINES),
            instances=Informer(client, INSTANCES),
            pods=Informer(client, SIZED_PODS),
            nodes=Informer(client, NODES),
            settings=Informer(
                client, served(Setting), field_selector=f"metadata.name={look.OVERCOMMIT}"
            ),
        )

    @property
    def all(self) -> tuple[Informer[KubeObject], ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


class SupplySource:
    """Tells what one Harvester cluster has. Run `run` in a task."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client.unwaiting()
        self._clock = clock
        self._informers = Informers.of(client)
        self._ledger = LedgerSource(self._informers)
        self._taken: dict[str, Counter[str]] = {}
        """What the pods of each node request."""
        self._needs: dict[Consumer, Mapping[str, int]] = {}
        self._silent: str = ""
        """Why the cluster did not answer when it was last asked."""
        self._answered = self._clock()
        self._made: tuple[tuple[Any, ...], Supply] | None = None
        self._informers.pods.subscribe(self._pod_changed)

    @property
    def trouble(self) -> str:
        """Why nothing is told, as the end of a sentence; empty: everything is known."""
        if self._silent:
            seconds = self._clock() - self._answered
            return f"it has not answered for {seconds:.0f} s: {self._silent}"
        for informer in self._informers.all:
            if (problem := informer.problem) is not None and not informer.unserved:
                return f"its {informer.resource} cannot be read: {problem}"
        if self._informers.claims.unserved or self._informers.vgpus.unserved:
            return "Laneway is not installed there"
        if missing := self._waiting_for():
            return f"its {listed(missing)} are not read yet"
        return ""

    def supply(self) -> Supply | None:
        """What the cluster has; None while there is trouble."""
        ledger = self._ledger.current()
        if self.trouble or ledger is None:
            return None
        caches = self._informers
        stores = (caches.pods.store, caches.nodes.store, caches.settings.store)
        version = (id(ledger), *(store.changes for store in stores))
        if self._made is None or self._made[0] != version:
            self._made = version, self._supply(ledger)
        return self._made[1]

    def _supply(self, ledger: Ledger) -> Supply:
        return Supply(
            ledger=ledger,
            free=supply.without(self._informers.nodes.store, self._taken),
            needs=self._needs,
            overcommit=look.overcommit(self._informers.settings.store),
        )

    def _waiting_for(self) -> list[str]:
        missing = [str(one.resource) for one in self._informers.all if not one.answered.is_set()]
        return missing or ([] if self._ledger.known.is_set() else ["devices"])

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.all:
                tasks.create_task(informer.run())
            tasks.create_task(self._ledger.run())
            tasks.create_task(self._ask())

    async def _ask(self) -> None:
        while True:
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    await self._client.raw("/version")
            except (KubeError, TimeoutError) as error:
                self._silent = str(error) or f"no answer within {ASK_SECONDS:.0f} s"
            else:
                self._silent, self._answered = "", self._clock()
            await asyncio.sleep(ASK_SECONDS)

    def _pod_changed(self, before: SizedPod | None, after: SizedPod | None) -> None:
        if before is not None:
            self._count(before, -1)
            # While a VM migrates it has two pods.
            if before.vm is not None and self._needs.get(before.vm) is before.requested:
                del self._needs[before.vm]
        if after is not None:
            self._count(after, 1)
            if after.vm is not None:
                self._needs[after.vm] = after.requested

    def _count(self, pod: SizedPod, sign: int) -> None:
        if pod.node:
            taken = self._taken.setdefault(pod.node, Counter())
            for name, amount in pod.requested.items():
                taken[name] += sign * amount
