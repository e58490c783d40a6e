"""The webhook over HTTP: two paths, one question in each request.

An answer of status 200 is a verdict. What is no verdict (the question is none, the cluster is not
known yet) has another status, so that the failure policy in the webhook's configuration decides
what then happens; its body is a well-formed answer nevertheless. A defect is no reason to break the
connection or to answer 500: `judging` has an answer for that too.

A server that is about to stop asks its clients to connect anew for their next question, which takes
them to another one before this one is gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus

from aiohttp import web

from laneway.admission import review
from laneway.admission.judging import OTHER, Judged, Judging
from laneway.admission.metrics import AdmissionMetrics, Outcome
from laneway.admission.review import Answer, MalformedError, Question
from laneway.admission.wording import Denial

log = logging.getLogger(__name__)

MUTATION = "/v1/webhook/mutation"
VALIDATION = "/v1/webhook/validation"

BODY_LIMIT = 16 << 20
"""Bytes: two objects of 3 MB, more than Kubernetes stores, in JSON that escapes much of them."""
READ_SECONDS = 10.0
"""To send a question; the API server would not wait longer for the answer."""

Judge = Callable[[Question], Awaitable[Judged]]
NotReady = Callable[[], Iterable[str]]


def application(
    judging: Judging,
    metrics: AdmissionMetrics,
    not_ready: NotReady,
    stopping: asyncio.Event,
) -> web.Application:
    """The paths. `not_ready` names what is missing for a verdict."""

    def serve(webhook: str, judge: Judge) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            response = await _response(request, webhook, judge)
            if stopping.is_set():
                response.force_close()
            return response

        return handler

    async def _response(request: web.Request, webhook: str, judge: Judge) -> web.Response:
        if "Content-Encoding" in request.headers:
            text = "compressed bodies are not read\n"
            return web.Response(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text=text)
        if request.content_type != "application/json":
            text = f"expected application/json, not {request.content_type!r}\n"
            return web.Response(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text=text)
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=HTTPStatus.REQUEST_TIMEOUT, text="the body is too slow\n")
        except (web.RequestPayloadError, OSError) as error:
            log.info("a request broke off: %s", error)
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="the body broke off\n")
        began = time.perf_counter()
        version, uid, status, judged = await _judged(body, judge)
        answer = review.write(version, uid, judged.answer)
        seconds = time.perf_counter() - began
        metrics.reviewed(webhook, judged.kind, judged.operation, judged.outcome, seconds)
        return web.Response(status=status, body=answer, content_type="application/json")

    async def _judged(body: bytes, judge: Judge) -> tuple[str, str, HTTPStatus, Judged]:
        try:
            question = review.read(body)
        except MalformedError as error:
            log.warning("no review can be made of a request: %s", error)
            judged = _no_verdict(
                HTTPStatus.BAD_REQUEST, "BadRequest", str(error), Outcome.MALFORMED
            )
            return error.version, error.uid, HTTPStatus.BAD_REQUEST, judged
        if missing := sorted(not_ready()):
            words = f"Laneway's webhook does not know the cluster yet: {', '.join(missing)}"
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


def _no_verdict(code: HTTPStatus, reason: str, words: str, outcome: Outcome) -> Judged:
    return Judged(Answer(Denial(code, reason, words)), OTHER, OTHER, outcome)
