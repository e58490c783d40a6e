"""`laneway claim` and `laneway release NODE/ADDRESS`: claims of whole devices.

The commands write the objects that everybody may write, by the rules of admission. All devices are
looked up before the first object is written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from laneway.api import PCIDevice, USBDevice, to_builtins
from laneway.changes import claims
from laneway.changes.answered import may_have_happened
from laneway.changes.claims import Device, cancelling, device_of
from laneway.changes.errors import TooLateError, UnfinishedError
from laneway.changes.listening import Listener
from laneway.cli import connection, interrupts, progress
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.cli.output import View, object_name, show
from laneway.cli.suggest import did_you_mean
from laneway.core.pci import pci_address
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError
from laneway.kube.resource import Resource, served


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
            await claims.create(client, target, dry_run=True)
        written = Written("Claimed", cancelling)
        with contextlib.nullcontext() if dry_run else written:
            found = [await _claim(client, target, written, dry_run=dry_run) for target in targets]
        if seconds and not dry_run:
            found = [
                await _prepared(client, target, written, seconds, quiet=output is not None)
                for target in targets
            ]
        if output is not None:
            documents = [to_builtins(claim) for claim in found]
            names = [object_name(target.claims.kind, target.name) for target in targets]
            document = documents[0] if len(documents) == 1 else {"items": documents}
            show(View(document=document, names=names, text=lambda _: ""), output)
            return
        for target, claim in zip(targets, found, strict=True):
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
                await claims.delete(client, target, dry_run=True)
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
                    await claims.delete(client, target)
        for target in targets:
            with written:
                await claims.gone(client, target, seconds=seconds, listener=_Away())
            click.echo(one_line(f"Released {target.title}."))

    connection.ask(work, where)


async def _targets(client: Client, texts: Sequence[str]) -> list[Device]:
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


async def _known(client: Client) -> list[Device]:
    found = []
    for kind in (PCIDevice, USBDevice):
        resource: Resource[PCIDevice | USBDevice] = served(kind)
        with connection.installed(resource.kind):
            async for page in client.list(resource):
                found += [device_of(resource.decode(item)) for item in page.items]
    return found


class Written(contextlib.AbstractContextManager[None]):
    """The devices whose claims this call wrote; whatever ends the block says so."""

    def __init__(self, done: str, after: Callable[[Sequence[Device]], str]) -> None:
        self._done = done
        self._after = after
        self.targets: list[Device] = []

    @contextlib.contextmanager
    def begun(self, target: Device) -> Iterator[None]:
        """A write, which counts from its beginning: its answer may be lost."""
        self.targets.append(target)
        try:
            yield
        except KubeError as error:
            if not may_have_happened(error):
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


async def _claim(client: Client, target: Device, written: Written, *, dry_run: bool) -> Any:
    """The claim of a device: a new one, or the one that it has."""
    with written.begun(target):
        claim = await claims.create(client, target, dry_run=dry_run)
    if claim is None:
        written.targets.remove(target)
        claim = await claims.get(client, target)
    return claim


async def _prepared(
    client: Client, target: Device, written: Written, seconds: int, *, quiet: bool
) -> Any:
    """The claim once VMs can use the device. Raises Failure where the agent refuses it."""
    undo = cancelling(written.targets or [target])
    with written:
        try:
            claim, answer = await claims.bound(
                client, target, seconds=seconds, listener=progress.Printer(quiet=quiet)
            )
        except TooLateError as error:
            raise UnfinishedError(error, undo) from None
    if answer.kind == "refused":
        raise Failure(f"{target.title} is claimed and cannot be used: {answer.words} {undo}")
    return claim


def _going_on(targets: Sequence[Device]) -> str:
    nodes = ", ".join(dict.fromkeys(target.node for target in targets))
    return f"The agent of {nodes} goes on to release what is left"


class _Away(Listener):
    """Prints that the API server is away, which is all that goes on during a release."""

    def progress(self, words: str) -> None:
        click.echo(one_line(words), err=True)
