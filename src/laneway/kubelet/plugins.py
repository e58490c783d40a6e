"""The device plugins of a node: one for every resource that is offered.

What is offered is always said as a whole, and plugins start, change and end by themselves to make
it so. They come up with whatever is offered first, whether the kubelet is there or not, so that an
agent which was restarted offers what it finds before it does anything else. When the agent ends it
takes nothing back: the kubelet keeps the capacity for some minutes, and pods keep their devices.

The folder is looked at twice a second instead of being watched. A look costs some microseconds,
sees a folder that was replaced, mounted or made late, and has no queue that can overflow; inotify
would need all of this in addition, to learn half a second earlier of what takes a kubelet longer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence

from laneway.core.device_plugin.offer import Offer
from laneway.kubelet.plugin import Plugin, PluginState
from laneway.kubelet.recent import RecentAllocations
from laneway.kubelet.service import Gate
from laneway.kubelet.sockets import endpoint, hashed_endpoint

__all__ = ["PluginState", "Plugins"]

_FOLDER = "device-plugins"
_LOOK_SECONDS = 0.5


class Plugins:
    """All plugins of a node, as the offers request them."""

    def __init__(self, folder: str, gate: Gate | None = None) -> None:
        """`folder`: the kubelet's, which holds that of the device plugins.

        `gate`: who says for whom a device is; without one all are for everybody.
        """
        self._gate = gate
        self._folder = os.path.join(folder, _FOLDER)
        self._listeners: list[Callable[[], None]] = []
        self._recent = RecentAllocations(self._tell)
        self._offers: dict[str, list[Offer]] = {}
        self._plugins: dict[str, Plugin] = {}
        self._group: asyncio.TaskGroup | None = None

    def offer(self, offers: Sequence[Offer]) -> None:
        """Offer exactly these from now on."""
        self._offers = {}
        for one in offers:
            self._offers.setdefault(one.resource, []).append(one)
        for resource, plugin in self._plugins.items():
            plugin.offer(self._offers.get(resource, ()))
        if self._group is not None:
            self._start(self._group)

    def state(self, resource: str) -> PluginState:
        if resource not in self._offers:
            return PluginState(registered=False, problem="no device is offered under this name")
        if resource not in self._plugins:
            return PluginState(registered=False, problem="the plugin is starting")
        return self._plugins[resource].state

    def recent_allocations(self) -> Mapping[tuple[str, str], float]:
        """When Allocate gave each (resource, id), until the kubelet says whose it is, or 30 s."""
        return self._recent.times

    @property
    def refused(self) -> Mapping[str, int]:
        """How often a kubelet that requested devices was refused, by resource."""
        return self._recent.refused

    def confirm(self, owners: Collection[tuple[str, str]]) -> None:
        """The kubelet says by itself who has these: (resource, id)."""
        self._recent.drop(owners)

    def subscribe(self, call: Callable[[], None]) -> None:
        """Be called when a state changed, or a device was allocated or released."""
        self._listeners.append(call)

    async def sent(self) -> None:
        """Every kubelet that listens has been sent the present lists (waits some seconds)."""
        await asyncio.gather(*(plugin.sent() for plugin in self._plugins.values()))

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                self._start(self._group)
                while True:
                    await asyncio.sleep(_LOOK_SECONDS)
                    for plugin in self._plugins.values():
                        plugin.look()
        finally:
            self._group = None
            self._plugins.clear()
            self._recent.close()

    def _start(self, group: asyncio.TaskGroup) -> None:
        """A plugin for every resource that has none."""
        for resource, offers in self._offers.items():
            if resource not in self._plugins:
                name = endpoint(resource)
                if any(plugin.endpoint == name for plugin in self._plugins.values()):
                    # `a.b/c-d` and `a.b-c/d` would have the same file.
                    name = hashed_endpoint(resource)
                plugin = Plugin(
                    self._folder, resource, name, self._recent, self._tell, gate=self._gate
                )
                plugin.offer(offers)
                self._plugins[resource] = plugin
                group.create_task(self._run(plugin), name=f"device plugin of {resource}")

    async def _run(self, plugin: Plugin) -> None:
        await plugin.run()
        # Nothing is awaited after the plugin saw that it has no devices, so it has none now.
        del self._plugins[plugin.resource]
        self._tell()

    def _tell(self) -> None:
        for call in self._listeners:
            call()
