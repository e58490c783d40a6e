"""Which rights the requester has, asked of the API server by SubjectAccessReview.

An answer is kept for some seconds, because a person who does one thing causes several reviews of
it, and so does a program that does many. The same question is asked once, however many wait for it.
A right that cannot be checked counts as not granted; the answer says so, and it is not kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from laneway.admission.metrics import AdmissionMetrics
from laneway.admission.request import Access, Requester
from laneway.admission.verdict import Granted
from laneway.core.phrases import quoted
from laneway.core.raw import JsonObject
from laneway.kube.access import REVIEWS, review
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, UnreachableError

log = logging.getLogger(__name__)

KEPT_SECONDS = 10.0
KEPT = 4096
"""Answers at most."""
LIMIT_SECONDS = 3.0
"""The API server waits for us for ten."""


_Key = tuple[object, ...]


class _Kept(NamedTuple):
    granted: bool
    until: float


class Rights(NamedTuple):
    """Which of the checked rights are granted, and the text for those that could not be checked."""

    granted: Granted = frozenset()
    warnings: tuple[str, ...] = ()


class AccessReviews:
    """Asks one API server."""

    def __init__(
        self,
        client: Client,
        metrics: AdmissionMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._limit = limit_seconds
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._asking: dict[_Key, asyncio.Task[bool]] = {}

    async def granted(self, requester: Requester, accesses: Iterable[Access]) -> Rights:
        """Which of them the requester has."""
        asked = sorted(set(accesses), key=_order)
        if not asked:
            return Rights()
        answers = await asyncio.gather(
            *(self._has(requester, one) for one in asked), return_exceptions=True
        )
        granted, warnings = [], []
        for access, answer in zip(asked, answers, strict=True):
            if isinstance(answer, KubeError):
                self._metrics.not_asked()
                who = (access.subject or requester).username
                log.warning("whether %s may %s: %s", who, _words(access), answer)
                warnings.append(
                    f"Whether {quoted(who)} may {_words(access)} could not be checked, so it "
                    f"counts as not allowed: {answer}"
                )
            elif isinstance(answer, BaseException):
                raise answer
            elif answer:
                granted.append(access)
        return Rights(frozenset(granted), tuple(warnings))

    async def _has(self, asking: Requester, access: Access) -> bool:
        requester = access.subject or asking
        key = _key(requester, access)
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept.until:
            return kept.granted
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, requester, access))
            task.add_done_callback(lambda done: self._answered(key, done))
        # The first caller may go away; the others still wait.
        return await asyncio.shield(task)

    def _answered(self, key: _Key, task: asyncio.Task[bool]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # No caller may be left to read it, which asyncio would complain of.

    async def _ask(self, key: _Key, requester: Requester, access: Access) -> bool:
        try:
            async with asyncio.timeout(self._limit):
                answer = await self._client.create(REVIEWS, _review(requester, access))
        except TimeoutError:
            raise UnreachableError(
                f"the API server did not answer within {self._limit:.0f} s"
            ) from None
        self._kept[key] = _Kept(answer.status.allowed, self._clock() + KEPT_SECONDS)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return answer.status.allowed


def _review(requester: Requester, access: Access) -> JsonObject:
    return review(
        access.verb,
        access.resource,
        access.name,
        username=requester.username,
        uid=requester.uid,
        groups=requester.groups,
        extra=requester.extra,
        namespace=access.namespace,
        group=access.group,
    )


def _key(requester: Requester, access: Access) -> _Key:
    extra = requester.extra or {}
    return (
        requester.username,
        requester.uid,
        tuple(requester.groups),
        tuple(sorted((key, tuple(values)) for key, values in extra.items())),
        access,
    )


def _order(access: Access) -> tuple[str, ...]:
    subject = "" if access.subject is None else access.subject.username
    return access.verb, access.group, access.resource, access.namespace, access.name, subject


def _words(access: Access) -> str:
    place = f"{access.namespace}/" if access.namespace else ""
    return f"{access.verb} {access.resource} {place}{access.name}"
