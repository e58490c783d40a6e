"""Claims of a whole IOMMU group where the API server fails in the middle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from kubebasics.serving.listening import listening
from laneway.api import ObjectMeta, PCIDevice, PCIDeviceStatus
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.web.caches import Caches
from laneway.web.claiming import change
from laneway.web.page import Again, Done, Report
from laneway.web.pages.pci.family import FAMILY
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


async def claimed(code: int, back: str) -> Done | Again | Report:
    """What the page answers where the server refuses the second of three claims so late."""
    form: Mapping[str, Sequence[str]] = {"device": GROUP}
    real = []

    async def create(request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        if "dryRun" not in request.query:
            real.append(body)
            if len(real) == 2:
                status = {"kind": "Status", "code": code, "message": "no more", "reason": "X"}
                return web.json_response(status, status=code)
        return web.json_response(body, status=201)

    app = web.Application()
    app.router.add_post("/{path:.*}", create)
    async with (
        listening(app, "127.0.0.1", 0) as port,
        Client(ClusterConfig(Cluster(f"http://127.0.0.1:{port}")), connect_delays=()) as client,
    ):
        ledger = cast(Any, SimpleNamespace(ledger=None))
        site = Site(known(client), ledger, Rendering(Texts()), cast(Any, None))
        access = SimpleNamespace(may=lambda _asked: True)
        user = cast(User, SimpleNamespace(name="alice", access=access, client=client))
        visit = Visit(site, user, parse(f"/pci/change?do=claim&back={back}"), form=form)
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
