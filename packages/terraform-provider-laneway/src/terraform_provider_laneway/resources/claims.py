"""`laneway_pci_claim` and `laneway_usb_claim`: whole devices, made available to VMs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.api import PCIDevice, PCIDeviceClaim, USBDevice, USBDeviceClaim
from laneway.changes import claims, specs
from laneway.changes.claims import Device, cancelling, device_of
from laneway.changes.errors import TooLateError, UnfinishedError
from laneway.cli import fleet
from laneway.core.pci import pci_address
from laneway.core.phrases import closest, few, sentences
from laneway.core.refusals import CriticalToNode
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource, served
from terraform_provider_laneway import holders
from terraform_provider_laneway.problems import ProblemError, refused
from terraform_provider_laneway.resource import ManagedResource
from terraform_provider_laneway.values import FLAG, TEXT, State, or_unset

_SHARED = (
    Attribute("node", TEXT, computed=True, description="The node of the device."),
    Attribute(
        "resource_name",
        TEXT,
        computed=True,
        description="The resource that VMs request: `intel.com/I350_GIGABIT_NETWORK_CONNECTION`.",
    ),
    Attribute("user_name", TEXT, computed=True, description="The user of the claim."),
)


class _Claim(ManagedResource):
    """A claim of one device."""

    key: ClassVar[tuple[str, ...]] = ("device",)
    subject: ClassVar[str] = "device"
    kind: ClassVar[type[PCIDevice | USBDevice]]
    claims: ClassVar[type[Any]]

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        device = await self._device(client, config)
        if await _claim(client, device) is not None:
            return
        for words in await self._against(client, device):
            yield refused(words, ["device"])
        await claims.create(client, device, dry_run=True)

    async def _against(self, client: Client, device: Device) -> list[str]:
        """What speaks against a claim of a device, as far as its object shows it."""
        del client, device
        return []

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        device = await self._device(client, planned)
        if current is None and await claims.create(client, device) is None:
            raise ProblemError(
                "Claimed already",
                f"{device.claim} exists, and Terraform has not made it. To manage it with "
                f"Terraform: terraform import ADDRESS {device.name}",
                ["device"],
            )
        seconds = self.patience(planned)
        try:
            _, answer = await claims.bound(client, device, seconds=seconds)
        except TooLateError as error:
            raise UnfinishedError(error, cancelling([device])) from None
        if answer.kind == "refused":
            raise UnfinishedError(
                f"{device.title} is claimed and cannot be used: {answer.words}",
                cancelling([device]),
            )

    async def remove(self, client: Client, current: State) -> None:
        seconds = self.patience(current)
        device = self._claimed(current)
        if await _claim(client, device) is None:
            return
        await holders.released(
            client,
            [device.name],
            lambda: claims.delete(client, device, dry_run=True),
            seconds,
        )
        try:
            await claims.delete(client, device)
        except NotFoundError:
            return
        await claims.gone(client, device, seconds=seconds)

    async def _device(self, client: Client, state: State) -> Device:
        """The device that is meant. Raises ProblemError."""
        resource: Resource[Any] = served(self.kind)
        unreadable: list[str] = []
        found = [device_of(one) for one in await fleet.readable(client, resource, unreadable)]
        text = str(state["device"])
        node, slash, written = text.rpartition("/")
        address = pci_address(written) if slash else None
        title = f"{node}/{address}" if address is not None else text
        for one in found:
            if title in (one.title, one.name):
                return self._wanted(one, state)
        meant = closest(title, [one.title if slash else one.name for one in found])
        hint = f"Is it {few(meant)}?" if meant else f"kubectl get {resource.plural} lists them."
        words = f"The cluster has no {resource.kind} {text[:80]}. {hint}"
        raise ProblemError("No such device", sentences(words, *unreadable), ["device"])

    def _wanted(self, device: Device, state: State) -> Device:
        """The same with what its claim is to say."""
        del state
        return device._replace(user=self.settings.user_name)

    async def _found(self, client: Client, state: State) -> tuple[Any, State] | None:
        """The claim of a state, and the attributes that both kinds have."""
        name = state.get("id") or (await self._device(client, state)).name
        claim = await _claim(client, Device(name, "", name, served(self.claims)))
        if claim is None:
            return None
        return claim, {
            "id": name,
            "device": state["device"],
            "user_name": claim.spec.user_name,
            "resource_name": claim.status.resource_name,
        }

    def _claimed(self, state: State) -> Device:
        """A device by its claim, which may be there when the device is not."""
        name = str(state["id"])
        return Device(f"{state['node']}/{name}", str(state["node"]), name, served(self.claims))


class PciClaim(_Claim):
    """A claim of a PCI device."""

    name: ClassVar[str] = "pci_claim"
    kind: ClassVar[type[PCIDevice | USBDevice]] = PCIDevice
    claims: ClassVar[type[Any]] = PCIDeviceClaim
    about: ClassVar[str] = (
        "Makes a PCI device available to VMs: all devices of its IOMMU group leave their drivers. "
        "Destroying it returns the device to its node, once no VM has it."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "device",
            TEXT,
            required=True,
            requires_replace=True,
            description="Name of the PCIDevice, or `NODE/ADDRESS`.",
        ),
        Attribute(
            "exact",
            FLAG,
            optional=True,
            description="Give the device a resource of its own, so that VMs can request just this "
            "one. Default: `false`, all devices that are alike have one resource.",
        ),
        *_SHARED,
        Attribute("address", TEXT, computed=True, description="PCI address of the device."),
        Attribute("iommu_group", TEXT, computed=True, description="IOMMU group of the device."),
    )

    async def _against(self, client: Client, device: Device) -> list[str]:
        why = (await client.get(served(PCIDevice), device.name)).status.critical
        return [CriticalToNode(device.name, tuple(why)).words] if why else []

    async def look(self, client: Client, state: State) -> State | None:
        if (found := await self._found(client, state)) is None:
            return None
        claim, shared = found
        return {
            **shared,
            "exact": or_unset(state, "exact", claim.spec.disable_resource_pooling, default=False),
            "node": claim.spec.node_name,
            "address": claim.spec.address,
            "iommu_group": claim.status.iommu_group,
        }

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        if current is not None and bool(current["exact"]) != bool(planned["exact"]):
            fields = {"disableResourcePooling": bool(planned["exact"])}
            await specs.write(client, served(PCIDeviceClaim), current["id"], fields)
        await super().apply(client, planned, current)

    def _wanted(self, device: Device, state: State) -> Device:
        return super()._wanted(device, state)._replace(is_exact=bool(state.get("exact")))


class UsbClaim(_Claim):
    """A claim of a USB device."""

    name: ClassVar[str] = "usb_claim"
    kind: ClassVar[type[PCIDevice | USBDevice]] = USBDevice
    claims: ClassVar[type[Any]] = USBDeviceClaim
    about: ClassVar[str] = (
        "Makes a USB device available to VMs. Destroying it returns the device to its node, once "
        "no VM has it."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "device",
            TEXT,
            required=True,
            requires_replace=True,
            description="Name of the USBDevice, or `NODE/PORT`.",
        ),
        *_SHARED,
        Attribute("port", TEXT, computed=True, description="Where the device is plugged in."),
    )

    async def look(self, client: Client, state: State) -> State | None:
        if (found := await self._found(client, state)) is None:
            return None
        claim, shared = found
        return {**shared, "node": claim.status.node_name, "port": claim.status.port}


async def _claim(client: Client, device: Device) -> Any | None:
    try:
        return await claims.get(client, device)
    except NotFoundError:
        return None
