"""The client behind a proxy is known by the word of proxies that are trusted."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from laneway.web.session.peers import is_https, peer

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def request(direct: str, **headers: str) -> web.BaseRequest:
    named = {f"X-Forwarded-{name}": value for name, value in headers.items()}
    found = make_mocked_request("GET", "/", headers=named)
    return found.clone(remote=direct)


@pytest.mark.parametrize(
    ("direct", "forwarded", "expected"),
    [
        ("192.0.2.9", "203.0.113.1", "192.0.2.9"),
        ("10.1.2.3", "203.0.113.1", "203.0.113.1"),
        ("10.1.2.3", "1.1.1.1, 203.0.113.1", "203.0.113.1"),
        ("fd00::1", "2001:db8::1", "2001:db8::1"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", "203.0.113.1, unknown", "10.1.2.3"),
        ("", "203.0.113.1", ""),
    ],
)
def test_the_last_address_counts_if_the_proxy_is_trusted(
    direct: str, forwarded: str, expected: str
) -> None:
    assert peer(request(direct, For=forwarded), PROXIES) == expected
    assert peer(request(direct, For=forwarded), ()) == direct


def test_https_at_a_trusted_proxy_counts() -> None:
    assert is_https(request("10.1.2.3", Proto="https"), PROXIES)
    assert not is_https(request("10.1.2.3", Proto="http"), PROXIES)
    assert not is_https(request("192.0.2.9", Proto="https"), PROXIES)
