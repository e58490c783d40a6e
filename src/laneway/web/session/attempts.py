"""How often a sign-in may be attempted: by one peer, and by all.

Token buckets: some attempts at once, then one in so many seconds. Peers that have not come back for
long are forgotten first, so the memory is bounded; the limit for all holds also for an attacker who
has many addresses.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple


class Rate(NamedTuple):
    """So many at once, then one every so many seconds."""

    burst: int
    seconds: float


OF_A_PEER = Rate(10, 6.0)
OF_ALL = Rate(100, 0.5)
_PEERS = 4096
_NETWORK_BITS = 64
"""A user of IPv6 has a network of this size."""


@dataclass(slots=True)
class _Bucket:
    rate: Rate
    left: float
    at: float

    def wait(self, now: float) -> float:
        """Seconds until an attempt is left."""
        self.left = min(self.rate.burst, self.left + (now - self.at) / self.rate.seconds)
        self.at = now
        return max(0.0, (1 - self.left) * self.rate.seconds)


class Attempts:
    """Counts the attempts of one process."""

    def __init__(
        self,
        of_a_peer: Rate = OF_A_PEER,
        of_all: Rate = OF_ALL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = of_a_peer
        self._clock = clock
        self._all = _Bucket(of_all, of_all.burst, clock())
        self._peers: OrderedDict[str, _Bucket] = OrderedDict()

    def wait(self, peer: str) -> float:
        """0 counts one attempt, which may be made; else the seconds until the next may be."""
        now = self._clock()
        key = _place(peer)
        bucket = self._peers.pop(key, None) or _Bucket(self._rate, self._rate.burst, now)
        self._peers[key] = bucket
        if len(self._peers) > _PEERS:
            self._peers.popitem(last=False)
        seconds = max(bucket.wait(now), self._all.wait(now))
        if not seconds:
            bucket.left -= 1
            self._all.left -= 1
        return seconds

    def refund(self, peer: str) -> None:
        """Give back an attempt that was counted."""
        bucket = self._peers.get(_place(peer))
        for one in (self._all, *([bucket] if bucket is not None else ())):
            one.left = min(one.rate.burst, one.left + 1)


def _place(peer: str) -> str:
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(int(address) >> (128 - _NETWORK_BITS))
