"""A session that ends while someone fills a form takes nothing from them."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from support.chromium import Visit, axe
from support.web_site import WebSite, rule


def test_a_form_outlives_its_session(visit: Visit, site: WebSite) -> None:
    token = site.account("patient", rule("*", ["*"], ["*"]))
    person = visit(site)
    person.sign_in(token)
    page = person.go("/vms/new")
    name = page.get_by_role("textbox", name="Name", exact=True)
    name.fill("kept")
    page.get_by_label("Image of the container disk").fill("registry.example/debian:12")
    page.get_by_role("checkbox", name="Start it now").uncheck()

    site.api.call("/api/v1/namespaces/default/serviceaccounts/patient", "DELETE")
    notice = page.locator("#session-notice")
    page.get_by_role("button", name="Create").click()
    expect(notice).to_contain_text("What you have typed stays.")
    expect(name).to_have_value("kept")
    axe(page)

    token = site.account("patient")
    with person.context.expect_page() as opened:
        notice.get_by_role("link", name="Sign in in another tab").click()
    opened.value.get_by_label("Token").fill(token)
    opened.value.get_by_role("button", name="Sign in", exact=True).click()
    expect(opened.value.get_by_role("heading", name="You are signed in")).to_be_visible()

    page.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile("/vms/default/kept$"))
    expect(page.get_by_text("VM default/kept is created")).to_be_visible()
    person.complaints.clear()  # htmx says on the console that the session had ended.


def test_a_page_says_by_itself_that_its_session_has_ended(visit: Visit, site: WebSite) -> None:
    person = visit(site)
    person.sign_in(site.account("leaves", rule("*", ["*"], ["*"])))
    page = person.go("/vgpus")
    other = person.context.new_page()
    other.goto(site.address)
    other.get_by_role("button", name="Sign out").click()
    notice = page.locator("#session-notice")
    expect(notice.get_by_role("link", name="Sign in in another tab")).to_be_visible()
    expect(page.locator("#stream-notice")).to_be_hidden()
    person.complaints.clear()  # htmx says on the console that its stream was refused.
