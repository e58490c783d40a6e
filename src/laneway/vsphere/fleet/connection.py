"""One vCenter, for as long as it is to be followed: logged in, its inventory kept, reconnected.

Wrong credentials are not tried again until they are others, but for a rare look whether vCenter has
changed its mind: who tries them in a loop gets the account locked. Everything else is tried again
with waits that grow. Whatever happens here is reported in `state`, and does not end other
connections.

What was known of the hosts stays known while the connection is down, so that nothing published is
withdrawn because of an outage.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from laneway.core.vsphere.inventory.hosts import Host
from laneway.kube.errors import KubeError
from laneway.vsphere.fleet.secrets import UnusableSecretError
from laneway.vsphere.fleet.sources import Source
from laneway.vsphere.port import (
    About,
    Changed,
    Credentials,
    LoginRefusedError,
    UnreachableVCenterError,
    VCenter,
    VCenterError,
)

log = logging.getLogger(__name__)

Connect = Callable[[str, Credentials], Awaitable[AbstractAsyncContextManager[VCenter]]]
"""Logs in."""
Read = Callable[[Source], Awaitable[Credentials]]

READY = "Following"
CONNECTING = "Connecting"
LOGIN_REFUSED = "LoginRefused"
NO_CREDENTIALS = "NoCredentials"
UNREACHABLE = "Unreachable"
FAILED = "Failed"
MISCONFIGURED = "Misconfigured"


class Timing(NamedTuple):
    """How long is waited, in seconds."""

    first: float = 1.0
    """After the first failure; each further one doubles it."""
    longest: float = 60.0
    secret: float = 15.0
    """Between two looks at the Secret."""
    refused: float = 900.0
    """Until a refused login is tried again with the same credentials."""


class State(NamedTuple):
    """How it stands with a vCenter."""

    ready: bool
    reason: str
    message: str


class Link:
    """The connection to one vCenter. Run `run` in a task."""

    def __init__(
        self,
        source: Source,
        connect: Connect,
        read: Read,
        changed: Callable[[Link, frozenset[str]], None],
        timing: Timing,
    ) -> None:
        """`changed` is called with the hosts that changed, and with none when `state` does."""
        self.source = source
        self.vcenter: VCenter | None = None
        """Logged in; None while there is no connection."""
        self.about = About("", "", "")
        self.hosts: dict[str, Host] = {}
        """By their refs."""
        self.complete = False
        """All hosts have been read at least once."""
        self.last_report = 0.0
        """When vCenter last reported on them; `time.monotonic`."""
        self.state = State(False, CONNECTING, f"Connecting to {source.server}")
        self._following = False
        self._connect = connect
        self._read = read
        self._changed = changed
        self._timing = timing

    async def run(self) -> None:
        """Follow until cancelled."""
        failures = 0
        while True:
            self._following = False
            used: Credentials | None = None
            patience = self._timing.secret
            try:
                used = await self._read(self.source)
                async with await self._connect(self.source.server, used) as vcenter:
                    await self._first(self._follow(vcenter), self._others(used))
                reason, words = CONNECTING, "The credentials have changed; reconnecting"
                patience = 0.0
            except UnusableSecretError as error:
                reason, words = NO_CREDENTIALS, str(error)
            except LoginRefusedError as error:
                reason, patience = LOGIN_REFUSED, self._timing.refused
                words = (
                    f"{error}. Correct the Secret {self.source.secret}, thumbprint or caBundle. "
                    f"Laneway retries the same credentials after {patience / 60:.0f} min, so that "
                    "no account is locked"
                )
            except (VCenterError, KubeError) as error:
                reason, words = UNREACHABLE, str(error)
                patience = self._wait(failures)
            except Exception as error:
                log.exception("vCenter %s", self.source.server)
                reason, words = FAILED, f"An unexpected {type(error).__name__}: {error}"
                patience = self._wait(failures)
            failures = 0 if self._following else failures + 1
            self._lost(State(False, reason, words))
            if used is not None and reason == LOGIN_REFUSED:
                await self._first(self._others(used), asyncio.sleep(patience))
            else:
                await asyncio.sleep(patience)

    def _wait(self, failures: int) -> float:
        limit = min(self._timing.first * 2.0 ** min(failures, 16), self._timing.longest)
        return limit * (1 + random.random()) / 2  # noqa: S311 - it only keeps many managers apart

    async def _follow(self, vcenter: VCenter) -> None:
        self.about = await vcenter.about()
        news = vcenter.follow()
        try:
            async for one in news:
                self.last_report = time.monotonic()
                refs = self._take(one)
                self.vcenter, self._following = vcenter, True
                self._say(State(True, READY, f"Following {self.source.server}"))
                if refs:
                    self._changed(self, refs)
        finally:
            if isinstance(news, AsyncGenerator):
                await news.aclose()
        raise UnreachableVCenterError(f"{self.source.server} ended the updates of its inventory")

    def _take(self, news: Changed) -> frozenset[str]:
        """Which hosts are other than they were."""
        hosts = {host.ref: host for host in news.hosts}
        gone = self.hosts.keys() & news.gone
        if news.complete:
            gone = self.hosts.keys() - hosts.keys()
            self.complete = True
        refs = {ref for ref, host in hosts.items() if self.hosts.get(ref) != host}
        self.hosts.update(hosts)
        for ref in gone:
            del self.hosts[ref]
        return frozenset(refs | gone)

    async def _others(self, used: Credentials) -> None:
        """Return once the Secret holds others; a Secret that is gone ends nothing that works."""
        while True:
            await asyncio.sleep(self._timing.secret)
            try:
                now = await self._read(self.source)
            except (UnusableSecretError, KubeError):
                continue
            if now != used:
                return

    def _lost(self, state: State) -> None:
        self.vcenter = None
        if state != self.state and state.reason != CONNECTING:
            log.warning("vCenter %s: %s", self.source.server, state.message)
        self._say(state)

    def _say(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._changed(self, frozenset())

    @staticmethod
    async def _first(*works: Coroutine[Any, Any, None]) -> None:
        """Until one of them has ended, well or badly; the others are given up."""
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
