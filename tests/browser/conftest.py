"""A site for all tests, and people who come to it with browsers of their own.

Tests share the site and its nodes, so each changes devices of a node that it has for itself.
A test that fails leaves a picture of each page; what a page complains about fails its test.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, StorageState, expect

from support.chromium import HEIGHT, WIDTH, Person, chromium, picture
from support.web_site import WebSite

MODELS = ("a2:3", "a100", "workstation")
FAILED = pytest.StashKey[bool]()

Arrive = Callable[..., Person]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    found = WebSite(tmp_path_factory.mktemp("site") / "data", MODELS)
    yield found
    found.process.end(signal.SIGKILL)


@pytest.fixture(scope="session")
def sessions() -> dict[str, StorageState]:
    """The cookies of those who have signed in, by their tokens; attempts are limited."""
    return {}


@pytest.fixture
def arrive(
    request: pytest.FixtureRequest,
    browser: Browser,
    site: WebSite,
    sessions: dict[str, StorageState],
    tmp_path: Path,
) -> Iterator[Arrive]:
    """Brings someone to the site, signed in by a token; without one, as the administrator."""
    people: list[Person] = []

    def arrive(token: str = "", width: int = WIDTH, height: int = HEIGHT) -> Person:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            reduced_motion="reduce",
            storage_state=sessions.get(token),
        )
        people.append(person := Person(context, site.address))
        if token not in sessions:
            if token:
                person.sign_in(token)
            else:
                expect(person.go(site.once).get_by_role("button", name="Sign out")).to_be_visible()
            sessions[token] = context.storage_state()
        return person

    yield arrive
    if request.node.stash.get(FAILED, False):
        folder = Path(os.environ.get("LANEWAY_PICTURES", tmp_path))
        for person in people:
            for page in person.context.pages:
                file = folder / f"{request.node.name}-{len(list(folder.glob('*.png')))}.png"
                picture(page, file)
                text = page.locator("body").aria_snapshot()
                request.node.add_report_section("teardown", str(file), f"{page.url}\n{text}")
    complaints = [one for person in people for one in person.complaints]
    for person in people:
        person.context.close()
    assert not complaints


@pytest.fixture
def administrator(arrive: Arrive) -> Person:
    return arrive()
