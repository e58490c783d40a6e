"""What becomes of requests when the session, the connection or the vCenter itself goes."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections.abc import Awaitable, Callable

import pytest

from laneway.vsphere.port import (
    Clone,
    LoginRefusedError,
    NotFoundInVCenterError,
    Place,
    UnreachableVCenterError,
    VCenterError,
)
from laneway.vsphere.vcenter import Connection
from laneway.vsphere.vcenter import client as module
from support.vcenter import Simulator

LogIn = Callable[..., Awaitable[Connection]]

CLONE = Clone(
    name="node-1",
    template="DC0_C0_RP0_VM0",
    place=Place(datacenter="DC0", cluster="DC0_C0"),
    instance_uuid="11111111-2222-3333-4444-555555555555",
    cpus=2,
    cores_per_socket=1,
    memory_mib=2048,
)


async def forget_sessions(connection: Connection) -> None:
    """As a vCenter does after half an hour."""
    session = connection._session
    await connection._workers.run(
        lambda stub: type(session.content.sessionManager)("SessionManager", stub).Logout(),
        limit=10.0,
    )


async def test_threads_share_one_session(proxy, log_into: LogIn) -> None:
    connection = await log_into(proxy)
    await asyncio.gather(*(connection.look([f"vm-{at}"]) for at in range(40)))
    assert proxy.asked.count("Login") == 1


async def test_a_lost_session_is_made_again_once(proxy, log_into: LogIn) -> None:
    connection = await log_into(proxy)
    await forget_sessions(connection)
    before = proxy.asked.count("Login")
    found = await asyncio.gather(*(connection.find(CLONE.instance_uuid) for _ in range(8)))
    assert found == [None] * 8
    assert proxy.asked.count("Login") == before + 1


async def test_an_order_is_not_repeated(proxy, log_into: LogIn) -> None:
    connection = await log_into(proxy)
    proxy.spoil = lambda method, answer: None if method == "CloneVM_Task" else answer
    with pytest.raises(UnreachableVCenterError):
        await connection.clone(CLONE)
    assert proxy.asked.count("CloneVM_Task") == 1
    proxy.spoil = lambda _, answer: answer
    assert (found := await connection.find(CLONE.instance_uuid)) is not None
    assert found == await connection.named("node-1", CLONE.place)


async def test_a_connection_closed_while_idle_affects_no_others(proxy, log_into: LogIn) -> None:
    connection = await log_into(proxy)
    closing = set()

    def close(method: str, answer: bytes) -> bytes | None:
        if method in closing:
            return answer
        closing.add(method)
        return None

    proxy.spoil = close  # each method's first answer is lost
    assert await connection.find(CLONE.instance_uuid) is None


async def test_a_hung_request_ends_in_time_and_frees_its_thread(
    proxy, log_into: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await log_into(proxy)
    on = threading.Event()
    proxy.before = lambda method: method == "FindByUuid" and on.wait(60) and None
    monkeypatch.setattr(module, "LIMIT_S", 0.3)
    hung = await asyncio.gather(
        *(connection.find(CLONE.instance_uuid) for _ in range(3 * module.THREADS)),
        return_exceptions=True,
    )
    assert all(isinstance(each, UnreachableVCenterError) for each in hung)
    monkeypatch.setattr(module, "LIMIT_S", 30.0)
    assert (await connection.about()).version
    on.set()


async def test_a_cancelled_request_frees_its_thread(proxy, log_into: LogIn) -> None:
    connection = await log_into(proxy)
    on = threading.Event()
    asked = threading.Semaphore(0)

    def hang(method: str) -> None:
        if method == "FindByUuid":
            asked.release()
            on.wait(60)

    proxy.before = hang
    hanging = [
        asyncio.create_task(connection.find(CLONE.instance_uuid)) for _ in range(module.THREADS)
    ]
    for _ in hanging:
        await asyncio.to_thread(asked.acquire)
    for each in hanging:
        each.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    assert (await asyncio.wait_for(connection.about(), 20)).version
    on.set()


async def test_a_vcenter_that_has_gone(
    start_vcenter: Callable[..., Simulator], log_into: LogIn
) -> None:
    gone = start_vcenter()
    connection = await log_into(gone)
    news = connection.follow()
    assert (await anext(news)).complete
    gone.stop()
    with pytest.raises(UnreachableVCenterError):
        await connection.look(["vm-1"])
    with pytest.raises(UnreachableVCenterError):
        await anext(news)


async def test_nothing_is_asked_of_a_closed_connection(vcenter: Simulator, log_into: LogIn) -> None:
    connection = await log_into(vcenter)
    await connection.close()
    with pytest.raises(UnreachableVCenterError):
        await connection.about()


async def test_who_still_asks_while_it_is_closed_opens_no_other_session(
    vcenter: Simulator, log_into: LogIn
) -> None:
    connection = await log_into(vcenter)
    asked = asyncio.Event()

    async def ask_on() -> None:
        while True:
            await connection.find(CLONE.instance_uuid)
            asked.set()

    asking = [asyncio.create_task(ask_on()) for _ in range(10 * module.THREADS)]
    await asked.wait()
    await connection.close()
    for ended in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(ended, UnreachableVCenterError)
    assert vcenter.requests("Logout") == vcenter.requests("Login") == 1


async def test_it_logs_out_though_nothing_else_is_answered(proxy, log_into: LogIn) -> None:
    connection = await log_into(proxy)
    on = threading.Event()
    asked = threading.Semaphore(0)

    def hang(method: str) -> None:
        if method == "FindByUuid":
            asked.release()
            on.wait(60)

    proxy.before = hang
    hanging = [
        asyncio.create_task(connection.find(CLONE.instance_uuid)) for _ in range(2 * module.THREADS)
    ]
    for _ in range(module.THREADS):
        await asyncio.to_thread(asked.acquire)
    await connection.close()
    assert proxy.asked.count("Logout") == 1
    on.set()
    ended = await asyncio.gather(*hanging, return_exceptions=True)
    assert all(isinstance(each, UnreachableVCenterError) for each in ended)
    assert proxy.asked.count("Login") == 1


def huge(answer: bytes, dice: random.Random) -> bytes:
    return answer.replace(b"</", b" " * 5_000_000 + b"</", 1)


def cut(answer: bytes, dice: random.Random) -> bytes:
    return answer[: dice.randrange(len(answer))]


def flipped(answer: bytes, dice: random.Random) -> bytes:
    spoiled = bytearray(answer)
    for _ in range(dice.randrange(1, 20)):
        spoiled[dice.randrange(len(spoiled))] = dice.randrange(256)
    return bytes(spoiled)


def renamed(answer: bytes, dice: random.Random) -> bytes:
    names = re.findall(rb"<(\w+)", answer)
    one, other = dice.choice(names), dice.choice(names)
    return re.sub(rb"(</?)%s\b" % one, rb"\1" + other, answer)


def retyped(answer: bytes, dice: random.Random) -> bytes:
    kinds = [b"xsd:string", b"xsd:int", b"VirtualMachine", b"ArrayOfString", b"NoSuchType", b"x:y"]
    types = re.findall(rb'type="[^"]*"', answer)
    if not types:
        return answer
    return answer.replace(dice.choice(types), b'type="%s"' % dice.choice(kinds))


def emptied(answer: bytes, dice: random.Random) -> bytes:
    texts = re.findall(rb">([^<>]+)<", answer)
    new = dice.choice([b"", b"-1", b"99999999999999999999", b"x", b"&#xffff;", b"None"])
    return answer.replace(b">%s<" % dice.choice(texts), b">%s<" % new) if texts else answer


def nested(answer: bytes, dice: random.Random) -> bytes:
    return answer.replace(b"<returnval", b"<returnval>" * 20_000 + b"<returnval", 1)


def bomb(answer: bytes, dice: random.Random) -> bytes:
    entities = b"".join(
        b'<!ENTITY a%d "%s">' % (at, b"&a%d;" % (at - 1) * 20) for at in range(1, 12)
    )
    return b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">' + entities + b"]><x>&a11;</x>"


def other(answer: bytes, dice: random.Random) -> bytes:
    return dice.choice([b"", b"null", b"<html/>", b"{}", b"\x00" * 100, b"\xff\xfe", b"<a" * 9999])


SPOILS = {cut: 4, flipped: 6, renamed: 6, retyped: 6, emptied: 6, nested: 1, bomb: 1, other: 4}
"""How often each is tried with each request."""


@pytest.mark.parametrize("spoil", SPOILS)
async def test_nonsense_is_an_error_of_the_port(proxy, log_into: LogIn, spoil) -> None:
    """Whatever it answers: either that did no harm, or one of the errors that callers know."""
    connection = await log_into(proxy)
    found = await connection.named("DC0_C0_RP0_VM0", CLONE.place)
    assert found is not None
    dice = random.Random(spoil.__name__)

    async def first() -> object:
        news = connection.follow()
        try:
            return await anext(news)
        finally:
            await news.aclose()

    asks = (
        connection.about,
        lambda: connection.look([found.ref]),
        lambda: connection.named("DC0_C0_RP0_VM0", CLONE.place),
        lambda: connection.at_work("DC0_C0_RP0_VM0", CLONE.place),
        first,
    )
    for ask in asks:
        for _ in range(SPOILS[spoil]):
            connection._places.forget()
            proxy.spoil = lambda method, answer: (
                spoil(answer, dice) if method not in ("Login", "Logout") else answer
            )
            try:
                await ask()
            except LoginRefusedError:
                raise
            except VCenterError as error:
                assert "\n" not in str(error)  # noqa: PT017 - none at all is as good
                assert len(str(error)) < 1000  # noqa: PT017 - for a condition
    proxy.spoil = lambda _, answer: answer
    assert (await connection.look([found.ref]))[found.ref] == found


async def test_an_answer_without_end_is_broken_off(
    proxy, log_into: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await log_into(proxy)
    monkeypatch.setattr("laneway.vsphere.vcenter.http._BoundedResponse._left", 1 << 20)
    proxy.spoil = lambda method, answer: huge(answer, random.Random(1))
    with pytest.raises(UnreachableVCenterError, match="MiB"):
        await connection.about()


async def test_what_is_not_there_is_said(log_into: LogIn, vcenter: Simulator) -> None:
    connection = await log_into(vcenter)
    with pytest.raises(NotFoundInVCenterError, match="task-4711"):
        await connection.finished("task-4711")
    assert await connection.task("task-4711") is None
    with pytest.raises(NotFoundInVCenterError, match="vm-4711"):
        await connection.power_on("vm-4711")
    assert await connection.look(["vm-4711"]) == {}
