"""Fetches a package into a file, and continues where an earlier attempt was cut off.

What has arrived is kept with the validator under which it came, also across containers. An attempt
that brought something does not count against the limit, so a bad line ends the download late and a
server that answers nothing ends it soon. Every redirect is judged before it is followed. The hash
is not checked here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

import aiohttp

from laneway.core.driver_toolkit import failure, transfer
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.settings import Settings

Say = Callable[[str], None]

_CHUNK = 256 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)


class Pace(NamedTuple):
    """How patient a download is."""

    tries: int = 6
    """Attempts in a row that bring nothing."""
    pause: float = 1.0
    """Seconds before the second; doubled each time."""
    longest: float = 60.0
    progress: float = 5.0
    """Seconds between two lines about it."""


class _InterruptedError(Exception):
    """An attempt ended early; the text says why."""


PACE = Pace()


async def download(settings: Settings, part: str, say: Say, pace: Pace = PACE) -> None:
    """Have the whole file at `part`. Raises ToolkitError."""
    connector = aiohttp.TCPConnector(ssl=_trust(settings.ca_file))
    async with aiohttp.ClientSession(
        connector=connector, timeout=_TIMEOUT, auto_decompress=False, trust_env=False
    ) as session:
        one = _Transfer(settings, session, part, say, pace)
        idle, tries, pause = 0, 0, pace.pause
        while True:
            before, tries = arrived(part), tries + 1
            try:
                await one.attempt()
            except _InterruptedError as error:
                gained = arrived(part) > before
                idle, pause = (
                    (0, pace.pause) if gained else (idle + 1, min(pause * 2, pace.longest))
                )
                if idle >= pace.tries:
                    raise ToolkitError(
                        failure.download_failed(settings.location, str(error), tries)
                    ) from None
                say(f"the download was interrupted: {error}; trying again")
                await asyncio.sleep(pause)
            else:
                return


def arrived(part: str) -> int:
    """How many bytes are here already."""
    try:
        return os.stat(part).st_size
    except FileNotFoundError:
        return 0


def forget(part: str) -> None:
    """Remove what has arrived."""
    for path in (part, _note(part)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _note(part: str) -> str:
    return f"{part}.validator"


def _trust(ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file:
        try:
            context.load_verify_locations(cafile=ca_file)
        except OSError as error:  # an SSLError is one as well
            why = error.strerror or str(error)
            raise ToolkitError(failure.authorities_unreadable(ca_file, why)) from None
    return context


class _Transfer:
    """One file on its way."""

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        part: str,
        say: Say,
        pace: Pace,
    ) -> None:
        self._settings = settings
        self._session = session
        self._part = part
        self._say = say
        self._pace = pace
        self._reported = 0.0

    async def attempt(self) -> None:
        """Ask once, and follow where it leads."""
        url = self._settings.location
        size, validator = arrived(self._part), self._validator()
        if not validator:
            size = 0  # nothing could confirm that the rest belongs to it
        try:
            for _ in range(transfer.REDIRECTS + 1):
                async with self._session.get(
                    url,
                    headers=transfer.conditions(size, validator),
                    proxy=self._settings.proxy or None,
                    allow_redirects=False,
                ) as response:
                    answer = transfer.judge(response.status, response.headers, size)
                    if answer.kind != "redirect":
                        await self._take(response, answer)
                        return
                url = self._follow(url, answer.text)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise _InterruptedError(_words(error)) from None
        raise ToolkitError(
            failure.redirect_refused(
                self._settings.location, url, f"after {transfer.REDIRECTS} others"
            )
        )

    def _follow(self, url: str, target: str) -> str:
        new, refused = transfer.redirected(url, target)
        if refused:
            raise ToolkitError(failure.redirect_refused(self._settings.location, new, refused))
        return new

    async def _take(self, response: aiohttp.ClientResponse, answer: transfer.Answer) -> None:
        match answer.kind:
            case "absent":
                raise ToolkitError(failure.not_found(self._settings.location, response.status))
            case "again":
                raise _InterruptedError(answer.text)
            case "restart":
                forget(self._part)
                raise _InterruptedError(answer.text)
            case "whole":
                return
        try:
            await self._receive(response, answer)
        except ConnectionError:
            raise
        except OSError as error:
            if isinstance(error, aiohttp.ClientError | TimeoutError):
                raise
            raise ToolkitError(failure.no_room(error, self._part)) from None

    async def _receive(self, response: aiohttp.ClientResponse, answer: transfer.Answer) -> None:
        if answer.start == 0:
            forget(self._part)
            _write_note(self._part, transfer.validator_of(response.headers))
        with open(self._part, "ab") as file:  # noqa: ASYNC230 - nothing else runs meanwhile
            file.truncate(answer.start)
            done = await self._copy(response, file, answer)
            file.flush()
            os.fsync(file.fileno())
        if answer.total is not None and done != answer.total:
            raise _InterruptedError(f"{done} of {answer.total} bytes arrived")

    async def _copy(
        self, response: aiohttp.ClientResponse, file: BinaryIO, answer: transfer.Answer
    ) -> int:
        done = answer.start
        async for chunk in response.content.iter_chunked(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            self._report(done, answer.total)
        return done

    def _report(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._reported >= self._pace.progress:
            self._reported = now
            self._say(f"downloading: {failure.progress(done, total)}")

    def _validator(self) -> str:
        try:
            with open(_note(self._part), encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError):
            return ""


def _write_note(part: str, validator: str) -> None:
    with open(_note(part), "w", encoding="utf-8") as file:
        file.write(validator)


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the server's certificate is not trusted ({error.certificate_error})"
    # The texts of these have a whole URL, with the proxy's password or a signature.
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return transfer.proxy_refuses(error.status)
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the answer is not HTTP ({error.message})"
    if isinstance(error, aiohttp.InvalidURL):
        return "it redirects to what is no URL"
    return str(error) or type(error).__name__
