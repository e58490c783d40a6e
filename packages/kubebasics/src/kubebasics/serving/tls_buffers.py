"""How much memory a TLS connection takes that waits, as most of them do.

asyncio gives each one 256 KiB to read into, and what it has read is copied into a buffer of OpenSSL
that grows to as much. An agent has a connection for each of its watches, and an API server those of
all agents. A TLS record has at most 16 KiB, and less takes no more CPU time: a list that comes in
pages is as fast, one of 25 MB in one piece takes 0.75 s instead of 0.5.
"""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol

BYTES = 32 << 10


def limit() -> None:
    """Give less to the connections that this process has from now on."""
    SSLProtocol.max_size = BYTES
