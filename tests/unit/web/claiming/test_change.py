"""Claims and releases where the API server fails in the middle, or is ahead of the caches."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from aiohttp import web

from kubebasics.serving.listening import listening
from laneway.api import (
    ObjectMeta,
    PCIDevice,
    PCIDeviceStatus,
    USBDevice,
    USBDeviceClaim,
    USBDeviceStatus,
)
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.web.caches import Caches
from laneway.web.claiming import change
from laneway.web.page import Again, Done, Report
from laneway.web.pages.pci.family import FAMILY
from laneway.web.pages.usb import moving
from laneway.web.place import parse
from laneway.web.rendering import Rendering, Texts
from laneway.web.visit import Site, User, Visit

GROUP = [f"n1-00000800{number}" for number in range(3)]


def known(client: Client) -> Caches:
    caches = Caches.of(client)
    for number, name in enumerate(GROUP):
        address = f"0000:08:00.{number}"
        status = PCIDeviceStatus(address=address, node_name="n1", iommu_group="9", claimable=True)
        caches.pci.store.put(PCIDevice(metadata=ObjectMeta(name=name), status=status))
    return caches


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def visiting(answer: Answer, address: str, **form: Sequence[str]) -> AsyncIterator[Visit]:
    """The visit of a user who may do everything, with an API server that answers so."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with (
        listening(app, "127.0.0.1", 0) as port,
        Client(ClusterConfig(Cluster(f"http://127.0.0.1:{port}")), connect_delays=()) as client,
    ):
        ledger = cast(Any, SimpleNamespace(ledger=None))
        site = Site(known(client), ledger, Rendering(Texts()), cast(Any, None))
        access = SimpleNamespace(may=lambda _asked: True, load=AsyncMock())
        user = cast(User, SimpleNamespace(name="alice", access=access, client=client))
        yield Visit(site, user, parse(address), form=form)


def refusing(code: int, which: int) -> Answer:
    """Takes everything but the write of this number, so late that the dry runs were taken."""
    real = []

    async def answer(request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        if not {"dryRun"} & {*request.query, *body}:
            real.append(body)
            if len(real) == which:
                reason = "AlreadyExists" if code == 409 else "X"
                status = {"kind": "Status", "code": code, "message": "no more", "reason": reason}
                return web.json_response(status, status=code)
        return web.json_response(body, status=201)

    return answer


async def claimed(code: int, back: str) -> Done | Again | Report:
    """What the page answers where the server refuses the second of three claims so late."""
    address = f"/pci/change?do=claim&back={back}"
    async with visiting(refusing(code, 2), address, device=GROUP) as visit:
        [action] = change.actions_of(FAMILY)
        return await action.act(visit)


@pytest.mark.parametrize(("code", "outcome"), [(403, "refused"), (500, "unknown")])
async def test_what_was_done_is_said_with_the_way_back(code: int, outcome: str) -> None:
    report = await claimed(code, "/pci%3Fnode%3Dn1")
    assert isinstance(report, Report)
    assert report.title == "1 of 3 devices claimed"
    found = [(item.title, item.outcome) for item in report.items]
    assert found == list(zip(GROUP, ("done", outcome, "left"), strict=True))
    assert report.items[1].words == "no more"
    assert report.url == "/pci?node=n1"
    way_back = parse(report.back_url)
    assert (way_back.path, way_back.get("do")) == ("/pci/change", "release")
    assert way_back.all("row") == (GROUP[0],)


@pytest.mark.parametrize("back", ["//elsewhere.example/pci?", "/pci.example?", "", "/usb?q=1"])
async def test_the_way_on_is_the_list_whatever_the_address_says(back: str) -> None:
    report = await claimed(403, back.replace("?", "%3F"))
    assert isinstance(report, Report)
    assert report.url == "/pci"


async def test_a_claim_that_no_cache_has_yet_can_be_released() -> None:
    async with visiting(refusing(403, 0), f"/pci/change?do=release&row={GROUP[0]}") as visit:
        [page] = change.pages_of(FAMILY)
        await page.prepare(visit)
        [line] = page.context(visit)["possible"]
    assert (line.row.name, line.outcome, line.warnings) == (GROUP[0], "done", ())


async def test_the_old_claim_stays_where_another_user_has_claimed_the_new_device() -> None:
    model = USBDeviceStatus(node_name="n1", vendor_id="046d", product_id="c52b")
    address = parse("/usb/old/move", {"name": "old"})
    async with visiting(refusing(409, 1), "/", to=["new"]) as visit:
        visit.place = address
        for name in ("old", "new"):
            visit.caches.usb.store.put(USBDevice(metadata=ObjectMeta(name=name), status=model))
        visit.caches.usb_claims.store.put(USBDeviceClaim(metadata=ObjectMeta(name="old")))
        [action] = moving.ACTIONS
        report = await action.act(visit)
    assert isinstance(report, Report)
    assert [(item.url, item.outcome) for item in report.items] == [
        ("/usb/new", "unchanged"),
        ("/usb/old", "left"),
    ]
