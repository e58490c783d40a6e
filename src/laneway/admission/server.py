"""The webhook over HTTP: two paths, one question in each request.

An answer of status 200 is a verdict. What is no verdict (the question is none, the cluster is not
known yet) has another status, so that the failure policy in the webhook's configuration decides
what then happens; its body is a well-formed answer nevertheless. A defect is no reason to break the
connection or to answer 500: `judging` has an answer for that too.

A server that is about to stop asks its clients to connect again for their next question, which
takes them to another one before this one is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from http import HTTPStatus
from weakref import WeakValueDictionary

from aiohttp import web

from kubebasics.serving.connections import peer_of
from laneway.admission import review
from laneway.admission.fair_queue import FairQueue
from laneway.admission.judging import OTHER, Judged, Judging
from laneway.admission.metrics import AdmissionMetrics, Outcome
from laneway.admission.review import Answer, MalformedError, Question
from laneway.admission.wording import Denial

log = logging.getLogger(__name__)

MUTATION = "/v1/webhook/mutation"
VALIDATION = "/v1/webhook/validation"

BODY_LIMIT = (3 << 20) + (3 << 19) + (1 << 16)
"""Bytes: an object as large as a request may be (3 MiB), the one before as large as etcd stores by
default (1.5 MiB), and what is said about them."""
LARGE = 1 << 18
"""From so many bytes on, bodies are read a few at a time: what is read is kept in memory."""
LARGE_AT_ONCE = 16
LARGE_OF_A_PEER = 2
READ_SECONDS = 10.0
"""To send a question; the API server would not wait longer for the answer."""

Judge = Callable[[Question], Awaitable[Judged]]
NotReady = Callable[[], Iterable[str]]


def application(
    judging: Judging,
    metrics: AdmissionMetrics,
    not_ready: NotReady,
    stopping: asyncio.Event,
    fair_queue: FairQueue,
) -> web.Application:
    """The paths. `not_ready` names what is missing for a verdict; `fair_queue` is `judging`'s."""
    bodies = _Bodies()

    def serve(webhook: str, judge: Judge) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            response = await _response(request, webhook, judge)
            if stopping.is_set():
                response.force_close()
            return response

        return handler

    async def _response(request: web.Request, webhook: str, judge: Judge) -> web.Response:
        peer = peer_of(request.remote or "")
        try:
            body = await _read(request, bodies, peer)
        except _Refused as refused:
            return web.Response(status=refused.status, text=f"{refused}\n")
        began = time.perf_counter()
        version, uid, status, judged = await _judged(body, peer, judge)
        answer = review.write(version, uid, judged.answer)
        seconds = time.perf_counter() - began
        metrics.reviewed(webhook, judged.kind, judged.operation, judged.outcome, seconds)
        return web.Response(status=status, body=answer, content_type="application/json")

    async def _judged(body: bytes, peer: str, judge: Judge) -> tuple[str, str, HTTPStatus, Judged]:
        try:
            async with fair_queue.turn(peer):
                question = review.read(body, peer)
        except MalformedError as error:
            log.warning("cannot read a request: %s", error)
            judged = _no_verdict(
                HTTPStatus.BAD_REQUEST, "BadRequest", str(error), Outcome.MALFORMED
            )
            return error.version, error.uid, HTTPStatus.BAD_REQUEST, judged
        if missing := sorted(not_ready()):
            words = f"Laneway's webhook has not read the cluster yet: {', '.join(missing)}"
            judged = _no_verdict(
                HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", words, Outcome.NOT_READY
            )
            return question.version, question.uid, HTTPStatus.SERVICE_UNAVAILABLE, judged
        return question.version, question.uid, HTTPStatus.OK, await judge(question)

    app = web.Application(client_max_size=BODY_LIMIT)
    app.add_routes(
        [
            web.post(MUTATION, serve("mutation", judging.mutate)),
            web.post(VALIDATION, serve("validation", judging.validate)),
        ]
    )
    return app


class _Refused(Exception):  # noqa: N818 - named as what happened
    """A body is not read; the text says why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


async def _read(request: web.Request, bodies: _Bodies, peer: str) -> bytes:
    """The body of a request. Raises _Refused."""
    if "Content-Encoding" in request.headers:
        raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not read")
    if request.content_type != "application/json":
        why = f"expected application/json, not {request.content_type!r}"
        raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)
    length = request.content_length
    if (length or 0) > BODY_LIMIT:
        why = f"the body is longer than {BODY_LIMIT} bytes"
        raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    try:
        async with bodies.room(peer, length), asyncio.timeout(READ_SECONDS):
            return await request.read()
    except TimeoutError:
        raise _Refused(HTTPStatus.REQUEST_TIMEOUT, "the body is too slow") from None
    except (web.RequestPayloadError, OSError) as error:
        log.info("a request was interrupted: %s", error)
        raise _Refused(HTTPStatus.BAD_REQUEST, "the body was interrupted") from None


class _Bodies:
    """Room for large bodies, of which few are in memory at a time."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(LARGE_AT_ONCE)
        self._peers: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def room(self, peer: str, length: int | None) -> AsyncIterator[None]:
        """Wait for room for a body of so many bytes; None: the number is not known."""
        if length is not None and length < LARGE:
            yield
            return
        own = self._peers.get(peer) or asyncio.Semaphore(LARGE_OF_A_PEER)
        self._peers[peer] = own
        async with own, self._all:
            yield


def _no_verdict(code: HTTPStatus, reason: str, words: str, outcome: Outcome) -> Judged:
    return Judged(Answer(Denial(code, reason, words)), OTHER, OTHER, outcome)
