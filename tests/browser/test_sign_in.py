"""Signing in and out, as a person sees it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from support.chromium import Person, Visit, axe
from support.web_site import DEVICES, SimulatedSite, WebSite, rule


def signed_in(page: Page) -> None:
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def signed_out(page: Page) -> None:
    expect(page.get_by_label("Token")).to_be_visible()


def test_the_printed_address_signs_in_once(
    administrator: Person, visit: Visit, site: SimulatedSite
) -> None:
    signed_in(administrator.go("/"))

    other = visit(site)
    signed_out(other.go(site.once))
    expect(other.page.get_by_role("alert")).to_contain_text("Each address works once")
    axe(other.page)
    signed_out(other.go("/vgpus"))


def test_by_keyboard_to_the_page_that_was_wanted(visit: Visit, site: WebSite) -> None:
    token = site.account("typist", rule(DEVICES, ["*"]))
    person = visit(site)
    page = person.go("/vgpus?node=sim-a2-1")
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type("no-token-of-this-cluster")
    person.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("does not accept this token")
    expect(page.get_by_label("Token")).to_be_focused()
    axe(page)
    page.keyboard.insert_text(token)
    person.press("Enter")
    signed_in(page)
    assert page.url == f"{site.address}/vgpus?node=sim-a2-1"
    expect(page.get_by_role("heading", level=1)).to_have_text("vGPU devices")
    assert token not in page.content()


def test_cookies_that_were_taken_are_of_no_use_after_sign_out(visit: Visit, site: WebSite) -> None:
    token = site.account("leaver", rule(DEVICES, ["*"]))
    person = visit(site)
    person.sign_in(token)
    taken = person.context.storage_state()
    thief = visit(site, taken)
    signed_in(thief.go("/vgpus"))

    page = person.page
    page.get_by_role("button", name="Sign out").click()
    signed_out(page)
    signed_out(thief.go("/vgpus"))
    page.go_back()
    page.reload()
    signed_out(page)
