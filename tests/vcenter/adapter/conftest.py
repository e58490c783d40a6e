"""What tests of the adapter share: a connection, and a proxy that spoils what a vCenter answers."""

from __future__ import annotations

import http.client
import re
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from laneway.vsphere.port import Credentials
from laneway.vsphere.vcenter import Connection, connect
from support.vcenter import Simulator

Spoil = Callable[[str, bytes], bytes | None]
"""From method and answer to the answer that is given; None: the connection is closed instead."""

pytest.register_assert_rewrite("support.port_contract")


class Proxy:
    """Stands before a vCenter, with a certificate of its own."""

    def __init__(self, behind: Simulator, folder: Path) -> None:
        self.spoil: Spoil = lambda _, answer: answer
        self.before: Callable[[str], None] = lambda _: None
        """Called with each method before it is passed on."""
        self.asked: list[str] = []
        self.pem, self.thumbprint, file = _certificate(folder)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                method = _method(body)
                proxy.asked.append(method)
                proxy.before(method)
                status, cookie, answer = _passed_on(behind, dict(self.headers), body)
                spoiled = proxy.spoil(method, answer)
                if spoiled is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                if cookie:
                    self.send_header("Set-Cookie", cookie)
                self.send_header("Content-Length", str(len(spoiled)))
                self.end_headers()
                self.wfile.write(spoiled)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # clients that give up are what the tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.server = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _method(body: bytes) -> str:
    found = re.search(rb"<soapenv:Body><(\w+)", body)
    assert found
    return found[1].decode()


def _passed_on(
    behind: Simulator, headers: dict[str, str], body: bytes
) -> tuple[int, str | None, bytes]:
    onward = http.client.HTTPSConnection(
        behind.host, behind.port, context=ssl._create_unverified_context()
    )
    try:
        kept = {key: headers[key] for key in ("Cookie", "SOAPAction", "Content-Type")}
        onward.request("POST", "/sdk", body, kept)
        answer = onward.getresponse()
        return answer.status, answer.getheader("Set-Cookie"), answer.read()
    finally:
        onward.close()


def _certificate(folder: Path) -> tuple[str, str, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vcenter")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    file = folder / "proxy.pem"
    file.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    print_ = sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
    return pem.decode(), print_, file


@pytest.fixture
def proxy(vcenter: Simulator, tmp_path: Path) -> Iterator[Proxy]:
    proxy = Proxy(vcenter, tmp_path)
    yield proxy
    proxy.close()


@pytest.fixture
async def log_into() -> AsyncIterator[Callable[[Simulator | Proxy], Awaitable[Connection]]]:
    """Connections that end with the test."""
    async with AsyncExitStack() as stack:

        async def into(there: Simulator | Proxy) -> Connection:
            credentials = Credentials("user", "pass", thumbprint=there.thumbprint)
            return await stack.enter_async_context(await connect(there.server, credentials))

        yield into


@pytest.fixture
async def connection(
    vcenter: Simulator, log_into: Callable[[Simulator], Awaitable[Connection]]
) -> Connection:
    """Logged in at a simulator with the sample inventory."""
    return await log_into(vcenter)
