"""1,000 nodes with 8,000 vGPUs, made objects with markup in all that takes a text."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from support.chromium import PLACES, Person, Visit
from support.many_nodes import EACH, MARKUP, NODES, node
from support.web_site import DEVICES, SeparateSite

AWAY = "The API server does not answer"
TAKEN = "taken"


@pytest.fixture
def administrator(visit: Visit, large_site: SeparateSite) -> Person:
    person = visit(large_site)
    person.sign_in(large_site.administrator)
    return person


def vgpu_of(name: str) -> str:
    return f"{name}-000001000"


def enable(site: SeparateSite, name: str) -> None:
    path = f"/apis/{DEVICES}/v1beta1/vgpudevices/{vgpu_of(name)}"
    site.api.call(path, "PATCH", {"spec": {"enabled": True}})


def test_tables_are_paged_filtered_and_live(
    administrator: Person, large_site: SeparateSite
) -> None:
    name = node(700)
    page = administrator.go("/vgpus")
    expect(page.get_by_text(f"of {NODES * EACH + 1}")).to_be_visible()
    assert page.get_by_role("row").count() < 200
    page.get_by_role("searchbox").fill(name)
    expect(page.get_by_text(f"{EACH} of {EACH}")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=vgpu_of(name))
    expect(row).not_to_contain_text("In progress")
    enable(large_site, name)
    expect(row).to_contain_text("In progress")


def test_texts_of_objects_and_addresses_are_only_shown(administrator: Person) -> None:
    odd = ("/gpus/odd", "/vgpus/odd", "/pci/odd", "/usb/odd", "/networks/odd")
    query = quote(MARKUP)
    fields = "&".join(f"{name}={query}" for name in ("q", "node", "state", "group", "sort", "page"))
    for place in (*PLACES, *odd, f"/vgpus?{fields}", f"/{query}", f"/gpus/{query}"):
        page = administrator.go(place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.title() != TAKEN
        assert page.locator("img[src=x]").count() == 0
    expect(administrator.go(f"/vgpus?q={query}").get_by_role("searchbox")).to_have_value(MARKUP)


def test_a_page_outlives_the_api_server(administrator: Person, large_site: SeparateSite) -> None:
    page = administrator.go("/vgpus?q=" + node(701))
    row = page.get_by_role("row").filter(has_text=vgpu_of(node(701)))
    expect(row).to_be_visible()
    large_site.stop_server()
    try:
        expect(page.get_by_text(AWAY)).to_be_visible()
        expect(row).to_be_visible()
        page.reload()
        expect(page.get_by_text(AWAY)).to_be_visible()
        expect(row).to_be_visible()
    finally:
        large_site.start_server()
    expect(page.get_by_text(AWAY)).to_be_hidden()
    enable(large_site, node(701))
    expect(row).to_contain_text("In progress")
