"""The certificate that is served, kept equal to the files that it comes from.

The files are looked at every few seconds: a mounted Secret changes by the swap of a link somewhere
above them, which no watch of the files themselves would tell. A new pair is first tried on the
side, from a copy in memory, so that what is then loaded is exactly what was tried, and connections
that are being made see the old pair or the new one. A pair that cannot be used, or has expired, is
reported once and left alone: what is served stays. Files that are not there yet are waited for.

The key is in no log, and its copy never on a disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from cryptography import x509

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
FILE_LIMIT = 1 << 20
"""Bytes; a Secret holds no more."""


class ClientAuthorityError(Exception):
    """The file that says whom to answer cannot be used; the text says why."""


class Metrics(Protocol):
    """What is counted."""

    def certificate(self, expiry: float) -> None:
        """A certificate is served that expires then, as a POSIX time."""

    def bad_files(self) -> None:
        """New files could not be used."""


class _Pair(NamedTuple):
    certificate: bytes
    key: bytes


class _BadPairError(Exception):
    """The files cannot be used; the text says why."""


def _now() -> datetime:
    return datetime.now(UTC)


class TlsFiles:
    """A server's context that follows a certificate file and a key file."""

    def __init__(
        self,
        cert_file: str,
        key_file: str,
        metrics: Metrics,
        *,
        client_ca: str = "",
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """`client_ca`: a file with the authorities that clients must have a certificate of.

        Raises ClientAuthorityError where it cannot be used.
        """
        self.context = _context(client_ca)
        """Of no use before `loaded`."""
        self.loaded = asyncio.Event()
        """Set once there is a certificate to serve with."""
        self._cert_file = cert_file
        self._key_file = key_file
        self._metrics = metrics
        self._clock = clock
        self._served: _Pair | None = None
        self._reported = ""
        """What was said of the files as they are."""

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Take what the files hold now, if it is another pair and can be used."""
        try:
            pair = _read(self._cert_file, self._key_file)
            if pair != self._served:
                self._take(pair)
        except _BadPairError as error:
            self._say(str(error))
        else:
            self._reported = ""

    def _take(self, pair: _Pair) -> None:
        expiry = _expiry(pair.certificate, self._cert_file)
        if expiry <= self._clock():
            raise _BadPairError(f"{self._cert_file} expired at {expiry:%Y-%m-%d %H:%M} UTC")
        with _in_memory(pair.certificate) as certificate, _in_memory(pair.key) as key:
            try:
                # An empty password: a key that needs one must not prompt for it on the terminal.
                _context().load_cert_chain(certificate, key, password="")
            except (ssl.SSLError, OSError, ValueError) as error:
                why = getattr(error, "reason", None) or str(error)
                raise _BadPairError(
                    f"{self._cert_file} and {self._key_file} are not a certificate and its key: "
                    f"{why}"
                ) from None
            self.context.load_cert_chain(certificate, key, password="")
        self._served = pair
        self._metrics.certificate(expiry.timestamp())
        self.loaded.set()
        log.info("serving with the certificate in %s, good until %s", self._cert_file, expiry)

    def _say(self, why: str) -> None:
        if why == self._reported:
            return
        self._reported = why
        if self._served is None:
            log.warning("waiting for a certificate: %s", why)
            return
        self._metrics.bad_files()
        log.error("%s; the certificate from before is still served", why)


def _context(client_ca: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if client_ca:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ClientAuthorityError(f"{client_ca} holds no authorities in PEM: {why}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _read(cert_file: str, key_file: str) -> _Pair:
    """Both files as of one moment: they are read again until nothing changed meanwhile."""
    pair = _Pair(_content(cert_file), _content(key_file))
    while (again := _Pair(_content(cert_file), _content(key_file))) != pair:
        pair = again
    return pair


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise _BadPairError(f"{path}: {error.strerror}") from None
    if not content.strip():
        raise _BadPairError(f"{path} is empty")
    if len(content) > FILE_LIMIT:
        raise _BadPairError(f"{path} is longer than {FILE_LIMIT} bytes")
    return content


def _expiry(certificate: bytes, path: str) -> datetime:
    try:
        return x509.load_pem_x509_certificates(certificate)[0].not_valid_after_utc
    except ValueError:
        raise _BadPairError(f"{path} holds no certificate in PEM") from None


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A path to a file that only this process has, because OpenSSL reads nothing but files."""
    handle = os.memfd_create("laneway-tls", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
