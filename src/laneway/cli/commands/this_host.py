"""`laneway devices` and `laneway capture`: the devices of this host."""

from __future__ import annotations

import click

from laneway.cli.commands.options import output_option, simulate_option, watch_option


@click.command(
    epilog="""\b
Examples:
    laneway devices
    laneway devices --simulate a2
    laneway devices -o json | jq '.functions[] | select(.driver == "vfio-pci")'
"""
)
@simulate_option
@output_option
@watch_option
@click.option(
    "--all", "everything", is_flag=True, help="Also list bridges, hubs, chipset parts and all VFs."
)
def devices(*, simulate: str | None, output: str | None, watch: bool, everything: bool) -> None:
    """Show the devices of this host, and which of them VMs can use.

    The list begins with GPUs and their vGPUs. Network cards with SR-IOV, other devices and USB
    devices follow. With -o wide it also shows the processes that have them open. Some details need
    root. The command reports on standard error what it could not read.
    """
    from laneway.cli import devices as shown

    shown.show_devices(simulate, output, everything=everything, watch=watch)


@click.command(
    epilog="""\b
Examples:
    laneway capture node7.umockdev
    laneway devices --simulate node7.umockdev
"""
)
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def capture(file: str, *, force: bool) -> None:
    """Write a dump of this host's devices to FILE, or to standard output for "-".

    The dump holds what the kernel shows: devices, drivers, IOMMU groups and vGPUs. The command
    changes nothing on the host. It replaces names, serial numbers and MAC addresses in the dump.
    FILE has the format of umockdev-record. Other commands read it with --simulate.
    """
    from laneway.cli.capture import write_dump

    write_dump(file, force=force)
