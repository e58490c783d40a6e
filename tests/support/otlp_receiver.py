"""A receiver of OTLP over HTTP: decodes what comes, and keeps it for a test to wait for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

SECONDS = 60.0


class Received(NamedTuple):
    """A span or a log record; ids are hexadecimal digits."""

    service: str
    name: str
    trace: str = ""
    id: str = ""
    parent: str = ""
    attributes: Mapping[str, str] = MappingProxyType({})
    error: str = ""
    began: int = 0
    ended: int = 0
    links: tuple[tuple[str, str], ...] = ()
    body: str = ""


class Receiver:
    """What came. While `status` is not 200, nothing is accepted."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Received] = []
        self.records: list[Received] = []
        self.status = 200
        self.refused = 0
        self._changed = asyncio.Condition()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until what came is as a test expects."""
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(holds)

    async def traces(self, request: web.Request) -> web.Response:
        """`/v1/traces`."""
        if self.status == 200:
            sent = ExportTraceServiceRequest.FromString(await request.read())
            for resource in sent.resource_spans:
                service = _texts(resource.resource.attributes)["service.name"]
                self.spans += [
                    Received(
                        service,
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        _texts(span.attributes),
                        span.status.message if span.status.code == 2 else "",
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        tuple((one.trace_id.hex(), one.span_id.hex()) for one in span.links),
                    )
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
        return await self._answer()

    async def logs(self, request: web.Request) -> web.Response:
        """`/v1/logs`."""
        if self.status == 200:
            sent = ExportLogsServiceRequest.FromString(await request.read())
            for resource in sent.resource_logs:
                service = _texts(resource.resource.attributes)["service.name"]
                self.records += [
                    Received(
                        service,
                        one.event_name,
                        attributes=_texts(one.attributes),
                        body=one.body.string_value,
                    )
                    for scope in resource.scope_logs
                    for one in scope.log_records
                ]
        return await self._answer()

    async def _answer(self) -> web.Response:
        async with self._changed:
            self.refused += self.status != 200
            self._changed.notify_all()
        return web.Response(status=self.status, content_type="application/x-protobuf")


def _texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {
        one.key: one.value.string_value or str(one.value.int_value or one.value.bool_value)
        for one in attributes
    }


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver that listens until the block ends."""
    receiver = Receiver()
    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/v1/traces", receiver.traces), web.post("/v1/logs", receiver.logs)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    receiver.url = f"http://{host}:{port}"
    try:
        yield receiver
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def in_thread(sending: Any) -> AsyncIterator[Any]:
    """Leave the block in a thread: what is left is sent then, to a receiver of this loop."""
    told = sending.__enter__()
    try:
        yield told
    finally:
        await asyncio.to_thread(sending.__exit__, None, None, None)
