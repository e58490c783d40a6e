"""Whose token a request brings, as the API server says.

An accepted token is believed for a minute, and no longer than it says that it ends; then the API
server is asked again, once for however many requests wait. Tokens that are not accepted cost an
attempt of their sender, as those of the sign-in do, and requests of one user are limited too. So
neither a flood of invented tokens nor a program that never waits reaches the API server, or takes
this process from its users. Of a token nothing is kept but its hash, and the client that uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.web.access import Access
from laneway.web.api.errors import Refused
from laneway.web.session.attempts import Attempts, Rate
from laneway.web.session.identity import (
    RefusedError,
    client_for,
    expiry,
    pasted,
    person_of,
)
from laneway.web.session.peers import Network, peer

BELIEVED_SECONDS = 60.0
MOST = 256
"""Tokens that are known at a time; of more, those that were not used for longest are forgotten."""
OF_A_USER, OF_ALL = Rate(30, 0.5), Rate(300, 0.02)
"""Requests of one user, and of all."""
_FULL_SECONDS = 5.0


@dataclass(eq=False, slots=True)
class Caller:
    """The user of a token."""

    name: str
    client: Client = field(repr=False)
    access: Access = field(repr=False)
    until: float
    """When the API server is to be asked again, as a POSIX time."""
    uses: int = 0
    """Requests that are being answered."""


class Callers:
    """Those of one process."""

    def __init__(
        self,
        config: ClusterConfig,
        proxies: Sequence[Network] = (),
        *,
        attempts: Attempts | None = None,
        requests: Attempts | None = None,
        most: int = MOST,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`attempts` counts unknown tokens by their senders, `requests` those of each user."""
        self._config = config
        self._proxies = proxies
        self._attempts = attempts or Attempts()
        self._requests = requests or Attempts(OF_A_USER, OF_ALL)
        self._most = most
        self._clock = clock
        self._known: OrderedDict[str, Caller] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Caller]] = {}

    @contextlib.asynccontextmanager
    async def caller(self, request: web.Request) -> AsyncIterator[Caller]:
        """The user of a request. Raises Refused."""
        token = _token(request)
        key = hashlib.sha256(token.encode()).hexdigest()
        found = self._known.get(key)
        if found is not None:
            self._count(found)
            if self._clock() >= found.until:
                found = await self._ask(key, token)
        else:
            sender = None if key in self._asking else peer(request, self._proxies)
            if sender is not None and (wait := self._attempts.wait(sender)):
                raise Refused(429, "api.too_many_tokens", retry=wait)
            found = await self._ask(key, token)
            self._count(found)
            # After the count: many tokens of one user cost attempts in the end.
            if sender is not None:
                self._attempts.refund(sender)
        if self._known.get(key) is not found:
            raise Refused(503, "api.no_room", retry=_FULL_SECONDS)
        self._known.move_to_end(key)
        found.uses += 1
        try:
            yield found
        finally:
            found.uses -= 1
            if self._known.get(key) is not found and not found.uses:
                await _close(found)

    async def close(self) -> None:
        """Forget all."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        for one in self._known.values():
            await _close(one)
        self._known.clear()

    def _count(self, caller: Caller) -> None:
        """Count a request of a user. Raises Refused."""
        if wait := self._requests.wait(caller.name):
            raise Refused(429, "api.too_many", retry=wait)

    async def _ask(self, key: str, token: str) -> Caller:
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._asked(key, token))
            task.add_done_callback(functools.partial(self._answered, key))
        # One of those who wait may go away; the others still want the answer.
        return await asyncio.shield(task)

    def _answered(self, key: str, task: asyncio.Task[Caller]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # All who waited may be gone.

    async def _asked(self, key: str, token: str) -> Caller:
        """Have the API server say whose token it is, and know that from now on."""
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(client_for(self._config, token))
            try:
                person = await person_of(client, token, self._clock())
            except RefusedError as refused:
                if (why := _refusal(refused)).status != 503:
                    await self._forget(key)
                raise why from None
            await self._forget(key)
            if len(self._known) >= self._most and not await self._forgot_one():
                raise Refused(503, "api.no_room", retry=_FULL_SECONDS)
            stack.pop_all()
        until = min(self._clock() + BELIEVED_SECONDS, expiry(token) or math.inf)
        found = self._known[key] = Caller(person.name, client, Access(client), until)
        return found

    async def _forgot_one(self) -> bool:
        """Make room for one more; False where all are being answered."""
        unused = next((key for key, one in self._known.items() if not one.uses), None)
        if unused is not None:
            await self._forget(unused)
        return unused is not None

    async def _forget(self, key: str) -> None:
        found = self._known.pop(key, None)
        if found is not None and not found.uses:  # Else who uses it closes it.
            await _close(found)


def _token(request: web.Request) -> str:
    scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
    text = rest.strip()
    if scheme.lower() != "bearer" or not text:
        raise Refused(401, "api.no_token")
    try:
        token = pasted(text)
    except RefusedError:
        token = ""
    if token != text:
        raise Refused(401, "api.token_malformed")
    return token


_STATUSES = {"server_away": 503, "not_recognised": 403}


def _refusal(refused: RefusedError) -> Refused:
    problem = refused.problem
    status = _STATUSES.get(problem.id, 401)
    retry = _FULL_SECONDS if status == 503 else None
    return Refused(status, f"sign_in.{problem.id}", problem.values, retry=retry)


async def _close(caller: Caller) -> None:
    await caller.access.close()
    await caller.client.__aexit__(None, None, None)
