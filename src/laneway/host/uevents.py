"""Kernel events from netlink.

The socket is bound before the caller gets the iterator, so nothing is missed after entry, and only
messages that the kernel itself sent are believed: any process with the privilege may send to this
group. The kernel's buffer is the only queue; when it overflows the reader says so and goes on.

The kernel delivers device events only to network namespaces that the initial user namespace owns.
Elsewhere the socket opens and stays silent for ever, which the owner shows beforehand.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

from laneway.core.kernel.uevent import OVERFLOW, Uevent, parse_uevent
from laneway.host.port import UeventsUnavailableError

_NETLINK_KOBJECT_UEVENT = 15
_KERNEL_GROUP = 1
_SO_RCVBUFFORCE = 33
_NS_GET_USERNS = 0xB701
_INITIAL_USER_NAMESPACE = 0xEFFFFFFD
_BUFFER = 16 * 1024 * 1024
"""Room for some 10,000 events: one SR-IOV switch of a large host makes about a thousand."""
_MESSAGE = 16 * 1024
"""The kernel's messages stay below 4 KiB."""


@asynccontextmanager
async def kernel_uevents(obstacle: str = "") -> AsyncIterator[AsyncIterator[Uevent]]:
    """Subscribe to this machine's kernel events; refused with the `obstacle` if there is one."""
    obstacle = obstacle or _namespace_obstacle("/proc/self/ns/net")
    if obstacle:
        raise UeventsUnavailableError(obstacle)
    with _subscribe() as sock:
        async with aclosing(_events(sock)) as events:
            yield events


def _namespace_obstacle(path: str) -> str:
    """Why the kernel delivers nothing to this network namespace, empty when it does."""
    try:
        namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""  # no /proc: nothing speaks against trying
    try:
        owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    except PermissionError:
        return "the owner of this network namespace lies outside this user namespace"
    except OSError:
        return ""  # a kernel without this question (before 4.9) delivers to every namespace
    finally:
        os.close(namespace)
    try:
        initial = os.fstat(owner).st_ino == _INITIAL_USER_NAMESPACE
    finally:
        os.close(owner)
    if initial:
        return ""
    return (
        "this network namespace belongs to a user namespace (rootless container, unshare -U), "
        "where the kernel delivers none"
    )


def _subscribe() -> socket.socket:
    try:
        sock = socket.socket(
            socket.AF_NETLINK,
            socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
            _NETLINK_KOBJECT_UEVENT,
        )
    except OSError as error:
        raise _refused(error) from error
    try:
        _enlarge_buffer(sock)
        sock.bind((0, _KERNEL_GROUP))
    except OSError as error:
        sock.close()
        raise _refused(error) from error
    return sock


def _refused(error: OSError) -> UeventsUnavailableError:
    return UeventsUnavailableError(f"no netlink socket ({error.strerror})")


def _enlarge_buffer(sock: socket.socket) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    except PermissionError:
        with suppress(OSError):  # a small buffer overflows sooner, which is reported
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)


async def _events(sock: socket.socket) -> AsyncGenerator[Uevent, None]:
    loop = asyncio.get_running_loop()
    while True:
        try:
            message, (sender, _groups) = await loop.sock_recvfrom(sock, _MESSAGE)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            yield OVERFLOW
            continue
        event = parse_uevent(message) if sender == 0 else None
        if event is not None:
            yield event
