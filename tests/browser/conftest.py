"""A site for all tests, and people who come to it with browsers of their own.

Tests share the site and its nodes, so each changes devices of a node that it has for itself.
A test that fails leaves a picture of each page; what a page complains about fails its test.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, ViewportSize, expect

from support import many_nodes
from support.chromium import HEIGHT, WIDTH, Arrive, Person, Visit, chromium, picture
from support.web_site import SeparateSite, SimulatedSite, WebSite

MODELS = ("a2:5", "l40s", "a100", "workstation")
FAILED = pytest.StashKey[bool]()


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
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedSite]:
    found = SimulatedSite(tmp_path_factory.mktemp("site") / "data", MODELS, "--rancher")
    yield found
    found.end()


@pytest.fixture(scope="session")
def large_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeparateSite]:
    """A cluster of 1,000 nodes, whose objects are made."""
    found = SeparateSite(tmp_path_factory.mktemp("large") / "data", many_nodes.make)
    yield found
    found.end()


@pytest.fixture(scope="session")
def sessions() -> dict[str, StorageState]:
    """The cookies of those who have signed in, by their tokens; attempts are limited."""
    return {}


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    people: list[Person] = []

    def visit(
        site: WebSite,
        state: StorageState | None = None,
        width: int = WIDTH,
        height: int = HEIGHT,
    ) -> Person:
        size = ViewportSize(width=width, height=height)
        context = browser.new_context(viewport=size, reduced_motion="reduce", storage_state=state)
        people.append(Person(context, site.address))
        return people[-1]

    yield visit
    if request.node.stash.get(FAILED, False):
        for page in (page for person in people for page in person.context.pages):
            _keep(page, request.node, Path(os.environ.get("LANEWAY_PICTURES", tmp_path)))
    complaints = [one for person in people for one in person.complaints]
    for person in people:
        person.context.close()
    assert not complaints


def _keep(page: Page, test: pytest.Item, folder: Path) -> None:
    """How a page looked when its test failed."""
    file = folder / f"{test.name}-{len(list(folder.glob('*.png')))}.png"
    picture(page, file)
    text = page.locator("body").aria_snapshot()
    test.add_report_section("teardown", str(file), f"{page.url}\n{text}")


@pytest.fixture
def arrive(visit: Visit, site: SimulatedSite, sessions: dict[str, StorageState]) -> Arrive:
    def arrive(token: str = "", width: int = WIDTH, height: int = HEIGHT) -> Person:
        person = visit(site, sessions.get(token), width, height)
        if token in sessions:
            return person
        if token:
            person.sign_in(token)
        else:
            expect(person.go(site.once).get_by_role("button", name="Sign out")).to_be_visible()
        sessions[token] = person.context.storage_state()
        return person

    return arrive


@pytest.fixture
def administrator(arrive: Arrive) -> Person:
    return arrive()
