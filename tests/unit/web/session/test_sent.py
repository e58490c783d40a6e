"""Forms with files: what a page takes, in memory, and nothing else."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import FormData, web
from aiohttp.test_utils import TestClient, TestServer

from laneway.web.session.sent import Uploads, receive

MOST = 100_000


async def handler(request: web.Request) -> web.Response:
    sent = await receive(request, MOST if request.path == "/takes" else 0)
    again = await receive(request)  # as the handler behind the guard does
    assert again is sent
    files = {
        field: [file.name, None if file.content is None else len(file.content)]
        for field, file in sent.files.items()
    }
    return web.json_response({"fields": sent.fields, "files": files})


@pytest.fixture
async def browser() -> AsyncIterator[TestClient[Any, Any]]:
    app = web.Application(client_max_size=10_000)
    app.router.add_post("/{path:.*}", handler)
    async with TestClient(TestServer(app)) as found:
        yield found


def form(size: int) -> FormData:
    found = FormData()
    found.add_field("csrf", "token")
    found.add_field("file", io.BytesIO(b"x" * size), filename="fleet.json")
    return found


async def test_a_file_is_read_with_the_other_fields(browser: TestClient[Any, Any]) -> None:
    answer = await browser.post("/takes", data=form(MOST))
    assert await answer.json() == {
        "fields": {"csrf": ["token"]},
        "files": {"file": ["fleet.json", MOST]},
    }


async def test_one_that_is_too_large_is_told_and_not_kept(browser: TestClient[Any, Any]) -> None:
    answer = await browser.post("/takes", data=form(MOST + 1))
    assert (await answer.json())["files"] == {"file": ["fleet.json", None]}


async def test_what_is_far_too_large_is_cut_off(browser: TestClient[Any, Any]) -> None:
    answer = await browser.post("/takes", data=form(20 * MOST))
    assert answer.status == 413


async def test_a_page_that_takes_no_file_has_the_limit_of_forms(
    browser: TestClient[Any, Any],
) -> None:
    assert (await browser.post("/other", data=form(20_000))).status == 413
    assert (await browser.post("/other", data={"name": "typed"})).status == 200


async def test_a_field_is_no_way_around_the_limit_of_a_file(browser: TestClient[Any, Any]) -> None:
    data = form(1)
    data.add_field("text", "x" * MOST)
    assert (await browser.post("/takes", data=data)).status == 413


async def test_no_more_files_than_memory_has_room_for_are_taken_at_a_time() -> None:
    uploads, held, end = Uploads(most=2), asyncio.Semaphore(0), asyncio.Event()

    async def busy(request: web.Request) -> web.Response:
        with uploads.room(request, MOST):
            await receive(request, MOST)
            held.release()
            await end.wait()
        return web.Response()

    app = web.Application(client_max_size=10_000)
    app.router.add_post("/", busy)
    async with TestClient(TestServer(app)) as browser, asyncio.TaskGroup() as tasks:
        sent = [tasks.create_task(_post(browser, form(1))) for _ in range(2)]
        for _ in sent:
            await held.acquire()
        assert await _post(browser, form(1)) == 503
        typed = tasks.create_task(_post(browser, FormData({"name": "typed"})))
        await held.acquire()
        end.set()
        assert [await one for one in (*sent, typed)] == [200, 200, 200]
        assert await _post(browser, form(1)) == 200


async def _post(browser: TestClient[Any, Any], data: FormData) -> int:
    async with browser.post("/", data=data) as answer:
        return answer.status


async def test_what_no_browser_sends_is_refused(browser: TestClient[Any, Any]) -> None:
    headers = {"Content-Type": "multipart/form-data"}
    assert (await browser.post("/takes", data=b"x", headers=headers)).status == 400
