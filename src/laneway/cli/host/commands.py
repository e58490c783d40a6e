"""What `laneway host` does: a desired state, planned or carried out on this host."""

from __future__ import annotations

import asyncio

import click

from laneway.cli.errors import Failure, one_line
from laneway.cli.host import desired
from laneway.cli.host.carry_out import Desired, carry_out, show, until_interrupted
from laneway.cli.host.hardware import locked, opened
from laneway.core.claims import usb_access
from laneway.core.decision import Decision
from laneway.core.layout import plan
from laneway.core.passthrough import binding
from laneway.core.pci import PciAddress
from laneway.core.release import device as release
from laneway.core.situation import Situation
from laneway.core.sriov import vfs as sriov


def fulfil(wanted: Desired, simulate: str | None, state_dir: str | None, *, dry_run: bool) -> None:
    """Carry it out, or print the plan. Raises Failure."""
    with opened(simulate, state_dir) as hardware:
        work = (show if dry_run else carry_out)(hardware, wanted)
        asyncio.run(until_interrupted(work, hardware))


def desired_gpu(
    address: PciAddress, vgpus: dict[str, int], parameters: str, *, mixed_size: bool
) -> Desired:
    """All vGPUs of a GPU."""
    named = ", ".join(f"{profile}={count}" for profile, count in vgpus.items()) or "none"
    text = f"gpu {address}: {named}"
    text += ", mixed sizes" if mixed_size else ""
    text += f", parameters {parameters[:100]}" if parameters else ""

    def decide(seen: Situation) -> Decision:
        full = desired.in_full(vgpus, seen.inventory, address)
        wanted = plan.DesiredGpu(address, full, mixed_size=mixed_size, parameters=parameters)
        return plan.plan_layout(wanted, seen)

    return Desired(text, decide, (address,))


def desired_passthrough(address: PciAddress) -> Desired:
    """A device on vfio-pci."""
    return Desired(f"passthrough {address}", lambda seen: binding.bind(address, seen), (address,))


def desired_vfs(address: PciAddress, count: int) -> Desired:
    """So many virtual functions."""
    return Desired(
        f"vfs {address}: {count}", lambda seen: sriov.set_vfs(address, count, seen), (address,)
    )


def desired_usb(port: str) -> Desired:
    """A USB device that VMs can open."""
    return Desired(f"usb {port}", lambda seen: usb_access.claim(port, seen), ports=(port,))


def desired_release(device: PciAddress | str) -> Desired:
    """A device as it was before Laneway changed it."""
    ports = (device,) if isinstance(device, str) else ()
    addresses = () if isinstance(device, str) else (device,)
    return Desired(
        f"release {device}", lambda seen: release.release(device, seen), addresses, ports
    )


def show_quarantine(lift: PciAddress | None, simulate: str | None, state_dir: str | None) -> None:
    """Print the devices in quarantine, or lift the quarantine of one. Raises Failure."""
    with opened(simulate, state_dir) as hardware:
        if lift is not None:
            with locked(hardware):
                if not hardware.state.lift_quarantine(lift):
                    raise Failure(f"{lift} is not in quarantine")
            click.echo(f"{lift} is no longer in quarantine.")
            return
        found, problem = hardware.state.quarantine_to_show()
        for address, error in sorted(found.items()):
            click.echo(f"{one_line(address)}  {one_line(error)}")
        if problem:
            raise Failure(f"more devices may be in quarantine: {problem}")
        if not found:
            click.echo("No device is in quarantine.")
