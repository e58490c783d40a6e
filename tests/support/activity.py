"""What the events of a cluster say about writes to hardware."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from laneway.api import decode
from laneway.kube.client import Client
from laneway.views.activity import EVENTS, Event, Row, row_of
from support.control_plane import SECONDS


async def writes(client: Client, enough: Callable[[list[Row]], bool]) -> list[Row]:
    """The writes to hardware, the newest first, once there are enough."""
    async with asyncio.timeout(SECONDS):
        while True:
            pages = [page async for page in client.list(EVENTS)]
            rows = [row_of(decode(Event, raw)) for page in pages for raw in page.items]
            found = [row for row in rows if row.change is not None]
            found.sort(key=lambda row: (row.moment, row.key), reverse=True)
            if enough(found):
                return found
            await asyncio.sleep(0.02)
