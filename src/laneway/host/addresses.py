"""Addresses of the node's network interfaces, from rtnetlink.

No file shows which interface has an IPv4 address: routes tell most of them, but not one in a VRF,
one whose routes are in another table, and none while its interface is down. An agent in a container
has a network namespace of its own, so the question is asked in that of pid 1, from a thread that
ends with it; where that namespace may not even be looked at, our own is the nearest answer.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from laneway.core.inventory import InterfaceAddress

_OWN, _NODE = "/proc/self/ns/net", "/proc/1/ns/net"
_CLONE_NEWNET = 0x40000000

_NETLINK_ROUTE = 0
_RTM_GETADDR, _RTM_NEWADDR = 22, 20
_REQUEST_DUMP = 0x301
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_DUMP_INTERRUPTED = 0x10
"""Addresses changed while they were read."""
_TRIES = 5
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_SCOPE_LINK = 253
_HEADER = struct.Struct("=IHHII")
_MESSAGE = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")
_BUFFER = 1 << 16
_SECONDS = 10.0


def node_addresses(node: str = _NODE) -> list[InterfaceAddress]:
    """Every address of every interface, IPv4 and IPv6. Raises OSError where it cannot be asked.

    `node`: the file that stands for the node's network namespace.
    """
    try:
        elsewhere = os.readlink(node) != os.readlink(_OWN)
    except OSError:
        elsewhere = False
    if not elsewhere:
        return _addresses()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_addresses_in, node).result()


def _addresses_in(place: str) -> list[InterfaceAddress]:
    """In a thread of its own, for it stays in that namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(namespace, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), place)
    finally:
        os.close(namespace)
    return _addresses()


def _addresses() -> list[InterfaceAddress]:
    for _ in range(_TRIES):
        whole, found = _dump()
        if whole:
            break
    return found


def _dump() -> tuple[bool, list[InterfaceAddress]]:
    """What the kernel tells, and whether nothing changed meanwhile."""
    found: list[InterfaceAddress] = []
    whole = True
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_ROUTE) as asked:
        asked.settimeout(_SECONDS)
        asked.bind((0, 0))
        size = _HEADER.size + _MESSAGE.size
        request = _HEADER.pack(size, _RTM_GETADDR, _REQUEST_DUMP, 1, 0)
        asked.send(request + _MESSAGE.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
        while True:
            for kind_of, flags, body in _messages(asked.recv(_BUFFER)):
                whole = whole and not flags & _DUMP_INTERRUPTED
                if kind_of == _NLMSG_DONE:
                    return whole, found
                if kind_of == _NLMSG_ERROR:
                    number = -struct.unpack_from("=i", body)[0]
                    raise OSError(number, os.strerror(number))
                if kind_of == _RTM_NEWADDR:
                    found += _read(body)


def _messages(packet: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type, flags and body of each message."""
    while len(packet) >= _HEADER.size:
        size, kind, flags, _sequence, _port = _HEADER.unpack_from(packet)
        if size < _HEADER.size:
            return
        yield kind, flags, packet[_HEADER.size : size]
        packet = packet[_padded(size) :]


def _read(body: bytes) -> Iterator[InterfaceAddress]:
    family, prefix, _flags, scope, index = _MESSAGE.unpack_from(body)
    attributes = dict(_attributes(body[_MESSAGE.size :]))
    # Of a point-to-point interface IFA_ADDRESS is the other end's.
    raw = attributes.get(_IFA_LOCAL, attributes.get(_IFA_ADDRESS, b""))
    if family not in (socket.AF_INET, socket.AF_INET6) or len(raw) not in (4, 16):
        return
    try:
        name = socket.if_indextoname(index)
    except OSError:
        return  # gone since
    local = family == socket.AF_INET6 and scope == _SCOPE_LINK
    yield InterfaceAddress(name, f"{ipaddress.ip_address(raw)}/{prefix}", local)


def _attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    while len(body) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(body)
        if size < _ATTRIBUTE.size:
            return
        yield kind, body[_ATTRIBUTE.size : size]
        body = body[_padded(size) :]


def _padded(size: int) -> int:
    return (size + 3) & ~3
