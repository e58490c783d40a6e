"""Nodes whose devices are claimed: what stands on their hardware, and who holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, find_condition
from laneway.core import names
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.kube.resource import served

NODE = "node1"


class Claims:
    """Makes, deletes and awaits the claims of one node."""

    def __init__(self, cluster: Any, node: str = NODE) -> None:
        self.cluster = cluster
        self.node = node

    @staticmethod
    def said(claim: Any, what: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        return said(claim, what)

    def name(self, address: str) -> str:
        return names.pci_object_name(self.node, PciAddress.parse(address))

    async def make(self, address: str, *, name: str = "", owned: bool = False, **more: Any) -> Any:
        """A claim as users make them; `owned` by its PCIDevice."""
        metadata: dict[str, Any] = {"name": name or self.name(address)}
        if owned:
            device = await self.cluster.get(PCIDevice, self.name(address))
            metadata["ownerReferences"] = [
                {
                    "apiVersion": device.api_version,
                    "kind": "PCIDevice",
                    "name": device.metadata.name,
                    "uid": device.metadata.uid,
                }
            ]
        metadata |= {key: more.pop(key) for key in ("annotations", "finalizers") if key in more}
        spec = {"address": address, "nodeName": self.node, "userName": "kim"} | more
        return await self.cluster.client.create(
            served(PCIDeviceClaim),
            {
                "apiVersion": "devices.harvesterhci.io/v1beta1",
                "kind": "PCIDeviceClaim",
                "metadata": metadata,
                "spec": spec,
            },
        )

    async def delete(self, address: str, name: str = "") -> None:
        await self.cluster.client.delete(served(PCIDeviceClaim), name or self.name(address))

    async def answer(self, address: str, reason: str, name: str = "") -> Any:
        """Wait until a claim is answered so."""
        return await self.cluster.until(
            PCIDeviceClaim,
            name or self.name(address),
            lambda one: one is not None and said(one, "Ready")[1] == reason,
        )

    async def bound(self, address: str) -> Any:
        return await self.cluster.until(
            PCIDeviceClaim,
            self.name(address),
            lambda one: (
                one is not None
                and said(one, "Bound")[0] == "True"
                and one.status.passthrough_enabled
            ),
        )

    async def gone(self, address: str, name: str = "") -> None:
        await self.cluster.until(
            PCIDeviceClaim, name or self.name(address), lambda one: one is None
        )


def said(claim: Any, what: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    found = find_condition(claim.status.conditions, what)
    return (found.status, found.reason) if found else ("", "")


@pytest.fixture
def claims(cluster: Any) -> Claims:
    return Claims(cluster)


@pytest.fixture
def driver() -> Callable[[Any, str], str]:
    """The driver that a function of a host has now."""

    def of(host: Any, address: str) -> str:
        function = scan(host).function(PciAddress.parse(address))
        return "gone" if function is None else function.driver

    return of
