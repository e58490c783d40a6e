"""The kubelet's device manager: who offers what, and which container has which device.

It remembers allocations, and forgets plugins, when it restarts. Of kubelets' habits that
a plugin must cope with it has these:
- It calls a plugin back while that registers; one that does not listen yet is refused.
- When any stream of a resource ends, whatever plugin is registered for it then is dropped, even
  one that registered after the stream's own (kubernetes#121994, in releases before 1.36).
- It never calls again by itself.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from random import Random

from laneway.api.kubelet.sockets import KUBELET
from laneway.sim.kubelet import checkpoint
from laneway.sim.kubelet.admission import (
    UnavailableError,
    choose,
    failed,
    free,
    given,
    grants,
)
from laneway.sim.kubelet.checkpoint import AdmittedPod, Checkpoint, Given
from laneway.sim.kubelet.devices import Devices
from laneway.sim.kubelet.faults import Faults
from laneway.sim.kubelet.plugin import Plugin, PluginError
from laneway.sim.kubelet.pod_resources import PodResourcesLister
from laneway.sim.kubelet.pods import Grant, KubeletDiedError, PodRequest
from laneway.sim.kubelet.registration import Registration

_GRACE = 300.0
"""Kubelets' own."""


class Kubelet:
    """One node's. Serves `device-plugins/kubelet.sock` and `pod-resources/kubelet.sock`."""

    def __init__(
        self,
        folder: str,
        *,
        authority: str = "localhost",
        grace: float = _GRACE,
        luck: Random | None = None,
    ) -> None:
        """`authority`: what it calls plugins; kubelets before 1.26 said the path of the socket.

        `grace`: seconds for which the devices of a plugin that went count as capacity.

        `luck`: by which it chooses where no plugin cares.
        """
        self.faults = Faults()
        self.folder = folder
        self._plugins_folder = os.path.join(folder, "device-plugins")
        self._pods_folder = os.path.join(folder, "pod-resources")
        self._authority = authority
        self._grace = grace
        self._luck = luck or Random()  # noqa: S311 - it guards nothing
        self._listeners: list[Callable[[], None]] = []
        self._reported: tuple[dict[str, int], dict[str, int]] = {}, {}
        self._admitting = asyncio.Lock()
        self._pods: dict[str, AdmittedPod] = {}
        self._running = False
        self._begin()

    def _begin(self) -> None:
        """What a new process knows."""
        self._devices = Devices()
        self._plugins: dict[str, Plugin] = {}
        """The last that registered, by resource, whether it is still there or not."""
        self._connected: dict[str, Plugin] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._expiring: dict[str, asyncio.TimerHandle] = {}

    # ------------------------------------------------------------------- what others see of it

    @property
    def capacity(self) -> dict[str, int]:
        """Devices by resource, healthy or not; 0 for a resource that is no more."""
        return self._devices.capacity

    @property
    def allocatable(self) -> dict[str, int]:
        """Healthy devices by resource, whether a container has them or not."""
        return self._devices.allocatable

    @property
    def admitted(self) -> list[str]:
        """The uids of pods that have devices, those of the time before a restart included."""
        return list(self._pods)

    def subscribe(self, call: Callable[[], None]) -> None:
        """Have something called whenever capacity or allocatable changed."""
        self._listeners.append(call)

    # ----------------------------------------------------------------------- starting, ending

    async def start(self) -> None:
        """Begin again from the checkpoint: plugins' sockets are gone, and what they offered."""
        self._begin()
        for folder in (self._plugins_folder, self._pods_folder):
            os.makedirs(folder, exist_ok=True)
        remembered = checkpoint.load(self._plugins_folder)
        self._pods = remembered.pods
        self._devices.expect(remembered.resources)
        for resource in remembered.resources:
            self._expire_later(resource)
        _remove_sockets(self._plugins_folder)
        self._registration = Registration(self._register, self.faults)
        self._lister = PodResourcesLister(
            self._pods.values, lambda: self._devices.healthy, self.faults
        )
        async with AsyncExitStack() as stack:
            await self._registration.service.listen(self._plugins_folder, KUBELET)
            stack.push_async_callback(self._registration.service.stop)
            await self._lister.service.listen(self._pods_folder, KUBELET)
            stack.push_async_callback(self._lister.service.stop)
            self._services = stack.pop_all()
        self._running = True
        self._tell()

    async def stop(self) -> None:
        """End as a killed one does: connections break, sockets stay behind."""
        if not self._running:
            return
        self._running = False
        for timer in self._expiring.values():
            timer.cancel()
        for task in self._following:
            task.cancel()
        for plugin in {*self._plugins.values(), *self._connected.values()}:
            plugin.close()
        await asyncio.gather(*self._following, return_exceptions=True)
        await self._services.aclose()

    # -------------------------------------------------------------------------------- plugins

    async def _register(self, resource: str, endpoint: str) -> None:
        plugin = await Plugin.connect(resource, self._plugins_folder, endpoint, self._authority)
        self._connected[resource] = self._plugins[resource] = plugin
        if resource in self._expiring:
            self._expiring.pop(resource).cancel()
        task = asyncio.create_task(self._follow(plugin))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _follow(self, plugin: Plugin) -> None:
        resource = plugin.resource

        def listed(devices: Mapping[str, bool]) -> None:
            self._devices.listed(resource, devices)
            self._save()
            self._tell()

        await plugin.follow(listed)
        plugin.close()
        latest = self._connected.pop(resource, None)
        if latest is not None:
            latest.close()
            self._devices.disconnected(resource)
            self._expire_later(resource)
            self._tell()

    def _expire_later(self, resource: str) -> None:
        loop = asyncio.get_running_loop()
        self._expiring[resource] = loop.call_later(self._grace, self._expire, resource)

    def _expire(self, resource: str) -> None:
        self._expiring.pop(resource, None)
        self._plugins.pop(resource, None)
        self._devices.forget(resource)
        self._save()
        self._tell()

    def _tell(self) -> None:
        counts = self.capacity, self.allocatable
        if counts != self._reported:
            self._reported = counts
            for call in self._listeners:
                call()

    def _save(self) -> None:
        remembered = Checkpoint(pods=self._pods, resources=self._devices.resources)
        checkpoint.save(self._plugins_folder, remembered)

    # ----------------------------------------------------------------------------------- pods

    async def admit(self, pod: PodRequest) -> dict[str, Grant]:
        """Give a pod all that it requests, by container, or nothing; one pod at a time.

        Raises AdmissionError, and KubeletDiedError when the kubelet ends meanwhile.
        """
        async with self._admitting:
            self._check_alive()
            admitted = self._pods.get(pod.uid)
            if admitted is None:
                admitted = AdmittedPod(namespace=pod.namespace, name=pod.name, containers={})
                self._pods[pod.uid] = admitted
            try:
                for container, limits in pod.containers.items():
                    parts = admitted.containers.setdefault(container, {})
                    for resource, count in limits.items():
                        if count and not (pod.running and resource in parts):
                            await self._allocate(parts, resource, count)
                    self._save()
            except (UnavailableError, PluginError) as error:
                self._check_alive()
                self.remove(pod.uid)
                raise failed(error) from None
            return grants(admitted)

    async def _allocate(self, parts: dict[str, Given], resource: str, count: int) -> None:
        part = parts.get(resource)
        had = None if part is None else part.ids
        healthy = self._devices.healthy
        available = free(resource, count, had, healthy, self._taken(resource))
        if had is not None:
            return
        plugin = self._plugins[resource]
        preferred = await plugin.preferred(available, count)
        if self.faults.die_before_allocate:
            self.faults.die_before_allocate = False
            await self.stop()
            self._check_alive()
        ids = choose(available, preferred, count, self._luck)
        answer = await plugin.allocate(ids)
        self._check_alive()
        parts[resource] = given(ids, answer)

    def _taken(self, resource: str) -> set[str]:
        return {
            device
            for pod in self._pods.values()
            for parts in pod.containers.values()
            if resource in parts
            for device in parts[resource].ids
        }

    def remove(self, uid: str) -> None:
        """A pod has ended: what it had is free. Nothing happens where there is none."""
        if self._pods.pop(uid, None) is not None:
            self._save()

    def _check_alive(self) -> None:
        if not self._running:
            raise KubeletDiedError("the kubelet has been stopped")


def _remove_sockets(folder: str) -> None:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
