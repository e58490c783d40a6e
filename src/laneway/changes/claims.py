"""Claims of whole devices: PCI and USB.

A claim is the object that every user may write, by the rules of admission. The agent of the node
binds the device then, and frees it before a deleted claim is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from laneway.api import PCIDevice, PCIDeviceClaim, USBDevice, USBDeviceClaim, find_condition
from laneway.changes.errors import UnfinishedError
from laneway.changes.listening import SILENT, Listener
from laneway.changes.waiting import awaited
from laneway.changes.watching import states
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, UnreachableError
from laneway.kube.resource import KubeObject, Resource, served
from laneway.views.answers import Answer, answer_of

_PCI: Resource[KubeObject] = served(PCIDeviceClaim)
_USB: Resource[KubeObject] = served(USBDeviceClaim)
_NOT_BOUND = ("NotBound", "NotReady")
"""Reasons of a claim whose device is not bound yet, and not refused either."""


class Device(NamedTuple):
    """A device that can be claimed."""

    title: str
    """`NODE/ADDRESS`, or `NODE/PORT` of a USB device."""
    node: str
    name: str
    """Of its object and of its claim."""
    claims: Resource[KubeObject]
    address: str = ""
    """Of a PCI device."""
    is_exact: bool = False
    """Whether VMs are to get this PCI device alone, and none that is like it."""
    user: str = ""
    """In whose name it is claimed; empty: that of the user who makes the claim."""

    @property
    def body(self) -> dict[str, Any]:
        """Its claim, as it is created."""
        spec: dict[str, Any] = {}
        if self.address:
            spec = {"address": self.address, "nodeName": self.node}
            if self.is_exact:
                spec["disableResourcePooling"] = True
        if self.user:
            spec["userName"] = self.user
        return {
            "apiVersion": self.claims.api_version,
            "kind": self.claims.kind,
            "metadata": {"name": self.name},
            "spec": spec,
        }

    @property
    def claim(self) -> str:
        return f"{self.claims.kind} {self.name}"


def device_of(device: PCIDevice | USBDevice) -> Device:
    """A device by its object."""
    node, name = device.status.node_name, device.metadata.name
    if isinstance(device, USBDevice):
        return Device(f"{node}/{device.status.port}", node, name, _USB)
    address = device.status.address
    return Device(f"{node}/{address}", node, name, _PCI, address)


async def create(client: Client, device: Device, *, dry_run: bool = False) -> Any | None:
    """The new claim; None where the device is claimed already.

    `dry_run`: only ask the server, with its webhooks.
    """
    try:
        return await client.create(device.claims, device.body, dry_run=dry_run)
    except AlreadyExistsError:
        return None


async def delete(client: Client, device: Device, *, dry_run: bool = False) -> None:
    """Delete the claim. Raises NotFoundError where the device is not claimed."""
    await client.delete(device.claims, device.name, dry_run=dry_run)


async def get(client: Client, device: Device) -> Any:
    """The claim. Raises NotFoundError where the device is not claimed."""
    return await client.get(device.claims, device.name)


async def bound(
    client: Client, device: Device, *, seconds: float, listener: Listener = SILENT
) -> tuple[Any, Answer]:
    """The claim and its final answer: `done` once VMs can use the device. Raises TooLateError."""
    generation = (await get(client, device)).metadata.generation
    return await awaited(
        client,
        device.claims,
        device.name,
        lambda found: answer(found, generation),
        node=device.node,
        seconds=seconds,
        listener=listener,
    )


def answer(claim: PCIDeviceClaim | USBDeviceClaim, generation: int) -> Answer:
    """How far the agent is; a bound device is still permitted and advertised after that."""
    found = answer_of(claim.status, generation)
    bound = find_condition(claim.status.conditions, "Bound")
    on_the_way = found.reason in _NOT_BOUND or (bound is not None and bound.status == "True")
    return found._replace(kind="working") if found.kind == "refused" and on_the_way else found


async def gone(
    client: Client, device: Device, *, seconds: float, listener: Listener = SILENT
) -> None:
    """Wait until the agent has released the device, which removes the claim.

    Raises UnfinishedError.
    """

    def away(error: UnreachableError) -> None:
        listener.progress(f"{error}; asking again")

    found = states(client, device.claims, away, device.name)
    try:
        async with asyncio.timeout(seconds), contextlib.aclosing(found):
            async for claim in found:
                if claim is None:
                    return
    except TimeoutError:
        raise UnfinishedError(
            f"{device.title} is not released within {seconds} s",
            f"The agent of {device.node} goes on. To see why: laneway explain "
            f"{device.claims.kind.lower()}/{device.name}",
        ) from None


def cancelling(devices: Iterable[Device]) -> str:
    """How to release devices again."""
    return f"To cancel: laneway release {' '.join(device.title for device in devices)}"
