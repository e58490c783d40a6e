"""The answers that programs get: their numbers, their form, and to whom they are refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import aiohttp
import jwt
import pytest

from support.processes import DEVICES, SECONDS
from support.rancher_form import Offer, pci_offers, refuses, vgpu_offers
from support.signing_in import Browser
from support.troubled_cluster import PROFILE, RESOURCE
from support.web_site import SeparateSite, rule

CAPACITY, CLUSTER = "/api/v1/capacity", "/v1/harvester/cluster/local"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
NICS = ("n1-000004000", "n1-000004001", "n3-000004000")
"""The last is of a node that is cordoned."""
LISTED = ("pcideviceclaims", "usbdeviceclaims", "vgpudevices")


class Reply(NamedTuple):
    status: int
    headers: Any
    body: Any


Ask = Callable[..., Awaitable[Reply]]


@pytest.fixture(scope="module")
def nics(troubled: SeparateSite) -> Iterator[None]:
    """Three claimed network cards without holders."""
    path = f"{DEVICES}/pcideviceclaims"
    advertised = {"type": "Advertised", "status": "True", "reason": "Advertised", "message": ""}
    advertised["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    for name in NICS:
        node, _, place = name.partition("-0000")
        spec = {"address": f"0000:{place[:2]}:00.{place[-1]}", "nodeName": node, "userName": "a"}
        head = {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": "PCIDeviceClaim"}
        troubled.make(path, {**head, "spec": spec}, name)
        status = {"resourceName": NIC, "conditions": [advertised]}
        troubled.api.call(f"{path}/{name}/status", "PATCH", {"status": status})
    yield
    for name in NICS:
        troubled.api.call(f"{path}/{name}", "DELETE")


@pytest.fixture
async def ask(troubled: SeparateSite) -> AsyncIterator[Ask]:
    """Sends a request as curl does."""
    async with aiohttp.ClientSession(troubled.address) as http:

        async def asks(path: str, token: str = "", method: str = "GET", **headers: str) -> Reply:
            if token:
                headers["Authorization"] = f"Bearer {token}"
            async with http.request(
                method, path, headers=headers, allow_redirects=False
            ) as response:
                is_json = response.content_type == "application/json"
                body = await response.json() if is_json else await response.text()
                return Reply(response.status, response.headers.copy(), body)

        yield asks


@pytest.fixture
def admin(troubled: SeparateSite) -> str:
    return troubled.administrator


async def until(ask: Ask, token: str, path: str, holds: Callable[[Any], bool]) -> Any:
    """The ledger is made a moment after the change that leads to it."""
    async with asyncio.timeout(SECONDS):
        while True:
            reply = await ask(path, token)
            if reply.status == 200 and holds(reply.body):
                return reply.body
            await asyncio.sleep(0.6)  # a token has two requests in a second


def is_status(reply: Reply, code: int, reason: str) -> str:
    """The words of an error, which has the form of the API server's."""
    body = reply.body
    assert (reply.status, body["kind"], body["apiVersion"], body["status"]) == (
        code,
        "Status",
        "v1",
        "Failure",
    )
    assert (body["code"], body["reason"]) == (code, reason)
    return str(body["message"])


async def test_the_ledger_is_told_by_node_and_by_type(ask: Ask, admin: str, nics: None) -> None:
    def has_all(body: Any) -> bool:
        return any(one["resource"] == NIC and one["total"] == 3 for one in body["types"])

    found = await until(ask, admin, CAPACITY, has_all)
    plain = await ask(CAPACITY, admin, **{"Accept-Encoding": "identity"})
    assert (plain.body, plain.headers["Content-Type"]) == (found, "application/json")
    rows = {(one["node"], one["resource"]): one for one in found["resources"]}
    row = rows["n1", RESOURCE]
    numbers = {"total": 4, "healthy": 3, "held": 1, "reserved": 1, "wanted": 1, "free": 0}
    assert numbers | {"unhealthy": 1, "creatable": 2} == {
        key: row[key] for key in (*numbers, "unhealthy", "creatable")
    }
    assert {(one["name"], one["state"]) for one in row["holders"]} == {
        ("secret", "held"),
        ("kept", "reserved"),
        ("ann", "wanted"),
    }
    other = {"node": "n1", "resource": "nvidia.com/NVIDIA_A2-8Q", "creatable": 1}
    assert found["creatable"] == [other]
    assert (rows["n3", NIC]["healthy"], rows["n3", NIC]["free"]) == (1, 0)
    assert rows["n3", NIC]["closed"] == "the node is cordoned"
    types = {one["resource"]: one for one in found["types"]}
    assert (types[NIC]["total"], types[NIC]["free"], types[NIC]["unhealthy"]) == (3, 2, 1)
    [short] = [one for one in found["short"] if one["name"] == "big"]
    assert (short["namespace"], short["phase"], short["missing"]) == (
        "team",
        "pending",
        {RESOURCE: 3},
    )


async def test_ranchers_form_reads_how_many_are_free(ask: Ask, admin: str, nics: None) -> None:
    """R5: Harvester adds up what no VM can get, and subtracts twice what has gone.

    A node that takes no VM does not count, and nothing comes below 0.
    """
    cluster = await until(ask, admin, CLUSTER, lambda body: "deviceCapacity" in body["links"])
    link = cluster["links"]["deviceCapacity"]
    capacity = await until(ask, admin, link, lambda body: body.get(NIC) == "2")
    assert capacity == {RESOURCE: "0", NIC: "2"}
    [offer] = pci_offers([NIC], capacity)
    assert offer == Offer(NIC, 2.0)
    assert (refuses(offer.available, 2), refuses(offer.available, 3)) == (False, True)
    assert vgpu_offers([PROFILE], capacity) == ()


async def test_what_is_free_is_as_of_now(
    troubled: SeparateSite, ask: Ask, admin: str, nics: None
) -> None:
    """R6: availability was read once, and what came later was not seen."""
    path = f"{DEVICES}/pcideviceclaims/{NICS[0]}/status"
    link = f"{CLUSTER}?link=deviceCapacity"
    await until(ask, admin, link, lambda body: body.get(NIC) == "2")
    for has, free in (({"namespace": "other", "pod": "train"}, "1"), (None, "2")):
        troubled.api.call(path, "PATCH", {"status": {"allocation": has}})
        await until(ask, admin, link, lambda body, free=free: body[NIC] == free)


async def test_behind_ranchers_address_the_link_leads_there(ask: Ask, admin: str) -> None:
    path = f"/k8s/clusters/c-m-abcde{CLUSTER}"
    link = (await ask(path, admin)).body["links"]["deviceCapacity"]
    assert link == f"{path}?link=deviceCapacity"
    assert RESOURCE in (await ask(link, admin)).body


async def test_a_link_leads_to_the_path_that_was_asked(ask: Ask, admin: str) -> None:
    """What is quoted in a path does not become more of it."""
    path = f"/k8s/clusters/a%2F..%2F..%2Fx{CLUSTER}"
    links = (await ask(path, admin)).body["links"]
    assert set(links.values()) == {path, f"{path}?link=deviceCapacity"}


async def test_who_may_not_list_devices_is_told_which_right_is_missing(
    troubled: SeparateSite, ask: Ask
) -> None:
    token = troubled.account("no-claims", rule("devices.harvesterhci.io", ["vgpudevices"]))
    for path in (CAPACITY, CLUSTER, f"{CLUSTER}?link=deviceCapacity"):
        words = is_status(await ask(path, token), 403, "Forbidden")
        assert "You may not list pcideviceclaims, usbdeviceclaims, so" in words
        assert RESOURCE not in words


async def test_holders_in_namespaces_of_others_have_no_names(
    troubled: SeparateSite, ask: Ask
) -> None:
    token = troubled.account("of-team", rule("devices.harvesterhci.io", LISTED))
    troubled.grant("of-team", rule("kubevirt.io", ["virtualmachines"]), namespace="team")
    found = (await ask(CAPACITY, token)).body
    [row] = [one for one in found["resources"] if one["resource"] == RESOURCE]
    assert "secret" not in str(found)
    assert "kept" not in str(found)
    assert {(one["namespace"], one["name"], one["state"]) for one in row["holders"]} == {
        (None, None, "held"),
        (None, None, "reserved"),
        ("team", "ann", "wanted"),
    }
    # The GPUs may not be listed, so what they could carry is not known.
    assert (row["creatable"], found["creatable"], row["free"]) == (None, None, 0)


async def test_a_token_that_is_none_is_refused(ask: Ask) -> None:
    ended = jwt.encode({"sub": "a", "exp": int(time.time()) - 60}, "k" * 32)
    for headers, words in (
        ({}, "This request has no token. Send one of the cluster"),
        ({"Authorization": "Basic YTpi"}, "has no token"),
        ({"Authorization": "Bearer a b"}, "This is not a token"),
        ({"Authorization": "Bearer invented"}, "does not accept this token"),
        ({"Authorization": f"Bearer {ended}"}, "This token has expired"),
    ):
        reply = await ask(CAPACITY, **headers)
        assert words in is_status(reply, 401, "Unauthorized")
        assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert "Set-Cookie" not in reply.headers
        assert reply.headers["Cache-Control"] == "no-store"


async def test_a_session_of_a_browser_is_no_token(admin_of_troubled: Browser) -> None:
    """Else a page of another site could have the browser ask."""
    assert (await admin_of_troubled.get(CAPACITY)).status == 401


async def test_what_is_not_served_is_told_as_the_api_server_tells_it(ask: Ask, admin: str) -> None:
    for method, path, code, reason, words in (
        ("POST", CAPACITY, 405, "MethodNotAllowed", "Use GET"),
        ("DELETE", CLUSTER, 405, "MethodNotAllowed", "Use GET"),
        ("GET", "/api/v1/capacities", 404, "NotFound", "Plan capacity"),
        ("POST", "/api/", 404, "NotFound", "Plan capacity"),
        ("GET", f"{CLUSTER}?link=machineTypes", 404, "NotFound", "no link machineTypes"),
    ):
        reply = await ask(path, admin, method)
        assert words in is_status(reply, code, reason)
        assert (code == 405) == ("Allow" in reply.headers)


async def test_floods_are_answered_with_when_to_come_again(
    ask: Ask, admin: str, admin_of_troubled: Browser
) -> None:
    """Neither those of one token nor of invented ones reach others, or the API server."""
    many = await asyncio.gather(*(ask(CLUSTER, admin) for _ in range(60)))
    refused = [one for one in many if one.status != 200]
    assert refused
    for reply in refused:
        assert "of this user" in is_status(reply, 429, "TooManyRequests")
        assert int(reply.headers["Retry-After"]) == reply.body["details"]["retryAfterSeconds"] > 0
    invented = await asyncio.gather(*(ask(CLUSTER, f"invented-{n}") for n in range(30)))
    assert {one.status for one in invented} <= {401, 429}
    assert "Too many tokens" in is_status(invented[-1], 429, "TooManyRequests")
    assert (await admin_of_troubled.get("/")).status == 200
    await until(ask, admin, CLUSTER, bool)  # a known token needs no attempt
