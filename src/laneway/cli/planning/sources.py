"""Where a fleet comes from: the live cluster, an inventory file, a capture, or a few words."""

from __future__ import annotations

import os
import sys

import click

from laneway.cli import capture, connection, fleet
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.controllers.ledger.snapshot import look
from laneway.core.fleet import inventory_file
from laneway.core.fleet.anonymous import anonymous
from laneway.core.fleet.captured import captured
from laneway.core.fleet.inventory_file import MOST_BYTES, InventoryError
from laneway.core.fleet.made_up import MadeUpError, made_up
from laneway.core.fleet.model import Fleet
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.views.fleet import observed


def fleet_of(source: str | None, where: ClusterChoice) -> Fleet:
    """The fleet that a command is about. Raises Failure."""
    if source is None:
        found = connection.ask(_live, where)
    elif source == "-" or os.path.exists(source):
        found = _of_file(content_of(source), source)
    else:
        try:
            found = made_up(source)
        except MadeUpError as error:
            raise click.BadParameter(
                f"--from {source!r}: there is no such file, and it describes no fleet: {error}"
            ) from None
    for why in found.unreadable:
        click.echo(one_line(f"laneway: warning: {why}"), err=True)
    return found


def _of_file(content: bytes, path: str) -> Fleet:
    from laneway.sim import dump  # noqa: PLC0415 - slow to import

    try:
        if dump.is_dump(content):
            return _captured(content, path)
        return inventory_file.read(content)
    except dump.DumpError as error:
        raise Failure(str(error)) from None
    except InventoryError as error:
        raise Failure(f"{path}: {error}") from None


def _captured(content: bytes, path: str) -> Fleet:
    from laneway.sim import dump, spec  # noqa: PLC0415 - slow to import

    name = "host" if path == "-" else spec.Spec(path=path).label
    return captured(name, scan(spec.recorded(dump.blocks_of(content, path), name)))


def content_of(path: str) -> bytes:
    """A file, or standard input for `-`, up to a byte more than is accepted. Raises Failure."""
    if path == "-":
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from None


async def _live(client: Client) -> Fleet:
    with connection.installed("PCIDeviceClaim"):
        seen = await look(client)
    gpus = await fleet.look(client)
    return observed(
        seen.facts, gpus.gpus, (*seen.unknown, *gpus.unreadable), containers=seen.containers
    )


def export(file: str, where: ClusterChoice, *, neutral: bool, force: bool) -> None:
    """Write the inventory file of the live cluster, whole or not at all. Raises Failure."""
    if file != "-":
        capture.check(file, force=force)
    found = fleet_of(None, where)
    content = inventory_file.write(
        anonymous(found) if neutral else found, as_json=file.endswith(".json")
    ).encode()
    if file == "-":
        click.echo(content, nl=False)
    else:
        capture.replace(os.path.realpath(file), content)
    nodes, gpus, vms = (
        f"{len(there)} {name}{'s' * (len(there) != 1)}"
        for there, name in ((found.nodes, "node"), (found.gpus, "GPU"), (found.vms, "VM"))
    )
    click.echo(
        f"Exported {nodes}, {gpus} and {vms}"
        f"{'' if file == '-' else f' to {file}'}. The file has no serial numbers and no secrets.",
        err=True,
    )
