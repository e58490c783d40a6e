"""Debian's chromium, and a person at it, who has a keyboard, a mouse and eyes.

The browser resolves no name, so a page that needed anything but the site would fail. What a page
reports on its console, a violation of its content security policy included, fails the test.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    expect,
    sync_playwright,
)

SECONDS = 20.0
WIDTH, HEIGHT = 1280, 800
PLACES = (
    "/",
    "/gpus",
    "/vgpus",
    "/mig",
    "/pci",
    "/networks",
    "/usb",
    "/vms",
    "/pools",
    "/nodes",
    "/hosts",
    "/activity",
    "/history",
    "/no-such-page",
)
"""A page of each kind, and an address that is none."""
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_ANSWERED = "Failed to load resource: the server responded with a status of"
"""A refusal that a test provokes; chromium reports each."""
_REPLACED = ("htmx:sendAbort,", "htmx:afterRequest,")
"""A request that a later one of the same form takes the place of; htmx reports each."""
_MOST_KEYS = 400

expect.set_options(timeout=SECONDS * 1000)


@contextmanager
def chromium() -> Iterator[Browser]:
    """One process, with nothing kept from earlier."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


class Person:
    """Someone at a browser of their own."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        context.set_default_timeout(SECONDS * 1000)
        self.context = context
        self.address = address
        self.complaints: list[str] = []
        """What pages reported on the console."""
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        self.page = context.new_page()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith((_ANSWERED, *_REPLACED)):
            self.complaints.append(f"{message.text} ({message.location['url']})")

    def go(self, place: str) -> Page:
        """Open a page of the site by its address."""
        self.page.goto(place if "://" in place else self.address + place)
        return self.page

    def sign_in(self, token: str) -> None:
        """By the form, as with a token that was sent by mail."""
        page = self.go("/sign-in")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()

    # ---- by keyboard alone ----

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def reach(self, target: Locator, key: str = "Tab") -> None:
        """Press a key until the focus is there, which must be seen there."""
        expect(target).to_be_attached()
        for _ in range(_MOST_KEYS):
            if target.evaluate("element => element === document.activeElement"):
                expect(target).to_be_visible()
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"{key} does not reach {target}")

    def activate(self, target: Locator) -> None:
        """Go there and press Enter."""
        self.reach(target)
        self.press("Enter")


Arrive = Callable[..., Person]
"""Brings someone who is signed in by a token; without one, the administrator."""
Visit = Callable[..., Person]
"""Brings someone with cookies from elsewhere, or without any."""


def axe(page: Page) -> None:
    """What a page offers can be perceived and reached by everyone, in light and in dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert not found.violations_count, f"{page.url}, {scheme}: {found.generate_report()}"
    page.emulate_media(color_scheme="light")


def picture(page: Page, file: Path) -> None:
    """What a person sees, without what blinks."""
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, animations="disabled", caret="hide")
