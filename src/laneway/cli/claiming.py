"""`laneway claim` and `laneway release NODE/ADDRESS`: claims of whole devices.

The commands write the objects that everybody may write, by the rules of admission. All devices are
looked up before the first object is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from laneway.api import (
    PCIDevice,
    PCIDeviceClaim,
    USBDevice,
    USBDeviceClaim,
    find_condition,
    to_builtins,
)
from laneway.cli import connection, interrupts, progress
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, Unfinished, one_line
from laneway.cli.output import View, object_name, show
from laneway.cli.suggest import did_you_mean
from laneway.core.pci import pci_address
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.kube.resource import Resource, served

_PCI: Resource[Any] = served(PCIDeviceClaim)
_USB: Resource[Any] = served(USBDeviceClaim)
_NOT_BOUND = ("NotBound", "NotReady")
"""Reasons of a claim whose device is not bound yet, and not refused either."""


class _Target(NamedTuple):
    """A device that somebody named."""

    title: str
    node: str
    name: str
    """Of its object and of its claim."""
    claims: Resource[Any]
    address: str = ""
    """Of a PCI device."""

    @property
    def body(self) -> dict[str, Any]:
        spec = {"address": self.address, "nodeName": self.node} if self.address else {}
        return {
            "apiVersion": self.claims.api_version,
            "kind": self.claims.kind,
            "metadata": {"name": self.name},
            "spec": spec,
        }

    @property
    def claim(self) -> str:
        return f"{self.claims.kind} {self.name}"


def claim_devices(
    devices: Sequence[str],
    where: ClusterChoice,
    *,
    dry_run: bool,
    seconds: int,
    output: str | None,
) -> None:
    """Claim devices, and wait for so many seconds until VMs can use them. Raises Failure."""

    async def work(client: Client) -> None:
        targets = await _targets(client, devices)
        for target in targets:
            # What the rules refuse is refused before the first object is written.
            await _create(client, target, dry_run=True)
        claims = [
            await _create(client, target, dry_run=dry_run) or await _get(client, target)
            for target in targets
        ]
        if seconds and not dry_run:
            claims = [
                await _prepared(client, target, seconds, quiet=output is not None)
                for target in targets
            ]
        if output is not None:
            documents = [to_builtins(claim) for claim in claims]
            names = [object_name(target.claims.kind, target.name) for target in targets]
            document = documents[0] if len(documents) == 1 else {"items": documents}
            show(View(document=document, names=names, text=lambda _: ""), output)
            return
        for target in targets:
            done = "Would create" if dry_run else "Claimed by"
            click.echo(one_line(f"{done} {target.claim} for {target.title}."))

    connection.ask(work, where)


def release_devices(
    devices: Sequence[str], where: ClusterChoice, *, dry_run: bool, seconds: int
) -> None:
    """Delete the claims of devices, and wait until the devices are released. Raises Failure."""

    async def work(client: Client) -> None:
        targets = await _targets(client, devices)
        for target in targets:
            try:
                await client.delete(target.claims, target.name, dry_run=True)
            except NotFoundError:
                raise Failure(f"{target.title} is not claimed; nothing was changed") from None
        if dry_run:
            for target in targets:
                click.echo(one_line(f"Would delete {target.claim} of {target.title}."))
            return
        for target in targets:
            await client.delete(target.claims, target.name)
        for target in targets:
            await _gone(client, target, seconds)
            click.echo(one_line(f"Released {target.title}."))

    connection.ask(work, where)


async def _targets(client: Client, texts: Sequence[str]) -> list[_Target]:
    """The devices that are meant, each once. Raises Failure."""
    found = await _known(client)
    targets = {}
    for text in texts:
        node, slash, written = text.rpartition("/")
        address = pci_address(written)
        title = f"{node}/{address}" if slash and address is not None else text
        target = next((one for one in found if title in (one.title, one.name)), None)
        if target is None:
            meant = did_you_mean(title, [one.title for one in found])
            raise Failure(
                f"the cluster has no device {text[:80]}. "
                f"{meant or 'kubectl get pcidevices,usbdevices lists the devices.'}"
            )
        targets[target.name] = target
    return list(targets.values())


async def _known(client: Client) -> list[_Target]:
    found = []
    for kind, claims in ((PCIDevice, _PCI), (USBDevice, _USB)):
        resource: Resource[Any] = served(kind)
        with connection.installed(resource.kind):
            async for page in client.list(resource):
                for item in page.items:
                    device = resource.decode(item)
                    node, name = device.status.node_name, device.metadata.name
                    place = device.status.address if claims is _PCI else device.status.port
                    address = place if claims is _PCI else ""
                    found.append(_Target(f"{node}/{place}", node, name, claims, address))
    return found


async def _create(client: Client, target: _Target, *, dry_run: bool) -> Any | None:
    """The new claim; None where the device is claimed already."""
    try:
        return await client.create(target.claims, target.body, dry_run=dry_run)
    except AlreadyExistsError:
        return None


async def _get(client: Client, target: _Target) -> Any:
    return await client.get(target.claims, target.name)


async def _prepared(client: Client, target: _Target, seconds: int, *, quiet: bool) -> Any:
    """The claim once VMs can use the device. Raises Failure where the agent refuses it."""
    generation = (await _get(client, target)).metadata.generation
    try:
        claim, answer = await progress.awaited(
            client,
            target.claims,
            target.name,
            lambda found: _answer(found, generation),
            node=target.node,
            seconds=seconds,
            quiet=quiet,
        )
    except asyncio.CancelledError:
        interrupts.say(f". The agent of {target.node} goes on with {target.claim}. {_undo(target)}")
        raise
    except progress.TooLate as error:
        raise Unfinished(f"{error}. {_undo(target)}") from None
    if answer.kind == "refused":
        raise Failure(
            f"{target.title} is claimed and cannot be used: {answer.words} {_undo(target)}"
        )
    return claim


def _answer(claim: Any, generation: int) -> progress.Answer:
    """How far the agent is; a bound device is still permitted and advertised after that."""
    found = progress.answer_of(claim.status, generation)
    bound = find_condition(claim.status.conditions, "Bound")
    on_the_way = found.reason in _NOT_BOUND or (bound is not None and bound.status == "True")
    return found._replace(kind="working") if found.kind == "refused" and on_the_way else found


def _undo(target: _Target) -> str:
    return f"To cancel: laneway release {target.title}"


async def _gone(client: Client, target: _Target, seconds: int) -> None:
    """Wait until the agent has released the device, which removes the claim."""
    only = f"metadata.name={target.name}"
    try:
        async with asyncio.timeout(seconds):
            while True:
                version = ""
                async for page in client.list(target.claims, field_selector=only):
                    version = page.resource_version
                    if not page.items:
                        return
                watch = client.watch(target.claims, resource_version=version, field_selector=only)
                async for event in watch:
                    if event.type == "DELETED":
                        return
    except asyncio.CancelledError:
        interrupts.say(f". The agent of {target.node} goes on to release {target.title}")
        raise
    except TimeoutError:
        raise Unfinished(
            f"{target.title} is not released within {seconds} s. The agent of {target.node} goes "
            f"on. To see why: laneway explain {target.claims.kind.lower()}/{target.name}"
        ) from None
