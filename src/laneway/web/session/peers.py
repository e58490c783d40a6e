"""Who is at the other end of a request, through proxies that are trusted and no others.

A proxy that is trusted appends the address of its own peer to `X-Forwarded-For`; what stands before
that may be anything the client liked to send, and is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from aiohttp import web

Network = IPv4Network | IPv6Network


def peer(request: web.BaseRequest, proxies: Sequence[Network]) -> str:
    """The address of the client, as far as it is known."""
    if _through_proxy(request, proxies):
        last = request.headers.getall("X-Forwarded-For", [""])[-1].rpartition(",")[2].strip()
        if _is_address(last):
            return last
    return request.remote or ""


def is_https(request: web.BaseRequest, proxies: Sequence[Network]) -> bool:
    """Whether the browser came by HTTPS, here or to a proxy that is trusted."""
    forwarded = request.headers.get("X-Forwarded-Proto", "")
    return request.secure or (forwarded == "https" and _through_proxy(request, proxies))


def _through_proxy(request: web.BaseRequest, proxies: Sequence[Network]) -> bool:
    direct = request.remote or ""
    return _is_address(direct) and any(ip_address(direct) in network for network in proxies)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
