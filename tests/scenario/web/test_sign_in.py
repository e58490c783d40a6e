"""Users sign in with tokens of the cluster, and what is not theirs is refused."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network

import jwt
import pytest

from laneway.web.session.attempts import Attempts, Rate
from laneway.web.session.live import Limits
from laneway.web.session.sign_in import Settings, SignIn
from support.signing_in import (
    ADMIN,
    ALICE,
    NAMELESS,
    Browser,
    Place,
    cluster,
    csrf_of,
    render,
    site,
)

Visit = Callable[[], Browser]


class Clock:
    """The time of sessions and keys, which a test moves on."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with cluster() as found:
        yield found


@pytest.fixture
def sign_in(place: Place, clock: Clock) -> SignIn:
    settings = Settings(Limits(idle=1800, longest=43200, rotate=600, grace=60))
    return SignIn(place.config, render, settings, clock=clock)


@pytest.fixture
async def visit(sign_in: SignIn) -> AsyncIterator[Visit]:
    """Opens browsers at the site."""
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(site(sign_in))

        def opened() -> Browser:
            browser = Browser(url)
            stack.push_async_exit(browser)
            return browser

        yield opened


async def test_a_page_leads_to_sign_in_and_back_to_it(visit: Visit) -> None:
    browser = visit()
    sent = await browser.get("/gpus?node=node1")
    assert sent.status == 303
    assert sent.headers["Location"] == "/sign-in?next=%2Fgpus%3Fnode%3Dnode1"
    form = await browser.get(sent.headers["Location"])
    assert 'name="next" value="/gpus?node=node1"' in form.text
    fields = {"token": f" {ALICE}\n", "next": "/gpus?node=node1", "csrf": csrf_of(form.text)}
    back = await browser.post("/sign-in", fields)
    assert (back.status, back.headers["Location"]) == (303, "/gpus?node=node1")
    assert "alice" in (await browser.get("/gpus?node=node1")).text


async def test_cookies_are_out_of_reach_of_scripts_other_sites_and_plain_http(
    visit: Visit,
) -> None:
    browser = visit()
    reply = await browser.sign_in(ALICE)
    cookies = reply.headers.getall("Set-Cookie")
    assert len(cookies) == 2
    for cookie in cookies:
        for attribute in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"):
            assert attribute in cookie.split("; ")
        assert "Max-Age" not in cookie
    assert ALICE not in "".join(cookies)
    assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("of-another-cluster", 422, "does not accept this token"),
        (NAMELESS, 422, "does not accept this token"),
        ("", 422, "No token was entered"),
        ("töken", 422, "This is not a token"),
        (jwt.encode({"exp": 1}, "k" * 32), 422, "has expired"),
    ],
    ids=["unknown", "nameless", "empty", "malformed", "expired"],
)
async def test_a_token_of_no_use_is_refused_in_words_that_do_not_repeat_it(
    visit: Visit, caplog: pytest.LogCaptureFixture, token: str, status: int, words: str
) -> None:
    browser = visit()
    reply = await browser.sign_in(token, "/vms")
    assert reply.status == status
    assert words in reply.text
    assert 'value="/vms"' in reply.text
    assert not browser.cookie("session")
    assert not token or token not in reply.text + caplog.text


async def test_the_server_being_away_is_not_the_tokens_fault(place: Place, visit: Visit) -> None:
    browser = visit()
    form = await browser.get("/sign-in")
    await place.server.stop()
    reply = await browser.post("/sign-in", {"token": ALICE, "csrf": csrf_of(form.text)})
    assert reply.status == 503
    assert "cannot be reached" in reply.text


async def test_a_stolen_cookie_is_worth_nothing_after_sign_out(visit: Visit) -> None:
    browser = visit()
    await browser.sign_in(ALICE)
    stolen = dict(browser.cookies)
    page = await browser.get("/")
    out = await browser.post("/sign-out", {"csrf": csrf_of(page.text)})
    assert out.headers["Location"] == "/sign-in?notice=signed_out"
    assert "You are signed out" in (await browser.get(out.headers["Location"])).text
    thief = visit()
    thief.cookies = stolen
    assert (await thief.get("/")).status == 303


async def test_signing_in_again_ends_the_session_before(visit: Visit) -> None:
    browser = visit()
    page = await browser.get("/sign-in")  # It stays open in a tab.
    form = {"token": ADMIN, "csrf": csrf_of(page.text)}
    await browser.sign_in(ALICE)
    before = dict(browser.cookies)
    assert (await browser.post("/sign-in", form)).status == 303
    assert "admin" in (await browser.get("/")).text
    browser.cookies = before
    assert (await browser.get("/")).status == 303


async def test_an_unused_session_ends_and_its_form_is_not_lost(visit: Visit, clock: Clock) -> None:
    browser = visit()
    await browser.sign_in(ALICE)
    fields = {"csrf": csrf_of((await browser.get("/edit")).text), "what": "typed"}
    clock.now += 1801
    plain = await browser.post("/edit", fields)
    assert plain.status == 401
    assert "go back in this one and send the form again" in plain.text
    htmx = await browser.post("/edit", fields, HX_Request="true")
    assert htmx.status == 401
    assert htmx.headers["HX-Retarget"] == "#session-notice"
    assert htmx.headers["HX-Reselect"] == "unset"
    assert "What you have typed stays" in htmx.text
    # In another tab of the browser the user signs in again.
    assert (await browser.sign_in(ALICE, "/sign-in/done")).headers["Location"] == "/sign-in/done"
    assert (await browser.post("/edit", fields)).text == "alice wrote typed"
    # A form of Alice's is not sent in the name of another user.
    page = await browser.get("/")
    await browser.post("/sign-out", {"csrf": csrf_of(page.text)})
    await browser.sign_in(ADMIN)
    refused = await browser.post("/edit", fields)
    assert refused.status == 403
    assert "of another user" in refused.text


async def test_what_a_page_does_by_itself_keeps_no_session_alive(
    visit: Visit, clock: Clock
) -> None:
    browser = visit()
    await browser.sign_in(ALICE)
    clock.now += 1700
    assert (await browser.get("/session")).status == 204
    assert (await browser.get("/", Accept="text/event-stream")).status == 200
    clock.now += 200
    assert (await browser.get("/", Accept="text/event-stream")).status == 401
    assert (await browser.get("/session", HX_Request="true")).status == 401
    boosted = await browser.get("/vms", HX_Request="true", HX_Boosted="true")
    assert boosted.headers["HX-Redirect"] == "/sign-in?next=%2Fvms"


@pytest.mark.parametrize("what", ["ask", "pods"], ids=["reading", "rights"])
async def test_a_token_that_the_server_no_longer_accepts_ends_the_session(
    place: Place, sign_in: SignIn, visit: Visit, what: str
) -> None:
    browser = visit()
    await browser.sign_in(ALICE)
    authenticator = place.server._authenticator
    assert authenticator is not None
    authenticator._users.clear()
    reply = await browser.get(f"/vms?{what}=1")
    assert reply.headers["Location"] == f"/sign-in?next=%2Fvms%3F{what}%3D1&notice=session_refused"
    assert len(sign_in.sessions) == 0


async def test_a_session_that_ends_while_a_page_is_made_leads_to_sign_in(visit: Visit) -> None:
    browser = visit()
    await browser.sign_in(ALICE)
    reply = await browser.get("/vms?ends=1&ask=1")
    assert reply.status == 303
    assert "notice=session_refused" in reply.headers["Location"]


async def test_a_write_from_another_site_is_refused(visit: Visit) -> None:
    browser = visit()
    await browser.sign_in(ALICE)
    csrf = csrf_of((await browser.get("/")).text)
    fields = {"csrf": csrf, "what": "x"}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert (await browser.post("/edit", fields, **headers)).status == 403
    other = await visit().get("/sign-in")
    for given in ("", "0" * 64, csrf_of(other.text)):
        assert (await browser.post("/edit", {"csrf": given, "what": "x"})).status == 403
    assert (await browser.post("/edit", fields, Origin=browser.url)).status == 200
    assert (await browser.post("/edit", {"what": "x"}, X_CSRF_Token=csrf)).status == 200


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-www-form-urlencoded; charset=none", b"csrf=x"),
        ("application/x-www-form-urlencoded", b"csrf=\xff"),
        ("multipart/form-data", b"csrf=x"),
        ("multipart/form-data; boundary=a", b"--a\r\nno header\r\n\r\nx"),
        (
            "multipart/form-data; boundary=a",
            (
                b"--a\r\nContent-Disposition: form-data; name=csrf\r\n"
                b"Content-Transfer-Encoding: none\r\n\r\nx\r\n--a--\r\n"
            ),
        ),
    ],
    ids=["charset", "bytes", "boundary", "header", "encoding"],
)
async def test_what_is_no_form_is_refused(
    visit: Visit, caplog: pytest.LogCaptureFixture, content_type: str, body: bytes
) -> None:
    browser = visit()
    headers = {"Content-Type": content_type}
    async with browser.http.post(f"{browser.url}/sign-in", data=body, headers=headers) as reply:
        assert reply.status == 400
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_browser_that_keeps_no_cookies_is_told_why(visit: Visit) -> None:
    browser = visit()
    form = await browser.get("/sign-in")
    browser.cookies.clear()
    reply = await browser.post("/sign-in", {"token": ALICE, "csrf": csrf_of(form.text)})
    assert reply.status == 403
    assert "Open the interface by HTTPS" in reply.text


async def test_another_site_signs_no_browser_in(visit: Visit) -> None:
    attacker, victim = visit(), visit()
    form = await attacker.get("/sign-in")
    fields = {"token": ADMIN, "csrf": csrf_of(form.text)}
    assert (await victim.post("/sign-in", fields)).status == 403
    await victim.get("/sign-in")
    assert (await victim.post("/sign-in", fields)).status == 403


async def test_a_link_on_another_site_finds_the_session(visit: Visit) -> None:
    browser = visit()
    await browser.sign_in(ALICE)
    reply = await browser.follow("/vms?a=1&b=%22")
    assert '<meta http-equiv="refresh" content="0; url=/vms?a=1&amp;b=%22">' in reply.text
    assert "Set-Cookie" not in reply.headers
    assert "alice" in (await browser.get("/vms?a=1&b=%22")).text
    hidden = await browser.follow("//evil.example/")
    assert "evil" not in hidden.text


async def test_an_address_with_a_code_signs_in_once(sign_in: SignIn, visit: Visit) -> None:
    path = sign_in.once(ADMIN)
    assert ADMIN not in path
    browser = visit()
    reply = await browser.get(path)
    assert "url=/" in reply.text
    assert "admin" in (await browser.get("/")).text
    again = await visit().get(path)
    assert again.status == 403
    assert "Each address works once" in again.text


async def test_behind_a_trusted_proxy_cookies_are_of_this_host_alone(place: Place) -> None:
    settings = Settings(proxies=(ip_network("127.0.0.0/8"),))
    async with site(SignIn(place.config, render, settings)) as url, Browser(url) as browser:
        form = await browser.get("/sign-in", X_Forwarded_Proto="https")
        fields = {"token": ALICE, "csrf": csrf_of(form.text)}
        await browser.post("/sign-in", fields, X_Forwarded_Proto="https")
        assert len(browser.cookies) == 2
        assert all(name.startswith("__Host-laneway-") for name in browser.cookies)
        assert "alice" in (await browser.get("/", X_Forwarded_Proto="https")).text
        assert (await browser.get("/")).status == 303


async def test_two_interfaces_on_one_machine_do_not_sign_each_other_out(place: Place) -> None:
    async with (
        site(SignIn(place.config, render)) as one,
        site(SignIn(place.config, render)) as other,
        Browser(one) as browser,
    ):
        await browser.sign_in(ALICE)
        browser.url = other
        await browser.sign_in(ADMIN)
        assert "admin" in (await browser.get("/")).text
        browser.url = one
        assert "alice" in (await browser.get("/")).text


async def test_too_many_attempts_are_put_off(place: Place) -> None:
    attempts = Attempts(Rate(2, 60.0))
    sign_in = SignIn(place.config, render, attempts=attempts)
    async with site(sign_in) as url, Browser(url) as browser:
        for _ in range(2):
            assert (await browser.sign_in("wrong")).status == 422
        reply = await browser.sign_in(ALICE)
        assert reply.status == 429
        assert "Too many sign-ins" in reply.text
        assert 0 < int(reply.headers["Retry-After"]) <= 60
