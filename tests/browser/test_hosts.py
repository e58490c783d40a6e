"""A node that waits for its reboot, from the list of all nodes to the button that allows it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import expect

from support import prepared_nodes, troubled_cluster
from support.chromium import Person, Visit, axe
from support.prepared_nodes import API
from support.web_site import SeparateSite

PHONE = 390
"""Pixels across."""


def fill(kubeconfig: Path) -> None:
    """In a thread, as the browser has the event loop of this one."""
    with ThreadPoolExecutor(1) as other:
        other.submit(troubled_cluster.fill, kubeconfig).result()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeparateSite]:
    found = SeparateSite(tmp_path_factory.mktemp("hosts") / "data", fill)
    try:
        prepared_nodes.make(found)
        yield found
    finally:
        found.end()


def test_a_node_that_waits_is_found_and_let_go_by_keyboard(
    visit: Visit, prepared: SeparateSite
) -> None:
    person: Person = visit(prepared)
    person.sign_in(prepared.administrator)
    page = person.go("/")
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    person.activate(menu.get_by_role("link", name="Host preparation"))
    node = page.locator("#host-n1")
    expect(node).to_contain_text("Reboot pending")
    expect(page.locator("#policy-gpu-nodes")).to_contain_text("0 of 2 Ready")
    axe(page)

    person.activate(node.get_by_role("link", name="n1", exact=True))
    axe(page)
    person.activate(page.get_by_role("link", name="Allow reboot"))
    expect(page.get_by_role("region", name="What happens")).to_contain_text("cordoned")
    axe(page)
    person.activate(page.get_by_role("button", name="Allow reboot"))
    expect(page.get_by_text("Node n1 may reboot.")).to_be_visible()
    card = page.get_by_role("region", name="Host preparation")
    expect(card).to_contain_text("An administrator has allowed the reboot.")

    # What the manager does then is seen as it happens.
    away = {"spec": {"rollout": {"stage": "Draining", "message": "Still there: team/web."}}}
    prepared.api.call(f"{API}/hostpreparations/n1", "PATCH", away)
    expect(card).to_contain_text("Draining")
    expect(card).to_contain_text("Still there: team/web.")


def test_on_a_phone_what_a_node_waits_for_is_seen(visit: Visit, prepared: SeparateSite) -> None:
    person: Person = visit(prepared)
    person.sign_in(prepared.administrator)
    person.page.set_viewport_size({"width": PHONE, "height": 844})
    page = person.go("/hosts")
    box = page.locator("#host-n3").get_by_text("intel_iommu=off stands in").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= PHONE


def test_a_policy_is_judged_as_it_is_typed(visit: Visit, prepared: SeparateSite) -> None:
    person: Person = visit(prepared)
    person.sign_in(prepared.administrator)
    page = person.go("/hosts/policy")
    page.get_by_role("textbox", name="Name", exact=False).first.fill("all")
    page.get_by_label("Names", exact=True).fill("n1 n2")
    expect(page.get_by_text("It selects 2 nodes.")).to_be_visible()
    expect(page.get_by_text("The API server accepts the policy.")).to_be_visible()
    page.get_by_label("Further kernel arguments").fill("root=/dev/sda")
    expect(page.get_by_text("decides how the host boots")).to_be_visible()
    expect(page.get_by_label("Further kernel arguments")).to_be_focused()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_label("Further kernel arguments")).to_have_attribute("aria-invalid", "true")
    axe(page)
    page.get_by_label("Further kernel arguments").fill("quiet")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("HostPolicy all is created.")).to_be_visible()
