"""The manager keeps the definitions of Laneway's kinds, and writes nothing where they are right."""

from __future__ import annotations

from typing import Any

import msgspec

from laneway.roles.install import install_crds

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
