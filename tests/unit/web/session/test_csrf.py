"""A form's token is good for one user in one browser, and browsers say where requests come from."""

from __future__ import annotations

import pytest

from laneway.web.session.csrf import CsrfTokens, is_from_us

HOST = {"Host": "laneway.example:8443"}


def test_a_token_is_of_one_browser_and_user() -> None:
    tokens = CsrfTokens()
    token = tokens.token("browser-1", "alice")
    assert tokens.is_right(token, "browser-1", "alice")
    assert not tokens.is_right(token, "browser-2", "alice")
    assert not tokens.is_right(token, "browser-1", "bob")
    assert not tokens.is_right(token, "browser-1")
    assert not tokens.is_right("ö", "browser-1", "alice")
    assert not CsrfTokens().is_right(token, "browser-1", "alice")


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({}, True),
        ({"Origin": "https://laneway.example:8443"}, True),
        ({"Origin": "https://laneway.example:8443", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "https://laneway.example"}, False),
        ({"Origin": "https://laneway.example:8443.evil.example"}, False),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
    ],
)
def test_requests_of_other_sites_are_recognised(headers: dict[str, str], ours: bool) -> None:
    assert is_from_us(HOST | headers) is ours
