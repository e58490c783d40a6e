"""The manager keeps the definitions of Laneway's kinds, and writes nothing where they are right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.roles.install import Stored, install_crds

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "pcidevices.devices.harvesterhci.io"


async def versions(cluster: Any) -> dict[str, str]:
    found = msgspec.json.decode(await cluster.client.raw(CRDS))["items"]
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found}


async def test_what_is_right_is_left_alone(cluster: Any) -> None:
    before = await versions(cluster)

    await install_crds(cluster.client)

    assert NAME in before
    assert await versions(cluster) == before


async def test_what_is_of_another_version_is_brought_up_to_date(cluster: Any) -> None:
    before = msgspec.json.decode(await cluster.client.raw(f"{CRDS}/{NAME}"))
    older = msgspec.json.decode(msgspec.json.encode(before["spec"]["versions"]))
    older[0]["additionalPrinterColumns"].pop()
    body = {"spec": {"versions": older}}
    await cluster.client.call("PATCH", f"{CRDS}/{NAME}", {}, body, "application/merge-patch+json")

    await install_crds(cluster.client)

    after = msgspec.json.decode(await cluster.client.raw(f"{CRDS}/{NAME}"))
    assert after["spec"] == before["spec"]


async def test_what_is_missing_is_made(cluster: Any) -> None:
    await cluster.client.call("DELETE", f"{CRDS}/{NAME}")

    await install_crds(cluster.client)

    assert NAME in await versions(cluster)


@pytest.mark.realapi
async def test_what_the_server_stored_otherwise_is_written_once(
    cluster: Any, requests: list[tuple[str, str]]
) -> None:
    """Kubernetes before 1.25 drops the validation rules."""
    stored: Stored = {}
    await install_crds(cluster.client, stored)
    requests.clear()

    await install_crds(cluster.client, stored)

    assert {method for method, _ in requests} == {"GET"}
