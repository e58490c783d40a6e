"""One connection to a vCenter, of one thread: TLS always, pinned before anything is sent, bounded.

- A thumbprint pins the certificate by itself, as it does for govmomi: names and expiry do not count
  then. Without one the certificate must be good for the name of the server, by the authorities
  given or by the system's.
- Answers are bounded in size, and compressed ones are refused, since they were not requested.
- `sever` may be called from another thread: it ends whatever the connection is waiting for. The
  socket is cut below TLS, so the thread that reads it sees an end and nothing else changes hands.
- A connection that the other side closed while it was idle is not used again: an order that is
  sent once must not fail for that.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import select
import socket
import ssl
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import Any

import msgspec

from laneway.vsphere.port import LoginRefusedError

STALL_S = 60.0
"""How long the other side may be silent in the middle of something."""

WAIT_S = 30
"""How long vCenter is to keep a request that waits for news: it is silent meanwhile, too."""

ANSWER_LIMIT = 256 << 20

_DIGESTS = {40: hashlib.sha1, 64: hashlib.sha256}


class Trust(msgspec.Struct, frozen=True):
    """What a server's certificate is checked against."""

    server: str
    thumbprint: str
    context: ssl.SSLContext

    def check(self, certificate: bytes | None) -> None:
        if not self.thumbprint:
            return  # the context has checked it
        digest = _DIGESTS[len(self.thumbprint)]
        found = digest(certificate or b"").hexdigest()
        if not hmac.compare_digest(found, self.thumbprint):
            raise LoginRefusedError(
                f"the certificate of {self.server} has the thumbprint {colons(found)}, not"
                f" {colons(self.thumbprint)}: nothing was sent to it; if it was renewed, set the"
                " new thumbprint"
            )


def colons(digest: str) -> str:
    """As vCenter and openssl print it."""
    upper = digest.upper()
    return ":".join(upper[at : at + 2] for at in range(0, len(upper), 2))


def trust(server: str, thumbprint: str, ca: str) -> Trust:
    """Raises LoginRefusedError if what is to be trusted makes no sense."""
    pin = "".join(thumbprint.split()).replace(":", "").lower()
    if pin:
        if len(pin) not in _DIGESTS or not set(pin) <= set("0123456789abcdef"):
            raise LoginRefusedError(
                f"the thumbprint for {server} is neither SHA-1 nor SHA-256: 40 or 64 hexadecimal"
                " digits, with or without colons"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the thumbprint is checked instead
    elif ca.strip():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=ca)
        except (ssl.SSLError, ValueError) as error:
            raise LoginRefusedError(
                f"the certificate authority for {server} is not PEM: {error}"
            ) from None
    else:
        context = ssl.create_default_context()
    return Trust(server, pin, context)


class _BoundedResponse(HTTPResponse):
    _left = ANSWER_LIMIT

    def begin(self) -> None:
        super().begin()
        if self.headers.get("Content-Encoding", "identity") != "identity":
            raise HTTPException("a compressed answer, which was not requested")

    def read(self, amt: int | None = None) -> bytes:
        data = super().read(amt)
        self._left -= len(data)
        if self._left < 0:
            raise HTTPException(f"an answer of more than {ANSWER_LIMIT >> 20} MiB")
        return data


class Wire(HTTPSConnection):
    """As pyVmomi's stub makes it: by host, port and what is given in `schemeArgs`."""

    response_class = _BoundedResponse

    def __init__(self, host: str, port: int, *, trust: Trust, **more: Any) -> None:
        super().__init__(host, port, timeout=STALL_S, context=trust.context, **more)
        self._trust = trust

    def connect(self) -> None:
        raw = socket.create_connection((self.host, self.port), timeout=STALL_S)
        self.sock = raw
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            # Wrapped before hands are shaken, so that `sever` finds the socket meanwhile.
            tls = self._trust.context.wrap_socket(
                raw, server_hostname=self.host, do_handshake_on_connect=False
            )
            self.sock = tls
            tls.do_handshake()
            self._trust.check(tls.getpeercert(binary_form=True))
        except BaseException:
            self.close()
            raise

    def idle(self) -> bool:
        """Nothing has come since the last answer: not even its end."""
        if self.sock is None:
            return False
        waiting = select.poll()
        waiting.register(self.sock, select.POLLIN)
        return not waiting.poll(0)

    def sever(self) -> None:
        sock = self.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
