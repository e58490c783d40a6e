"""Which connections of a port are closed so that the others are served. No input or output.

A connection waits while no request of it is being answered. One that has never sent a request is
new, every other idle. Closed are, by the one that has waited longest,

- new ones, where a peer has more than its share of them;
- any that wait, of the peer that has most of these, where the port has as many as it may.

One whose request is being answered is never closed. A peer is an IPv4 address or an IPv6 network of
64 bits, which is what one owner of addresses has at least.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict


class Connection:
    """One connection, known by its peer."""

    __slots__ = ("peer",)

    def __init__(self, peer: str) -> None:
        self.peer = peer

    def close(self) -> None:
        """End it at once."""
        raise NotImplementedError


class Connections:
    """The connections of a port."""

    def __init__(self, most: int, share: int) -> None:
        """`most` in all, and `share` new ones of a peer."""
        self._most = most
        self._share = share
        self._all: set[Connection] = set()
        self._new: dict[str, dict[Connection, None]] = defaultdict(dict)
        self._waiting: dict[str, dict[Connection, None]] = defaultdict(dict)
        """New and idle ones by peer, in the order in which they began to wait."""

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> Connection | None:
        """Count a new one; gives the one to close in its place, which is no longer counted.

        That is the new one itself where every other is at work.
        """
        self._all.add(connection)
        self._waiting[connection.peer][connection] = None
        self._new[connection.peer][connection] = None
        new = self._new[connection.peer]
        if len(new) > self._share:
            return self._drop(next(iter(new)))
        return self.longest() if len(self._all) > self._most else None

    def longest(self) -> Connection | None:
        """No longer count the one that has waited longest, of the peer that has most waiting."""
        if not self._waiting:
            return None
        most = max(self._waiting.values(), key=len)
        return self._drop(next(iter(most)))

    def begin(self, connection: Connection) -> None:
        """A request of it has come."""
        self._forget(self._new, connection)
        self._forget(self._waiting, connection)

    def end(self, connection: Connection) -> None:
        """Its request is answered."""
        if connection in self._all:
            self._waiting[connection.peer][connection] = None

    def remove(self, connection: Connection) -> None:
        """It is closed, or about to be."""
        self._all.discard(connection)
        self.begin(connection)

    def _drop(self, connection: Connection) -> Connection:
        self.remove(connection)
        return connection

    @staticmethod
    def _forget(waiting: dict[str, dict[Connection, None]], connection: Connection) -> None:
        if found := waiting.get(connection.peer):
            found.pop(connection, None)
            if not found:
                del waiting[connection.peer]


def peer_of(host: str) -> str:
    """To whom an address counts. What is no address counts as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
