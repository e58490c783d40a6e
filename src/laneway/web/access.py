"""What a user may do, asked of the API server with the user's own token.

An answer is shown as it is known, without waiting; once it is half a minute old it is asked for
again in the background while it is still served. What is not known counts as not allowed, and an
answer that could not be asked again for five minutes is not known any more. A user with answers
about many namespaces is asked about less often, so that a session causes ten requests a second at
most. The API server has the last word anyway: every write is made as the user.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from laneway.kube.access import Right, may
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, UnauthorizedError, is_outage
from laneway.kube.resource import Resource

FRESH_SECONDS = 30.0
SERVED_SECONDS = 300.0
"""How long an answer is believed that cannot be asked for again."""
RETRY_SECONDS = 5.0
WAIT_SECONDS = 3.0
_A_SECOND = 10
"""Questions of a session, on average."""
_AT_ONCE = 10
_KEPT = 20_000


Question = Right
"""A right that is asked about."""


def question(verb: str, resource: Resource[Any], namespace: str = "", name: str = "") -> Question:
    """Whether a user may do this to objects of a resource."""
    return Question(verb, resource.group, resource.plural, namespace, name)


class _Answer(NamedTuple):
    allowed: bool
    at: float


class Access:
    """The answers of one session."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self.failure: KubeError | None = None
        """Why the last question could not be answered; None once one could be."""
        self._client = client.unwaiting()
        self._clock = clock
        self._answers: OrderedDict[Question, _Answer] = OrderedDict()
        self._asking: dict[Question, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._quiet_until = clock()
        """Before that nothing is asked in the background: the server did not answer lately."""

    def may(self, asked: Question) -> bool:
        """Whether the user has a right; False while that is not known."""
        return self.known(asked) or False

    def known(self, asked: Question) -> bool | None:
        """The same; None while it is not known."""
        answer = self._answers.get(asked)
        age = self._clock() - answer.at if answer else math.inf
        if age >= self._fresh_seconds() and self._clock() >= self._quiet_until:
            self._ask(asked)
        return answer.allowed if answer and age < self._served_seconds() else None

    def namespaces(self, asked: Question, known: Iterable[str]) -> frozenset[str]:
        """In which of these namespaces the user has a right; `asked` names none."""
        if self.may(asked):
            return frozenset(known)
        return frozenset(one for one in known if self.may(asked._replace(namespace=one)))

    async def load(self, asked: Iterable[Question]) -> None:
        """Wait until these questions are answered, or cannot be; a page does not wait for long."""
        missing = [one for one in dict.fromkeys(asked) if self.known(one) is None]
        if missing and self._clock() >= self._quiet_until:
            await asyncio.wait([self._ask(one) for one in missing], timeout=WAIT_SECONDS)

    async def load_namespaces(self, asked: Question, known: Iterable[str]) -> frozenset[str]:
        """The same as `namespaces` once all answers are there; one does where it is a yes."""
        names = tuple(known)
        await self.load([asked])
        if not self.may(asked):
            await self.load(asked._replace(namespace=name) for name in names)
        return self.namespaces(asked, names)

    async def close(self) -> None:
        """Ask nothing more."""
        self._quiet_until = math.inf
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _fresh_seconds(self) -> float:
        return max(FRESH_SECONDS, len(self._answers) / _A_SECOND)

    def _served_seconds(self) -> float:
        return max(SERVED_SECONDS, 2 * self._fresh_seconds())

    def _ask(self, asked: Question) -> asyncio.Task[None]:
        task = self._asking.get(asked)
        if task is None:
            task = self._asking[asked] = asyncio.create_task(self._answer(asked))
        return task

    async def _answer(self, asked: Question) -> None:
        try:
            async with self._turns:
                with contextlib.suppress(KubeError):
                    allowed = await self._review(asked)
                    self._answers[asked] = _Answer(allowed, self._clock())
                    self._answers.move_to_end(asked)
                    if len(self._answers) > _KEPT:
                        self._answers.popitem(last=False)
        finally:
            del self._asking[asked]

    async def _review(self, asked: Question) -> bool:
        try:
            allowed = await may(self._client, asked)
        except KubeError as error:
            self.failure = error
            if is_outage(error) or isinstance(error, UnauthorizedError):
                self._quiet_until = self._clock() + RETRY_SECONDS
            raise
        self.failure = None
        return allowed
