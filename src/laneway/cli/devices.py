"""`laneway devices`: what this host has, without any cluster."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from laneway.cli import table
from laneway.cli.errors import one_line
from laneway.cli.output import output_option, print_json
from laneway.cli.overview import COLUMNS, overview
from laneway.cli.source import look, simulate_option
from laneway.core.pci import PciAddress


@click.command(
    epilog="""\b
Examples:
    laneway devices
    laneway devices --simulate a2
    laneway devices -o json | jq '.functions[] | select(.driver == "vfio-pci")'
"""
)
@simulate_option
@output_option("A table to read, or everything that was found as JSON.")
@click.option(
    "--all", "everything", is_flag=True, help="Also list bridges, hubs, chipset parts and every VF."
)
def devices(simulate: str | None, output: str, *, everything: bool) -> None:
    """Show this host's devices, and which of them VMs can use.

    GPUs come first, each with its vGPUs, then network cards with SR-IOV, other devices and USB.
    Without root some details are missing. What could not be read is told on standard error.
    """
    inventory = look(simulate)
    if output == "json":
        print_json(_plain(inventory))
    elif sections := overview(inventory, everything=everything):
        table.show(COLUMNS, sections)
    else:
        click.echo("No devices. Bridges and the like are listed with --all.")
    for error in inventory.errors:
        click.echo(one_line(f"laneway: {error.device}: {error.message}"), err=True)


def _plain(value: Any) -> Any:
    """What JSON can hold, with addresses as everybody writes them, also as keys."""
    match value:
        case PciAddress():
            return str(value)
        case msgspec.Struct():
            return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case tuple() | list():
            return [_plain(inner) for inner in value]
        case _:
            return value
