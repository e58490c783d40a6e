"""Claims of devices that have gone: shown, bound to another device, or removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.signing_in import Browser
from support.web_pages import Person, text_of
from support.web_site import DEVICES, SeparateSite

pytestmark = pytest.mark.slow

API = f"/apis/{DEVICES}/v1beta1"
GONE, TWIN, OTHER = "n1-046d-c52b-001004", "n1-046d-c52b-001009", "n1-0781-5583-001005"
LOST = "n2-00000f000"
MESSAGE = "Plug it in at its old port, or delete this claim and claim the right one."


@pytest.fixture
def unplugged(troubled: SeparateSite) -> Iterator[SeparateSite]:
    """A claimed USB device that is not plugged in, one like it, and a claimed card taken out."""
    head = {"apiVersion": f"{DEVICES}/v1beta1"}
    usb = {"vendorID": "046d", "productID": "c52b", "nodeName": "n1", "serial": "A1"}
    states = {
        GONE: {**usb, "port": "1-4", "status": "orphaned", "message": MESSAGE},
        TWIN: {**usb, "port": "1-7", "description": "Receiver (Logitech)"},
        OTHER: {**usb, "vendorID": "0781", "productID": "5583", "port": "1-3"},
    }
    made = [*(("usbdevices", name, "USBDevice") for name in states)]
    made += [
        ("usbdeviceclaims", GONE, "USBDeviceClaim"),
        ("pcideviceclaims", LOST, "PCIDeviceClaim"),
    ]
    spec: dict[str, Any] = {"userName": "alice"}
    for plural, name, kind in made:
        own = {**spec, "address": "0000:0f:00.0", "nodeName": "n2"} if name == LOST else spec
        body = {**head, "kind": kind, **({} if kind == "USBDevice" else {"spec": own})}
        troubled.make(f"{API}/{plural}", body, name)
        if kind == "USBDevice":
            status = {"status": states[name]}
            troubled.api.call(f"{API}/{plural}/{name}/status", "PATCH", status)
    yield troubled
    left = [(f"{API}/{plural}", name) for plural, name, _ in made]
    for path, name in [*left, (f"{API}/usbdeviceclaims", TWIN)]:
        if any(one["metadata"]["name"] == name for one in troubled.api.call(path)["items"]):
            troubled.api.call(f"{path}/{name}", "DELETE")


async def test_the_claim_of_an_unplugged_device_goes_over_to_the_one_that_a_user_chooses(
    unplugged: SeparateSite, admin_of_troubled: Browser
) -> None:
    person = Person(admin_of_troubled)
    listed = await person.waits("/usb?state=gone", lambda text: "1-1 of 1" in text)
    assert f"Device gone {MESSAGE} {GONE}" in listed
    await person.waits(f"/usb/{GONE}", lambda text: "Devices of its kind that are not" in text)
    form = await person.html(f"/usb/{GONE}/move")
    assert TWIN in form
    assert OTHER not in form
    assert (await person.sends(f"/usb/{GONE}/move"))[0] == 422
    assert await person.sends(f"/usb/{GONE}/move", to=TWIN) == (303, f"/usb/{TWIN}")
    await person.waits("/usb?claim=yes", lambda text: TWIN in text and GONE not in text)
    claim = unplugged.api.call(f"{API}/usbdeviceclaims/{TWIN}")
    assert claim["metadata"]["name"] == TWIN


async def test_the_claim_of_a_card_that_was_taken_out_is_shown_and_can_be_removed(
    unplugged: SeparateSite, admin_of_troubled: Browser
) -> None:
    person = Person(admin_of_troubled)
    await person.waits("/pci?state=gone", lambda text: LOST in text and "alice" in text)
    shown = await person.sees(f"/pci/{LOST}")
    assert "The node does not have this device any more." in shown
    assert "What is shown here may be out of date: the node is not ready" in shown
    path = f"/pci/change?do=release&row={LOST}"
    assert f"{LOST}, claimed by alice" in await person.sees(path)
    status, where = await person.sends(path, device=LOST, others="on")
    assert (status, where) == (303, "/pci")
    await person.waits("/pci?state=gone", lambda text: "Nothing matches" in text)


async def test_a_form_without_a_device_says_what_is_missing(admin_of_troubled: Browser) -> None:
    page = await admin_of_troubled.get("/pci/change?do=claim")
    assert page.status == 200
    assert "Select devices in the list first." in text_of(page.text)
    assert (await admin_of_troubled.get("/pci/change?do=claim&row=none")).status == 404
