"""No two Services have the same port of the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite.writes import cluster_ips

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, *ports: dict[str, Any], kind: str = "NodePort") -> dict[str, Any]:
    named = [{"name": f"p{index}", "port": index + 1} | p for index, p in enumerate(ports)]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": named}}


def numbers(reply: Any) -> list[int | None]:
    return [port.get("nodePort") for port in reply.body["spec"]["ports"]]


@pytest.mark.parametrize("number", [70000, 29999, 32768, -1, 80])
async def test_a_node_port_is_in_the_range(api: Any, number: int) -> None:
    reply = await api("POST", SERVICES, service("a", {}, {"nodePort": number}))
    assert reply.status == 422
    assert reply.body["message"] == (
        f'Service "a" is invalid: spec.ports[1].nodePort: Invalid value: {number}: provided port '
        "is not in the valid range. The range of valid ports is 30000-32767"
    )


async def test_a_node_port_belongs_to_one_service(api: Any) -> None:
    first = await api("POST", SERVICES, service("a", {"nodePort": 30007}))
    assert numbers(first) == [30007]
    taken = service("b", {"nodePort": 30007, "protocol": "UDP"}, kind="LoadBalancer")
    refused = await api("POST", SERVICES, taken)
    assert refused.status == 422
    assert refused.body["message"].endswith(
        "spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated"
    )
    assert (await api("POST", SERVICES, service("b", {}))).status == 201
    change = {"spec": {"ports": [{"name": "p0", "port": 1, "nodePort": 30007}]}}
    assert (await api.patch(f"{SERVICES}/b", change)).status == 422
    assert (await api("DELETE", f"{SERVICES}/a")).status == 200
    assert numbers(await api.patch(f"{SERVICES}/b", change)) == [30007]


async def test_one_port_may_speak_two_protocols(api: Any) -> None:
    both = service("a", {"nodePort": 30007}, {"nodePort": 30007, "protocol": "UDP"})
    assert numbers(await api("POST", SERVICES, both)) == [30007, 30007]


async def test_free_ports_are_given_and_kept(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_ips, "NODE_PORTS", range(30000, 30004))
    first = await api("POST", SERVICES, service("a", {}, {"nodePort": 30002}))
    again = await api.patch(f"{SERVICES}/a", {"metadata": {"labels": {"a": "b"}}})
    assert numbers(again) == numbers(first)
    unnamed = service("a", {}, {})["spec"]["ports"]
    assert numbers(await api.patch(f"{SERVICES}/a", {"spec": {"ports": unnamed}})) == (
        numbers(first)
    )
    second = await api("POST", SERVICES, service("b", {}, {}))
    assert sorted(numbers(first) + numbers(second)) == [30000, 30001, 30002, 30003]
    full = await api("POST", SERVICES, service("c", {}))
    assert full.status == 422
    assert full.body["message"].endswith("failed to allocate a nodePort: range is full")


async def test_who_needs_no_node_ports_gives_them_back(api: Any) -> None:
    assert (await api("POST", SERVICES, service("a", {"nodePort": 30007}))).status == 201
    inside = await api.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})
    assert numbers(inside) == [None]
    assert numbers(await api("POST", SERVICES, service("b", {"nodePort": 30007}))) == [30007]
