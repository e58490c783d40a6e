"""`laneway claim` and `laneway release NODE/ADDRESS`: claims of whole devices.

The commands write the objects that everybody may write, by the rules of admission. All devices are
looked up before the first object is written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
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
from laneway.cli.watching import states
from laneway.core.pci import pci_address
from laneway.kube.client import Client
from laneway.kube.errors import (
    AlreadyExistsError,
    ApiError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from laneway.kube.resource import KubeObject, Resource, served
from laneway.views.answers import Answer, answer_of

_PCI: Resource[KubeObject] = served(PCIDeviceClaim)
_USB: Resource[KubeObject] = served(USBDeviceClaim)
_NOT_BOUND = ("NotBound", "NotReady")
"""Reasons of a claim whose device is not bound yet, and not refused either."""


class Target(NamedTuple):
    """A device that an argument names."""

    title: str
    node: str
    name: str
    """Of its object and of its claim."""
    claims: Resource[KubeObject]
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
        written = Written("Claimed", _undo)
        with contextlib.nullcontext() if dry_run else written:
            claims = [await _claim(client, target, written, dry_run=dry_run) for target in targets]
        if seconds and not dry_run:
            claims = [
                await _prepared(client, target, written, seconds, quiet=output is not None)
                for target in targets
            ]
        if output is not None:
            documents = [to_builtins(claim) for claim in claims]
            names = [object_name(target.claims.kind, target.name) for target in targets]
            document = documents[0] if len(documents) == 1 else {"items": documents}
            show(View(document=document, names=names, text=lambda _: ""), output)
            return
        for target, claim in zip(targets, claims, strict=True):
            if target in written.targets:
                done = "Would create" if dry_run else "Claimed by"
                click.echo(one_line(f"{done} {target.claim} for {target.title}."))
            else:
                user = claim.spec.user_name or "an unnamed user"
                click.echo(one_line(f"{target.title} was claimed before, by {user}."))

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
        written = Written("Deleted the claims of", _going_on)
        with written:
            for target in targets:
                with written.begun(target):
                    await client.delete(target.claims, target.name)
        for target in targets:
            with written:
                await _gone(client, target, seconds)
            click.echo(one_line(f"Released {target.title}."))

    connection.ask(work, where)


async def _targets(client: Client, texts: Sequence[str]) -> list[Target]:
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


async def _known(client: Client) -> list[Target]:
    found = []
    for kind, claims in ((PCIDevice, _PCI), (USBDevice, _USB)):
        resource: Resource[PCIDevice | USBDevice] = served(kind)
        with connection.installed(resource.kind):
            async for page in client.list(resource):
                for item in page.items:
                    device = resource.decode(item)
                    node, name = device.status.node_name, device.metadata.name
                    address = device.status.address if isinstance(device, PCIDevice) else ""
                    place = device.status.port if isinstance(device, USBDevice) else address
                    found.append(Target(f"{node}/{place}", node, name, claims, address))
    return found


class Written(contextlib.AbstractContextManager[None]):
    """The devices whose claims this call wrote; whatever ends the block says so."""

    def __init__(self, done: str, after: Callable[[Sequence[Target]], str]) -> None:
        self._done = done
        self._after = after
        self.targets: list[Target] = []

    @contextlib.contextmanager
    def begun(self, target: Target) -> Iterator[None]:
        """A write, which counts from its beginning: its answer may be lost."""
        self.targets.append(target)
        try:
            yield
        except ApiError as error:
            if error.code < 500:  # A refusal; a server in trouble may have done it.
                self.targets.remove(target)
            raise

    @property
    def words(self) -> str:
        titles = ", ".join(target.title for target in self.targets)
        return f"{self._done} {titles}. {self._after(self.targets)}"

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not self.targets:
            return
        if isinstance(error, asyncio.CancelledError):
            interrupts.say(f". {self.words}")
        if isinstance(error, KubeError):
            raise connection.failure(error, self.words) from error


async def _claim(client: Client, target: Target, written: Written, *, dry_run: bool) -> Any:
    """The claim of a device: a new one, or the one that it has."""
    with written.begun(target):
        claim = await _create(client, target, dry_run=dry_run)
    if claim is None:
        written.targets.remove(target)
        claim = await _get(client, target)
    return claim


async def _create(client: Client, target: Target, *, dry_run: bool) -> Any | None:
    """The new claim; None where the device is claimed already."""
    try:
        return await client.create(target.claims, target.body, dry_run=dry_run)
    except AlreadyExistsError:
        return None


async def _get(client: Client, target: Target) -> Any:
    return await client.get(target.claims, target.name)


async def _prepared(
    client: Client, target: Target, written: Written, seconds: int, *, quiet: bool
) -> Any:
    """The claim once VMs can use the device. Raises Failure where the agent refuses it."""
    undo = _undo(written.targets or [target])
    with written:
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
        except progress.TooLate as error:
            raise Unfinished(f"{error}. {undo}") from None
    if answer.kind == "refused":
        raise Failure(f"{target.title} is claimed and cannot be used: {answer.words} {undo}")
    return claim


def _answer(claim: Any, generation: int) -> Answer:
    """How far the agent is; a bound device is still permitted and advertised after that."""
    found = answer_of(claim.status, generation)
    bound = find_condition(claim.status.conditions, "Bound")
    on_the_way = found.reason in _NOT_BOUND or (bound is not None and bound.status == "True")
    return found._replace(kind="working") if found.kind == "refused" and on_the_way else found


def _undo(targets: Sequence[Target]) -> str:
    return f"To cancel: laneway release {' '.join(target.title for target in targets)}"


def _going_on(targets: Sequence[Target]) -> str:
    nodes = ", ".join(dict.fromkeys(target.node for target in targets))
    return f"The agent of {nodes} goes on to release what is left"


async def _gone(client: Client, target: Target, seconds: int) -> None:
    """Wait until the agent has released the device, which removes the claim."""

    def away(error: UnreachableError) -> None:
        click.echo(one_line(f"{error}; asking again"), err=True)

    found = states(client, target.claims, away, target.name)
    try:
        async with asyncio.timeout(seconds), contextlib.aclosing(found):
            async for claim in found:
                if claim is None:
                    return
    except TimeoutError:
        raise Unfinished(
            f"{target.title} is not released within {seconds} s. The agent of {target.node} goes "
            f"on. To see why: laneway explain {target.claims.kind.lower()}/{target.name}"
        ) from None
