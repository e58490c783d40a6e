"""Programs run in a container, by a server that speaks the protocol well and badly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import WSCloseCode, web
from aiohttp.test_utils import TestServer

from laneway.core.programs import Completed
from laneway.kube.auth import Credentials, Fetched, Identity
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig, Pem, User
from laneway.kube.errors import (
    ApiError,
    CutOffError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UndecodableError,
    UnreachableError,
)
from laneway.kube.exec import Target, execute
from support.kubelet import SUCCESS, V4, V5, Behaviour, exited, not_found, sends, upgrade

TARGET = Target("team", "driver-abc", "main")


@dataclass
class Kubelet:
    """A server that upgrades and then behaves as told."""

    behave: Behaviour
    protocols: tuple[str, ...] = (V4,)
    refusal: Callable[[], web.Response] | None = None
    seen: list[web.Request] = field(default_factory=list)
    config: ClusterConfig = field(default_factory=lambda: ClusterConfig(Cluster("")))

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if self.refusal is not None:
            return self.refusal()
        return await upgrade(request, self.behave, self.protocols)

    async def run(self, *argv: str, seconds: float = 20, **more: Any) -> Completed:
        async with Client(self.config, **more) as client:
            return await execute(client, TARGET, argv, seconds)


@contextlib.asynccontextmanager
async def serving(
    kubelet: Kubelet, context: ssl.SSLContext | None = None, ca: bytes = b""
) -> AsyncIterator[Kubelet]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", kubelet.serve)
    server = TestServer(app, host="127.0.0.1", scheme="https" if context else "http")
    await server.start_server(ssl=context) if context else await server.start_server()
    cluster = Cluster(str(server.make_url("")), Pem(data=ca) if ca else None)
    kubelet.config = ClusterConfig(cluster, User(token="abc"))
    try:
        yield kubelet
    finally:
        await server.close()


@pytest.mark.parametrize("protocols", [(V4,), (V5,), (V4, V5), ("channel.k8s.io", V4)])
async def test_a_program_is_run_by_its_arguments(protocols: tuple[str, ...]) -> None:
    behave = sends((1, b""), (1, b"out "), (2, b"bad"), (1, b"more"), (3, SUCCESS))
    async with serving(Kubelet(behave, protocols)) as kubelet:
        ended = await kubelet.run("/usr/bin/prog", "-i", "0000:08:00.0", "a b&c=d+e%/ü")

    assert ended == (0, "out more\nbad")
    (request,) = kubelet.seen
    assert request.path == "/api/v1/namespaces/team/pods/driver-abc/exec"
    assert list(request.query.items()) == [
        ("container", "main"),
        ("stdout", "true"),
        ("stderr", "true"),
        ("command", "/usr/bin/prog"),
        ("command", "-i"),
        ("command", "0000:08:00.0"),
        ("command", "a b&c=d+e%/ü"),
    ]
    assert request.headers["Authorization"] == "Bearer abc"


async def test_the_newest_protocol_that_both_speak_is_used() -> None:
    used: list[str | None] = []

    async def behave(socket: web.WebSocketResponse) -> None:
        used.append(socket.ws_protocol)
        await sends((3, SUCCESS))(socket)

    async with serving(Kubelet(behave, (V4, V5))) as kubelet:
        await kubelet.run("prog")
        kubelet.protocols = (V4,)
        await kubelet.run("prog")

    assert used == [V5, V4]


async def test_it_works_over_tls(authority: Any, server_context: ssl.SSLContext) -> None:
    behave = sends((1, b"out"), (3, SUCCESS))
    async with serving(Kubelet(behave), server_context, authority.certificate) as kubelet:
        assert await kubelet.run("prog") == (0, "out")


@pytest.mark.parametrize("code", [1, 9, 137, 255])
async def test_the_exit_status_comes_from_the_status(code: int) -> None:
    async with serving(Kubelet(sends((1, b"said"), (3, exited(code))))) as kubelet:
        assert await kubelet.run("prog") == (code, "said")


async def test_a_status_may_come_in_pieces() -> None:
    text = json.dumps(exited(19)).encode()
    behave = sends((3, b""), *((3, text[at : at + 7]) for at in range(0, len(text), 7)))
    async with serving(Kubelet(behave)) as kubelet:
        assert (await kubelet.run("prog")).status == 19


async def test_nothing_is_waited_for_after_the_status() -> None:
    async def behave(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\3" + json.dumps(SUCCESS).encode())
        await socket.receive()

    async with serving(Kubelet(behave)) as kubelet:
        assert (await kubelet.run("prog")).status == 0


async def test_a_program_may_run_for_longer_than_a_request() -> None:
    async def behave(socket: web.WebSocketResponse) -> None:
        await asyncio.sleep(0.6)  # twice what a request may take
        await sends((3, SUCCESS))(socket)

    async with serving(Kubelet(behave)) as kubelet:
        assert (await kubelet.run("prog", request_seconds=0.3)).status == 0


async def test_output_is_bounded_and_says_so() -> None:
    async def behave(socket: web.WebSocketResponse) -> None:
        for _ in range(300):
            await socket.send_bytes(b"\1" + b"x" * 32 * 1024)
        await sends((1, b"\nthe end"), (3, exited(1)))(socket)

    async with serving(Kubelet(behave)) as kubelet:
        status, output = await kubelet.run("prog")

    first, rest = output.split("\n", 1)
    assert status == 1
    assert first == f"[the first {300 * 32 * 1024 + 8 - 64 * 1024} bytes are left out]"
    assert rest.endswith("x\nthe end")
    assert len(rest) == 64 * 1024


async def test_output_cannot_write_to_a_terminal() -> None:
    async with serving(Kubelet(sends((1, b"\x1b[31mred\x07\n"), (3, SUCCESS)))) as kubelet:
        assert (await kubelet.run("prog")).output == "red\n"


async def test_a_program_that_could_not_be_started_is_the_servers_error() -> None:
    async with serving(Kubelet(sends((3, not_found("prog"))))) as kubelet:
        with pytest.raises(ApiError, match=r'exec: "prog": executable file not found in \$PATH'):
            await kubelet.run("prog")


@pytest.mark.parametrize(
    ("code", "error"), [(404, NotFoundError), (403, ForbiddenError), (400, ApiError)]
)
async def test_a_refused_upgrade_tells_the_servers_reason(code: int, error: type[ApiError]) -> None:
    body = {"kind": "Status", "status": "Failure", "code": code, "message": "because"}
    kubelet = Kubelet(sends(), refusal=lambda: web.json_response(body, status=code))
    async with serving(kubelet):
        with pytest.raises(error, match="because"):
            await kubelet.run("prog")
    assert len(kubelet.seen) == 1, "nothing is started twice"


async def test_an_answer_that_is_no_upgrade_is_an_error() -> None:
    kubelet = Kubelet(sends(), refusal=lambda: web.Response(text="hello from a proxy"))
    async with serving(kubelet):
        with pytest.raises(ApiError, match="hello from a proxy"):
            await kubelet.run("prog")


async def test_credentials_go_nowhere_else() -> None:
    elsewhere = Kubelet(sends((3, SUCCESS)))
    async with serving(elsewhere), serving(Kubelet(sends())) as kubelet:
        there = {"Location": elsewhere.config.cluster.server + "/x"}
        kubelet.refusal = lambda: web.Response(status=307, headers=there)
        with pytest.raises(UnreachableError, match="redirects"):
            await kubelet.run("prog")
    assert not elsewhere.seen


async def test_renewed_credentials_are_tried_once() -> None:
    issued: list[str] = []

    async def fetch() -> Fetched:
        issued.append(f"Bearer {len(issued)}")
        return Fetched(Identity(issued[-1]))

    body = {"kind": "Status", "code": 401, "message": "who are you"}
    kubelet = Kubelet(sends(), refusal=lambda: web.json_response(body, status=401))
    async with serving(kubelet):
        with pytest.raises(UnauthorizedError):
            await kubelet.run("prog", credentials=Credentials(fetch))
    shown = [request.headers["Authorization"] for request in kubelet.seen]
    assert shown == ["Bearer 0", "Bearer 1"]


async def test_a_server_of_another_protocol_is_recognised() -> None:
    async with serving(Kubelet(sends((3, SUCCESS)), ("v9.other",))) as kubelet:
        with pytest.raises(UndecodableError, match="speaks neither v5"):
            await kubelet.run("prog")


async def _hang_up(socket: web.WebSocketResponse) -> None:
    """End the connection without a goodbye, in the middle of the output."""
    await socket.send_bytes(b"\1half")
    assert socket._req is not None
    assert socket._req.transport is not None
    socket._req.transport.abort()


async def _goodbye(socket: web.WebSocketResponse) -> None:
    await socket.close(code=WSCloseCode.GOING_AWAY, message=b"kubelet\x1b[1m stops")


async def _text(socket: web.WebSocketResponse) -> None:
    await socket.send_str("MQ==")


async def _garbage(socket: web.WebSocketResponse) -> None:
    """Bytes that are no websocket frame: reserved bits, unknown opcode."""
    assert socket._req is not None
    assert socket._req.transport is not None
    socket._req.transport.write(b"\xff\xff\xff\xff garbage")  # type: ignore[attr-defined]
    await socket.receive()


async def _giant(socket: web.WebSocketResponse) -> None:
    await socket.send_bytes(b"\1" + bytes(5 * 1024 * 1024))
    await socket.receive()


@pytest.mark.parametrize(
    ("behave", "error", "text"),
    [
        (sends(), CutOffError, "closed before the program's end was told .code 1000"),
        (sends((1, b"out")), CutOffError, "closed before the program's end was told"),
        (_goodbye, CutOffError, r"code 1001, kubelet stops"),
        (_hang_up, CutOffError, "closed before the program's end was told .code 1006"),
        (_garbage, CutOffError, "failed before the program's end was told"),
        (_giant, CutOffError, "failed before the program's end was told"),
        (_text, UndecodableError, "no channel"),
        (sends((7, b"x")), UndecodableError, "channel 7"),
        (sends((3, b"command terminated")), UndecodableError, "no Status: command terminated"),
        (sends((3, b'{"status": "Succ')), UndecodableError, "no Status"),
        (sends((3, b"[1]")), UndecodableError, "no Status"),
        (sends((3, b"\xff\xfe")), UndecodableError, "no Status"),
        (sends(*[(3, b"x" * 30_000)] * 3), UndecodableError, "no end of a Status"),
        (sends((3, exited("many"))), UndecodableError, "exit status is missing"),
        (sends((3, exited("9" * 5000))), UndecodableError, "exit status is missing"),
        (sends((3, exited("-1"))), UndecodableError, "exit status is missing"),
        (
            sends((3, {"status": "Failure", "reason": "NonZeroExitCode", "details": None})),
            UndecodableError,
            "exit status is missing",
        ),
        (sends((3, {"status": "Failure"})), ApiError, "no message"),
    ],
)
async def test_a_server_that_misbehaves_is_an_error_in_one_line(
    behave: Behaviour, error: type[KubeError], text: str
) -> None:
    async with serving(Kubelet(behave)) as kubelet:
        with pytest.raises(error, match=text) as caught:
            await kubelet.run("prog")

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


async def test_an_empty_message_is_an_error() -> None:
    async def behave(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"")

    async with serving(Kubelet(behave)) as kubelet:
        with pytest.raises(UndecodableError, match="no channel"):
            await kubelet.run("prog")


async def test_a_server_that_falls_silent_meets_the_limit() -> None:
    async def behave(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\1begun")
        await asyncio.Event().wait()

    async with serving(Kubelet(behave)) as kubelet:
        with pytest.raises(TimeoutError):
            await kubelet.run("prog", seconds=0.3)


async def test_an_upgrade_that_never_comes_meets_the_limit(plain: Any) -> None:
    plain.replies.append(plain.silence)
    async with plain.client() as client:
        with pytest.raises(TimeoutError):
            await execute(client, TARGET, ["prog"], 0.3)


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with serving(Kubelet(sends())) as kubelet:
        pass
    with pytest.raises(UnreachableError, match=r"no websocket from 127.0.0.1:.*refused"):
        await kubelet.run("prog")
