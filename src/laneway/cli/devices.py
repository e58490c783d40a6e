"""`laneway devices`: the devices of this host, without a cluster."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from laneway.cli.errors import one_line
from laneway.cli.output import View, show, table_view
from laneway.cli.overview import COLUMNS, Users, overview
from laneway.cli.source import host_of
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.host.holders import read_holders, usb_holders, visibility_error
from laneway.host.port import Host
from laneway.host.scan import scan


def show_devices(
    simulate: str | None, output: str | None, *, everything: bool, watch: bool
) -> None:
    """Print the devices, and with `watch` again after every change. Raises Failure."""
    host = host_of(simulate)
    if watch:
        _follow(host, output, everything=everything)
    inventory = scan(host)
    show(view(inventory, _users(host, inventory, output), everything=everything), output)
    for error in inventory.errors:
        click.echo(one_line(f"laneway: {error.device}: {error.message}"), err=True)


def _follow(host: Host, output: str | None, *, everything: bool) -> None:
    """Print again after every event of the kernel, until a signal ends it."""
    import asyncio  # noqa: PLC0415 - slow to import, and needed only here

    from laneway.cli import interrupts, live  # noqa: PLC0415 - as above

    def look() -> View:
        inventory = scan(host)
        return view(inventory, _users(host, inventory, output), everything=everything)

    async def work() -> None:
        async with host.uevents() as events:
            await live.follow_events(events, look, output)

    try:
        asyncio.run(interrupts.interruptible(work()))
    except asyncio.CancelledError:
        raise click.Abort from None


def _users(host: Host, inventory: Inventory, output: str | None) -> Users:
    """Who uses the devices, where it is shown: it means looking through all processes."""
    if output != "wide":
        return {}
    if error := visibility_error(host):
        click.echo(one_line(f"laneway: warning: USED BY may miss processes: {error}"), err=True)
    functions = read_holders(host, [one.address for one in inventory.functions])
    usb = usb_holders(host, [one.port for one in inventory.usb])
    return {str(device): users for device, users in (*functions.items(), *usb.items())}


def view(inventory: Inventory, users: Users, *, everything: bool) -> View:
    """The devices in all forms."""
    return table_view(
        COLUMNS,
        overview(inventory, users, everything=everything),
        document=plain(inventory),
        names=[str(function.address) for function in inventory.functions]
        + [device.port for device in inventory.usb],
        empty="No devices. --all also lists bridges and chipset parts.",
    )


def plain(value: Any) -> Any:
    """What JSON can hold, with addresses as everybody writes them, also as keys."""
    match value:
        case PciAddress():
            return str(value)
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case dict():
            return {str(key): plain(inner) for key, inner in value.items()}
        case tuple() | list():
            return [plain(inner) for inner in value]
        case _:
            return value
