"""Users sign in at an identity provider, whose token is then theirs at the API server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from laneway.kube.errors import ConfigError
from laneway.web.session.oidc import OidcSettings, Provider
from laneway.web.session.sign_in import Settings, SignIn
from support.oidc_provider import CLIENT, SECRET, OidcProvider, TrustsProvider, provider
from support.signing_in import ALICE, TOKENS, Browser, Place, Reply, cluster, render, site


class Clock:
    """The time, which a test moves on."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class World(NamedTuple):
    provider: OidcProvider
    place: Place
    sign_in: SignIn
    clock: Clock
    browser: Callable[[], Browser]


@pytest.fixture
async def world(tmp_path: Path, free_port: Callable[[], int]) -> AsyncIterator[World]:
    """A provider, an API server that trusts it, and a site that both know."""
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    clock = Clock()
    async with contextlib.AsyncExitStack() as stack:
        found = await stack.enter_async_context(provider())
        place = await stack.enter_async_context(cluster(TrustsProvider(TOKENS, found)))
        oidc = OidcSettings(found.issuer, CLIENT, f"{url}/sign-in/oidc/callback", str(secret))
        sign_in = SignIn(place.config, render, Settings(oidc=oidc), clock=clock)
        await stack.enter_async_context(site(sign_in, port))

        def opened() -> Browser:
            browser = Browser(url)
            stack.push_async_exit(browser)
            return browser

        yield World(found, place, sign_in, clock, opened)


async def through(browser: Browser, next_: str = "/") -> Reply:
    """From the sign-in page to the provider and back; what the callback answers."""
    return await browser.follow(await returning(browser, next_))


async def returning(browser: Browser, next_: str = "/") -> str:
    """The address to which the provider sends the browser back."""
    start = await browser.get(f"/sign-in/oidc?next={next_}")
    assert start.status == 303
    async with browser.http.get(start.headers["Location"], allow_redirects=False) as response:
        return response.headers["Location"].removeprefix(browser.url)


async def test_a_user_comes_back_from_the_provider_to_the_page(world: World) -> None:
    browser = world.browser()
    assert "/sign-in/oidc?next=%2Fgpus" in (await browser.get("/sign-in?next=/gpus")).text
    reply = await through(browser, "/gpus")
    assert reply.status == 200
    assert 'content="0; url=/gpus"' in reply.text
    assert not browser.cookie("oidc")
    assert "carol@example.com" in (await browser.get("/gpus")).text


async def test_coming_back_from_the_provider_ends_the_session_before(world: World) -> None:
    browser = world.browser()
    await browser.sign_in(ALICE)
    before = dict(browser.cookies)
    await through(browser)
    assert len(world.sign_in.sessions) == 1
    browser.cookies = before
    assert (await browser.get("/")).status == 303


async def test_a_token_is_renewed_while_its_session_lives(world: World) -> None:
    browser = world.browser()
    await through(browser)
    for _ in range(2):
        world.clock.ahead += 280
        world.provider.seconds += 280
        assert (await browser.get("/vms?ask=1")).status == 200
    assert world.provider.renewed == 2


async def test_a_session_ends_with_a_token_that_the_provider_does_not_renew(world: World) -> None:
    browser = world.browser()
    await through(browser)
    world.provider.revoke()
    world.clock.ahead += 301
    reply = await browser.get("/vms?ask=1")
    assert reply.status == 303
    assert "notice=session_refused" in reply.headers["Location"]


async def test_a_session_without_renewal_ends_with_its_token(world: World) -> None:
    world.provider.refreshes = False
    browser = world.browser()
    await through(browser)
    assert (await browser.get("/vms")).status == 200
    world.clock.ahead += 301
    assert (await browser.get("/vms")).status == 303


async def test_a_sign_in_of_another_browser_is_refused(world: World) -> None:
    attacker, victim = world.browser(), world.browser()
    path = await returning(attacker)
    refused = await victim.follow(path)
    assert refused.status == 403
    assert "began in another browser" in refused.text
    await returning(victim)
    assert (await victim.follow(path)).status == 403
    assert not victim.cookie("session")


async def test_the_way_back_works_once(world: World) -> None:
    browser = world.browser()
    path = await returning(browser)
    kept = dict(browser.cookies)
    assert (await browser.follow(path)).status == 200
    assert (await browser.follow(path)).status == 403
    browser.cookies = kept
    again = await browser.follow(path)
    assert again.status == 502
    assert "it answered invalid_grant" in again.text


async def test_a_user_who_takes_too_long_starts_again(world: World) -> None:
    browser = world.browser()
    path = await returning(browser)
    world.clock.ahead += 601
    assert (await browser.follow(path)).status == 403


async def test_the_provider_may_refuse(world: World) -> None:
    browser = world.browser()
    state = parse_qs(urlsplit(await returning(browser)).query)["state"][0]
    reply = await browser.follow(f"/sign-in/oidc/callback?error=access_denied%3Cb%3E&state={state}")
    assert reply.status == 403
    assert "access_denied&lt;b&gt;" in reply.text


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"nonce": "other"}, "of another sign-in"),
        ({"aud": "another-client"}, "for another client"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"exp": 1.0}, "has expired"),
    ],
    ids=["nonce", "audience", "issuer", "expiry"],
)
async def test_a_token_that_is_not_for_this_sign_in_is_refused(
    world: World, claims: dict[str, object], words: str
) -> None:
    world.provider.changes = claims
    reply = await through(world.browser())
    assert reply.status == 502
    assert words in reply.text


async def test_a_new_token_of_another_user_is_not_taken(world: World) -> None:
    browser = world.browser()
    await through(browser)
    world.provider.changes = {"sub": "user-2", "email": "mallory@example.com"}
    world.clock.ahead += 301
    assert (await browser.get("/vms?ask=1")).status == 303


async def test_a_provider_must_be_reached_safely_and_be_itself(world: World) -> None:
    here, sso = "https://a.example/sign-in/oidc/callback", "https://sso.example.com"
    for issuer, redirect, words in (
        (sso.replace("https", "http"), here, "the issuer is not an https URL"),
        (sso, here.replace("https", "http"), "the redirect URL is not an https URL"),
        (sso, "https://a.example", "another path than /sign-in/oidc/callback"),
    ):
        with pytest.raises(ConfigError, match=words):
            Provider(OidcSettings(issuer, CLIENT, redirect))
    world.provider.issuer += "/"
    reply = await world.browser().get("/sign-in/oidc")
    assert reply.status == 502
    assert "another issuer" in reply.text
