"""A cluster of 1,000 nodes with 8,000 GPUs, whose objects carry markup in all that takes a text."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from support.chromium import PLACES, Person, Visit
from support.many_nodes import GPUS, MARKUP, NODES, node
from support.web_site import DEVICES, SeparateSite

GPU = f"/apis/{DEVICES}/v1beta1/sriovgpudevices/{node(700)}-000001000"
AWAY = "The API server does not answer"
TAKEN = "taken"


@pytest.fixture
def administrator(visit: Visit, large_site: SeparateSite) -> Person:
    person = visit(large_site)
    person.sign_in(large_site.administrator)
    return person


def rows(page: Page) -> int:
    return page.get_by_role("row").count()


def test_tables_are_paged_filtered_and_live(
    administrator: Person, large_site: SeparateSite
) -> None:
    page = administrator.go("/gpus")
    expect(page.get_by_text(f"of {NODES * GPUS + 1}")).to_be_visible()
    assert rows(page) < 200
    page.get_by_role("searchbox").fill(node(700))
    expect(page.get_by_text(f"{GPUS} of {GPUS}")).to_be_visible()
    large_site.api.call(f"{GPU}/status", "PATCH", {"status": {"mode": "sriov"}})
    large_site.api.call(GPU, "PATCH", {"spec": {"enabled": True}})
    expect(page.get_by_role("row").filter(has_text=f"{node(700)}-000001000")).to_contain_text(
        "Enabled"
    )


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
    page = administrator.go("/gpus?q=" + node(701))
    row = page.get_by_role("row").filter(has_text=f"{node(701)}-000001000")
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
    large_site.api.call(GPU.replace(node(700), node(701)), "PATCH", {"spec": {"enabled": True}})
    expect(row).to_contain_text("Enabled")
