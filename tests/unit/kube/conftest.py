"""An API server that does what a script says, at the level of bytes, with and without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig, Pem, User
from laneway.kube.informer import Informer
from laneway.kube.resource import Resource


class Thing(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    size: int = 0


THINGS = Resource("example.org", "v1", "things", True, Thing)


@dataclass
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


def thing(name: str, version: int, *, size: int = 0, namespace: str = "", uid: str = "") -> dict:
    metadata = {"name": name, "resourceVersion": str(version), "uid": uid or f"uid-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata, "size": size}


def change(kind: str, obj: dict) -> dict:
    return {"type": kind, "object": obj}


def failure(code: int, reason: str = "", **more: Any) -> dict:
    return {"kind": "Status", "code": code, "reason": reason, "message": "as scripted"} | more


async def _cut(writer: asyncio.StreamWriter) -> None:
    """Reset the connection: no close_notify, no FIN."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def body(code: int, content: Any, **headers: str) -> Reply:
    async def reply(writer: asyncio.StreamWriter) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        lines = [f"HTTP/1.1 {code} Scripted", f"Content-Length: {len(data)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        await writer.drain()

    return reply


def items(version: int, *objects: dict, more: str = "") -> Reply:
    return body(
        200,
        {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(objects)},
    )


def stream(*events: dict | bytes, end: str = "close", sent: asyncio.Event | None = None) -> Reply:
    """A watch answer; `end` is close, reset, cut (reset in mid-line) or silence."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in events:
            line = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
            for at in range(0, len(line), 60_000):
                piece = line[at : at + 60_000]
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
        if sent is not None:
            sent.set()
        match end:
            case "close":
                writer.write(b"0\r\n\r\n")
            case "reset":
                await _cut(writer)
            case "cut":
                half = json.dumps(change("ADDED", thing("half", 999))).encode()[:-9]
                writer.write(b"%x\r\n%s\r\n" % (len(half), half))
                await writer.drain()
                await _cut(writer)
            case "silence":
                await asyncio.Event().wait()

    return reply


async def silence(writer: asyncio.StreamWriter) -> None:
    """Accept the request and never answer."""
    await asyncio.Event().wait()


async def reset(writer: asyncio.StreamWriter) -> None:
    await _cut(writer)


@dataclass
class Script:
    """What the server will answer, in order; watches without a script stay open and silent."""

    config: ClusterConfig
    seen: list[Seen] = field(default_factory=list)
    replies: deque[Reply] = field(default_factory=deque)
    watches: deque[Reply] = field(default_factory=deque)
    pauses: list[float] = field(default_factory=list)

    thing = staticmethod(thing)
    change = staticmethod(change)
    failure = staticmethod(failure)
    body = staticmethod(body)
    items = staticmethod(items)
    stream = staticmethod(stream)
    silence = staticmethod(silence)
    reset = staticmethod(reset)

    @property
    def watched(self) -> list[Seen]:
        return [one for one in self.seen if "watch" in one.query]

    @property
    def listed(self) -> list[Seen]:
        return [one for one in self.seen if "watch" not in one.query]

    def client(self, user: User | None = None, **more: Any) -> Client:
        config = ClusterConfig(self.config.cluster, user or self.config.user)
        return Client(config, sleep=self.pause, **more)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def informer(
        self, of: type[Informer[Thing]] = Informer, *, optional: bool = False, **more: Any
    ) -> AsyncIterator[Informer[Thing]]:
        """A running informer that has no real pauses."""
        kind = replace(THINGS, optional=optional)
        async with self.client() as client:
            informer = of(client, kind, sleep=self.pause, jitter=lambda: 0.5, **more)
            task = asyncio.create_task(informer.run())
            try:
                yield informer
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.strip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in rest)}
            content = await reader.readexactly(int(headers.get("content-length", "0")))
            url = urlsplit(target)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            self.seen.append(Seen(method, url.path, query, headers, content))
            if "watch" in query:
                reply = self.watches.popleft() if self.watches else stream(end="silence")
            else:
                reply = self.replies.popleft() if self.replies else body(500, failure(500))
            await reply(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@dataclass(frozen=True)
class Authority:
    """A certificate authority and what it has issued."""

    certificate: bytes
    server: Path
    client: tuple[bytes, bytes]


def _issue(name: str, issuer: tuple[x509.Certificate, Any] | None) -> tuple[x509.Certificate, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([loopback, x509.DNSName("server.test")]), critical=False
        )
    )
    if issuer:
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Any) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    root = _issue("test CA", None)
    certificate, key = _issue("server.test", root)
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(_pem(certificate) + _key_pem(key))
    user, user_key = _issue("somebody", root)
    return Authority(_pem(root[0]), path, (_pem(user), _key_pem(user_key)))


@pytest.fixture(scope="session")
def stranger() -> bytes:
    """The certificate of an authority that has issued nothing here."""
    return _pem(_issue("another CA", None)[0])


@contextlib.asynccontextmanager
async def _running(context: ssl.SSLContext | None, ca: bytes) -> AsyncIterator[Script]:
    script = Script(ClusterConfig(Cluster("http://127.0.0.1:1")))
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await script.serve(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    scheme = "https" if context else "http"
    cluster = Cluster(f"{scheme}://127.0.0.1:{port}", Pem(data=ca) if ca else None)
    script.config = ClusterConfig(cluster, User(token="abc"))
    try:
        yield script
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@pytest.fixture
def server_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.server)
    return context


@pytest.fixture(params=["plain", "tls"])
async def script(
    request: pytest.FixtureRequest, authority: Authority, server_context: ssl.SSLContext
) -> AsyncIterator[Script]:
    """A scripted server, once over plain HTTP and once over TLS."""
    secure = request.param == "tls"
    running = _running(server_context if secure else None, authority.certificate if secure else b"")
    async with running as one:
        yield one


@pytest.fixture
async def plain() -> AsyncIterator[Script]:
    async with _running(None, b"") as one:
        yield one


@pytest.fixture
async def secure(authority: Authority, server_context: ssl.SSLContext) -> AsyncIterator[Script]:
    async with _running(server_context, authority.certificate) as one:
        yield one


@pytest.fixture
async def mutual(authority: Authority, server_context: ssl.SSLContext) -> AsyncIterator[Script]:
    """A server that insists on a client certificate."""
    server_context.verify_mode = ssl.CERT_REQUIRED
    server_context.load_verify_locations(cadata=authority.certificate.decode())
    async with _running(server_context, authority.certificate) as one:
        yield one


@pytest.fixture
def things() -> Resource[Thing]:
    return THINGS


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Let the loop run until something holds."""

    async def wait(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110  what is awaited is seen only from outside
                await asyncio.sleep(0.001)

    return wait
