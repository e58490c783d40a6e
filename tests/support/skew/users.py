"""Users at work while Laneway is upgraded: everything that they request is allowed.

Each does one thing again and again until the block ends, and waits for it as a user would; what is
refused or fails is kept with its words. Trials are dry runs, which the API server judges like any
other request and does not store: they show a gap of milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from laneway.api import VGPUDevice
from laneway.kube.errors import KubeError
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.objects import VMS
from support.worlds import NAMESPACE, World

Work = Callable[[], Awaitable[object]]

MOST = 5000
"""Trials of one kind at most."""
PAUSE = 0.05


class Users:
    """`refused` are the words; `done` counts what went well."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.refused: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._leaving = False

    @contextlib.asynccontextmanager
    async def working(self, *works: Work) -> AsyncIterator[None]:
        """Each works until the block ends, and brings to an end what it has begun."""
        self._leaving = False
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(self._again(work))
            try:
                yield
            finally:
                self._leaving = True

    async def _again(self, work: Work) -> None:
        for _ in range(MOST):
            if self._leaving:
                return
            await self._once(work)
            await asyncio.sleep(PAUSE)
        raise AssertionError(f"{work.__name__}: the upgrade takes too long")

    async def _once(self, work: Work) -> None:
        name = work.__name__
        try:
            await work()
        except KubeError as error:
            self.refused[f"{name}: {error}"] += 1
        else:
            self.done[name] += 1

    async def meanwhile(self, step: Awaitable[object], *works: Work) -> None:
        """Each works once, beginning when the step begins."""
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(self._once(work))
            await step

    def claims(self, function: str) -> Work:
        """Claims a function, waits for it, and releases it."""

        async def claim() -> None:
            await self._world.claim(function)
            await self._world.release(function)

        return claim

    def vms(self, name: str, resource: str) -> Work:
        """Starts a VM with a device, changes it, stops it and deletes it."""

        async def vm() -> None:
            await self._world.make_vm(name, gpus=[resource])
            await self._world.running(name)
            await self._tick(name, 1)
            await self._world.stop_vm(name)
            await self._world.delete_vm(name)

        return vm

    def patches(self, name: str) -> Work:
        """Changes the specification of a VM that runs and has a device."""

        async def patch() -> None:
            await self._tick(name, self.done["patch"] + 1)

        return patch

    def trials(self, vgpu: str, resource: str) -> Sequence[Work]:
        """What webhooks with other names, rules and policies for failures are asked about."""
        client = self._world.client

        async def try_vm() -> None:
            await client.create(VMS, vm("try", resource), NAMESPACE, dry_run=True)

        async def try_plain_vm() -> None:
            await client.create(VMS, vm("try-plain"), NAMESPACE, dry_run=True)

        async def try_vgpu() -> None:
            body = {"spec": {"enabled": True}}
            await client.patch(served(VGPUDevice), vgpu, body, dry_run=True)

        return [try_vm, try_plain_vm, try_vgpu]

    async def _tick(self, name: str, number: int) -> None:
        metadata = {"annotations": {"example.org/tick": str(number)}}
        await self._world.client.patch(
            VMS, name, {"spec": {"template": {"metadata": metadata}}}, NAMESPACE
        )


def vm(name: str, *resources: str) -> dict[str, object]:
    """A VM that does not run, with these GPUs."""
    devices = {"gpus": [{"name": f"g{n}", "deviceName": one} for n, one in enumerate(resources)]}
    domain = {"devices": devices, "resources": {"requests": {"memory": "2Gi"}}}
    spec = {"runStrategy": "Halted", "template": {"spec": {"domain": domain}}}
    about = {"apiVersion": VMS.api_version, "kind": VMS.kind}
    return {**about, "metadata": {"name": name}, "spec": spec}
