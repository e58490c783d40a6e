"""What a session knows of the Rancher management cluster, and of CPU and memory on Harvester.

All of it is read with the rights of the user, so the interface needs none of its own: with the
user's client where the served cluster is the management cluster too, else with credentials for the
other one. These are a token that the user has pasted, or those of the kubeconfig that the interface
was started with; the latter only for the user whom the served cluster takes the interface itself
for, which is the person who started it.

It is read when a page is opened, and again every few seconds while one is open in a browser, and
judged then, outside the event loop. What is known stays while the management cluster does not
answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from laneway.controllers.machine_pools import look
from laneway.controllers.machine_pools.judged import ClusterState, judged
from laneway.controllers.machine_pools.look import Managed, Sizes, Supply, supplied
from laneway.core.ledger.ledger import Ledger
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.errors import (
    ApiError,
    ForbiddenError,
    KubeError,
    is_outage,
)
from laneway.kube.rancher import WORKSPACE
from laneway.web.access import Access
from laneway.web.judging import Judging
from laneway.web.session.attempts import Attempts
from laneway.web.session.identity import client_for, name_of
from laneway.web.tracing import client_of

PAUSE_SECONDS = 5.0
"""Between two looks."""
SHARE = 10
"""The pause after a look is at least this many times as long as the look took."""
PATIENCE_SECONDS = 3.0
"""How long a page waits for a look if something is known already."""


class Remote:
    """A management cluster that is not the served one."""

    def __init__(
        self, config: ClusterConfig, process: Client, tracer: Tracer | None = None
    ) -> None:
        """`process`: the interface's own client of the served cluster. `tracer`: of writes."""
        self.config = config
        self.tracer = tracer
        self._process = process
        self._owner: str | None = None
        self._attempts = Attempts()

    def wait(self, name: str) -> float:
        """0 counts one attempt of a user to sign in, which may be made; else seconds until then."""
        return self._attempts.wait(name)

    async def credentials_are_of(self, name: str) -> bool:
        """Whether the credentials of the kubeconfig are this user's. Raises KubeError."""
        if self._owner is None:
            self._owner = await name_of(self._process.unwaiting())
        return name == self._owner


class Known(NamedTuple):
    """What was read."""

    managed: Managed
    sizes: Sizes


class Judged(NamedTuple):
    """What follows from it, with the ledger."""

    managed: Managed
    supply: Supply
    clusters: list[ClusterState]


class Management:
    """What one session knows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.client: Client | None = None
        """Requests to another management cluster with the user's own credentials."""
        self.access: Access | None = None
        """The rights of the user there."""
        self.name = ""
        """Of the user there, whose token was pasted."""
        self.known: Known | None = None
        self.problem: KubeError | None = None
        """Why the last look gave nothing."""
        self.since: datetime | None = None
        """When what is known was read."""
        self._clock = clock
        self._at, self._took = -math.inf, 0.0
        self._task: asyncio.Task[None] | None = None
        self._judged: Judged | None = None
        self._of: tuple[Known, Ledger] | None = None
        """What was judged."""
        self._turn = asyncio.Lock()
        self._judgements = self._forgotten = 0
        self._ended = False

    async def sign_in(
        self, config: ClusterConfig, token: str, tracer: Tracer | None = None
    ) -> None:
        """Take a token of the user. Raises KubeError."""
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(client_for(config, token, tracer=tracer))
            name = await name_of(client.unwaiting())
            await self.close()
            if self._ended:
                return
            stack.pop_all()  # It is closed with the session.
        self.name = name
        self._take(client)

    async def open(self, config: ClusterConfig, tracer: Tracer | None = None) -> None:
        """Use credentials that are the user's own already."""
        if self.client is not None or self._ended:
            return
        client = client_of(config, tracer, user_agent="laneway-ui", connect_delays=())
        await client.__aenter__()
        self._take(client)

    def _take(self, client: Client) -> None:
        self.client, self.access = client, Access(client)

    async def end(self) -> None:
        """Forget everything for good: pages of the session may still be open."""
        self._ended = True
        await self.close()

    async def close(self) -> None:
        """Forget everything."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        client, access = self.client, self.access
        self._forget()
        self.client = self.access = self.problem = None
        self.name, self._at = "", -math.inf
        if access is not None:
            await access.close()
        if client is not None:
            await client.__aexit__(None, None, None)

    def _forget(self) -> None:
        self.known = self._judged = self._of = None
        self._forgotten += 1

    async def look_now(self, client: Client, harvester: Client) -> None:
        """See what there is now, because something depends on it."""
        if self._task is not None:
            await asyncio.wait([self._task])  # It may have read before the latest write.
        self._task = asyncio.create_task(self._look(client, harvester))
        await asyncio.wait([self._task])
        _raise(self._task)

    async def look(self, client: Client, harvester: Client) -> None:
        """See what there is, if the last look was not a moment ago.

        `client`: of the management cluster; `harvester`: of the served one.
        """
        rest = max(PAUSE_SECONDS, SHARE * self._took) - (self._clock() - self._at)
        if rest <= 0 or self.known is None:
            await self._wait(client, harvester)

    async def follow(
        self,
        client: Callable[[], Awaitable[Client | None]],
        harvester: Client,
        judging: Judging,
        judge: Callable[[], Awaitable[object]],
        changed: Callable[[], None],
    ) -> None:
        """Look and judge until cancelled, and call `changed` whenever the result is another one.

        `client`: that of the management cluster, which may be another one after a sign-in. `judge`
        also does what the page needs besides, and what it returns belongs to the result.
        """
        last: object = None  # The page may have been drawn before what is known now.
        made, due = judging.made, -math.inf
        while True:
            if (now := self._clock()) >= due:
                due = now + max(PAUSE_SECONDS, SHARE * self._took)
            with contextlib.suppress(TimeoutError):  # The next look is due.
                async with asyncio.timeout(due - now):
                    await made.wait()
            made = judging.made
            if self._clock() >= due:
                with contextlib.suppress(KubeError):  # The next look asks again for the client.
                    if (found := await client()) is not None:
                        await self.look(found, harvester)
            began = self._clock()
            other = await judge()
            took = self._clock() - began
            if (news := (*self._news(), other)) != last:
                last = news
                changed()
            await asyncio.sleep(SHARE * took)

    def _news(self) -> tuple[object, ...]:
        return self.known, self._judgements, str(self.problem or "")

    @property
    def judged(self) -> Judged | None:
        """The pools as they were judged last; None while nothing is known."""
        return self._judged

    async def judge(self, ledger: Ledger | None, judging: Judging) -> None:
        """Judge what is known, unless that was done."""
        async with self._turn:
            known, forgotten = self.known, self._forgotten
            if known is None or ledger is None or self._is_of(known, ledger):
                return
            found = await judging.run(lambda: _judge(known, ledger))
            if self._forgotten == forgotten:
                self._judged, self._of = found, (known, ledger)
                self._judgements += 1

    def _is_of(self, known: Known, ledger: Ledger) -> bool:
        return self._of is not None and self._of[0] is known and self._of[1] is ledger

    async def _wait(self, client: Client, harvester: Client) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look(client, harvester))
        patience = PATIENCE_SECONDS if self.known is not None else None
        await asyncio.wait([self._task], timeout=patience)
        _raise(self._task)

    async def _look(self, client: Client, harvester: Client) -> None:
        began = self._clock()
        try:
            managed, sizes = await asyncio.gather(
                _managed(client.unwaiting()), _sizes(harvester.unwaiting())
            )
        except KubeError as error:
            self.problem = error
            if isinstance(error, ApiError) and not is_outage(error):
                self._forget()  # What the user may not see any more is not shown.
        else:
            found = Known(managed, sizes)
            if found != self.known:
                self.known = found
            self.problem, self.since = None, datetime.now(UTC)
        self._at = self._clock()
        self._took = self._at - began


def _raise(task: asyncio.Task[None]) -> None:
    """Raise what a task has failed with, which is a defect."""
    if task.done() and not task.cancelled():
        task.result()


async def _managed(client: Client) -> Managed:
    """In all namespaces, or else in that of Rancher's default workspace."""
    try:
        return await look.management(client, "")
    except ForbiddenError:
        found = await look.management(client, WORKSPACE)
    why = f"you may not list clusters in all namespaces: only those of {WORKSPACE} are shown"
    return replace(found, unknown=(why, *found.unknown))


async def _sizes(client: Client) -> Sizes:
    try:
        return await look.sizes(client)
    except KubeError as error:
        return Sizes(unknown=(f"CPU and memory are not checked: {error}",))


def _judge(known: Known, ledger: Ledger) -> Judged:
    supply = supplied(ledger, known.sizes)
    return Judged(known.managed, supply, judged(known.managed, supply))
