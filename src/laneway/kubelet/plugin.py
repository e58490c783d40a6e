"""One device plugin, from its socket to the kubelet's knowing it.

One task owns the plugin. It serves, registers, and stays until nothing is offered any more and
the kubelet has that list: that empty list is what makes a kubelet drop the capacity. Calls of
the kubelet only read what is offered, and all run on one event loop, so nothing needs a lock.

The kubelet has the plugin when it took the registration *and* requested the list; then the stream
is as good as a lease. Registered again is

- when the kubelet's socket is another one (it was restarted, and remembers nothing),
- when no stream is left (the kubelet gave the plugin up, and never comes back by itself),
- when it was refused or not answered, after a pause that doubles,

and served again when the plugin's own file is gone, as a starting kubelet empties the folder.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from laneway.api.kubelet.sockets import KUBELET
from laneway.core.device_plugin.offer import Offer
from laneway.kubelet.recent import RecentAllocations
from laneway.kubelet.registration import register
from laneway.kubelet.service import Gate, Service, Signal
from laneway.kubelet.serving import serving
from laneway.kubelet.sockets import Identity, identity

log = logging.getLogger(__name__)

SHORTEST, LONGEST = 0.5, 30.0
"""Seconds between two tries."""
_SECONDS = 5.0
"""In which a kubelet that took the registration requests the list, and a list is sent."""


class PluginState(NamedTuple):
    """Whether the kubelet knows of a resource."""

    registered: bool
    """The kubelet took the registration and has been sent the list of devices."""
    problem: str
    """Why not, in words; empty when registered."""


class Plugin:
    """The plugin of one resource."""

    def __init__(
        self,
        folder: str,
        resource: str,
        endpoint: str,
        recent: RecentAllocations,
        reported: Callable[[], None],
        *,
        gate: Gate | None = None,
    ) -> None:
        self.resource = resource
        self.endpoint = endpoint
        self.state = PluginState(registered=False, problem="the plugin is starting")
        self._folder = folder
        self._reported = reported
        self._signal = Signal()
        self._service = Service(resource, recent, self._signal, gate)
        self._kubelet = self._kubelet_now()
        self._own: Identity | None = None
        """Our socket's, while there is one."""
        self._pause = SHORTEST

    def offer(self, offers: Sequence[Offer]) -> None:
        self._service.offer(offers)

    def look(self) -> None:
        """See whether the kubelet's socket or our own is another than it was."""
        self._kubelet = self._kubelet_now()
        self._signal.give()

    async def sent(self) -> None:
        """Everybody who listens has been sent the present list, or some seconds are over."""
        await self._signal.until(lambda: self._service.sent, _SECONDS)

    async def run(self) -> None:
        """Until nothing is offered any more."""
        while not self._service.empty:
            try:
                async with serving(self._folder, self.endpoint, [self._service]):
                    self._own = self._own_now()
                    await self._stay_registered()
                    await self.sent()
                if not self._service.empty:
                    self._tell("the plugin's socket was removed; creating it again")
            except OSError as error:
                self._own = None
                self._tell(f"cannot create a socket in {self._folder}: {error.strerror or error}")
                await self._wait(self._kubelet)

    async def _stay_registered(self) -> None:
        """Until nothing is offered any more, or our own socket is gone."""
        while not self._leaving():
            kubelet = self._kubelet = self._kubelet_now()
            problem = await register(self._folder, self.resource, self.endpoint)
            if not problem:
                problem = await self._held(kubelet)
            if not self._leaving():
                self._tell(problem)
                await self._wait(kubelet)

    async def _held(self, kubelet: Identity | None) -> str:
        """Be registered as long as it lasts; why it ended."""

        def ended() -> bool:
            return self._leaving() or self._kubelet != kubelet

        await self._signal.until(lambda: self._service.heard or ended(), _SECONDS)
        if not self._service.heard:
            return "the kubelet accepted the registration, but does not list the devices"
        self._tell("")
        began = time.monotonic()
        await self._signal.until(lambda: not self._service.heard or ended())
        if time.monotonic() - began > LONGEST:
            self._pause = SHORTEST
        return "the kubelet has dropped the plugin; registering it again"

    async def _wait(self, kubelet: Identity | None) -> None:
        """Before the next try: not longer than until the kubelet is no longer this one."""
        pause = self._pause
        self._pause = min(2 * pause, LONGEST)
        if await self._signal.until(lambda: self._leaving() or self._kubelet != kubelet, pause):
            self._pause = SHORTEST

    def _leaving(self) -> bool:
        return self._service.empty or (self._own is not None and self._own != self._own_now())

    def _own_now(self) -> Identity | None:
        return identity(os.path.join(self._folder, self.endpoint))

    def _kubelet_now(self) -> Identity | None:
        return identity(os.path.join(self._folder, KUBELET))

    def _tell(self, problem: str) -> None:
        state = PluginState(registered=not problem, problem=problem)
        if state != self.state:
            self.state = state
            log.log(
                logging.WARNING if problem else logging.INFO,
                "%s: %s",
                self.resource,
                problem or "offered to the kubelet",
            )
            self._reported()
