"""`laneway host`: plan, apply and release, for a machine without any cluster.

`plan` and `apply` have the same subcommands; `plan` is `apply --dry-run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click

from laneway.cli.errors import Failure, one_line
from laneway.cli.host import wishes
from laneway.cli.host.carry_out import DesiredState, carry_out, show, until_interrupted
from laneway.cli.host.hardware import locked, opened
from laneway.cli.source import MODELS
from laneway.core.claims import usb_access
from laneway.core.decision import Decision
from laneway.core.layout import plan
from laneway.core.passthrough import binding
from laneway.core.pci import PciAddress
from laneway.core.release import device as release
from laneway.core.situation import Situation
from laneway.core.sriov import vfs as sriov
from laneway.host.plans.state import STATE_FOLDER

_Command = Callable[..., Any]
_Decorator = Callable[[_Command], _Command]

_OPTIONS = (
    click.option(
        "--simulate",
        metavar="SPEC",
        help=f"Change a simulated host instead: a model ({MODELS}) or a dump. With --state-dir it "
        "is kept for the next command.",
    ),
    click.option(
        "--state-dir",
        metavar="DIR",
        help="Where the journal, the audit record and the drivers to give devices back to are "
        f"kept.  [default: {STATE_FOLDER}; none for simulated hosts]",
    ),
)
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the steps, or why it cannot be done; change nothing."
)


def _host_options(command: _Command) -> _Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _fulfil(
    desired: DesiredState, simulate: str | None, state_dir: str | None, *, dry_run: bool
) -> None:
    with opened(simulate, state_dir) as hardware:
        asyncio.run(
            until_interrupted((show if dry_run else carry_out)(hardware, desired), hardware)
        )


@click.group(
    epilog="""\b
Examples:
    laneway host plan gpu 08:00.0 --vgpus A2-4Q=2
    laneway host apply passthrough 17:00.0
    laneway host release 17:00.0
    laneway host apply gpu 08:00.0 --vgpus A2-4Q=2 --simulate a2
"""
)
def host() -> None:
    """Change this host's devices, without any cluster.

    Every command plans before it writes: it prints the steps, or everything that speaks against
    them. What is interrupted is finished or undone by the next command. Nothing that a virtual
    machine holds is ever taken away.
    """


def _change_group(name: str, text: str, *, plan_only: bool) -> click.Group:
    """The commands that say what the host shall be like, to be shown or to be done."""
    group = click.Group(name, help=text)
    dry_run_option: _Decorator = (lambda command: command) if plan_only else _DRY_RUN

    def fulfil(
        desired: DesiredState, simulate: str | None, state_dir: str | None, dry_run: bool
    ) -> None:
        _fulfil(desired, simulate, state_dir, dry_run=plan_only or dry_run)

    @group.command(
        "gpu",
        short_help="Give an NVIDIA GPU the vGPUs that are asked for.",
        epilog=f"""\b
Examples:
    laneway host {name} gpu 0000:08:00.0 --vgpus A2-4Q=2
    laneway host {name} gpu 08:00.0 --vgpus A2-8Q,A2-4Q=2 --mixed-size
    laneway host {name} gpu 08:00.0 --vgpus "NVIDIA A2-1B=16" --simulate a2
""",
    )
    @click.argument("address", metavar="ADDRESS", type=wishes.address)
    @click.option(
        "--vgpus",
        required=True,
        metavar="PROFILE[=COUNT],...",
        type=wishes.vgpus,
        help="All vGPUs that the GPU is to have, or none. Those that it has and that fit stay as "
        "they are; others are removed, unless a VM has them.",
    )
    @click.option("--mixed-size", is_flag=True, help="Let vGPUs of different sizes share the GPU.")
    @click.option(
        "--parameters",
        default="",
        metavar="NAME=VALUE,...",
        help="Parameters of every vGPU, such as frame_rate_limiter=0.",
    )
    @dry_run_option
    @_host_options
    def gpu(
        *,
        address: PciAddress,
        vgpus: dict[str, int],
        mixed_size: bool,
        parameters: str,
        simulate: str | None,
        state_dir: str | None,
        dry_run: bool = False,
    ) -> None:
        """Give an NVIDIA GPU the vGPUs that are asked for, from its virtual functions on.

        MIG-backed profiles switch the card to MIG mode and make the GPU instances that they need.
        """
        asked = ", ".join(f"{profile}={count}" for profile, count in vgpus.items()) or "none"
        text = f"gpu {address}: {asked}"
        text += ", mixed sizes" if mixed_size else ""
        text += f", parameters {parameters[:100]}" if parameters else ""

        def decide(seen: Situation) -> Decision:
            full = wishes.in_full(vgpus, seen.inventory, address)
            wanted = plan.DesiredGpu(address, full, mixed_size=mixed_size, parameters=parameters)
            return plan.plan_layout(wanted, seen)

        desired = DesiredState(text, decide, (address,))
        fulfil(desired, simulate, state_dir, dry_run)

    @group.command("passthrough", short_help="Give a PCI device to vfio-pci.")
    @click.argument("address", metavar="ADDRESS", type=wishes.address)
    @dry_run_option
    @_host_options
    def give_whole(
        *, address: PciAddress, simulate: str | None, state_dir: str | None, dry_run: bool = False
    ) -> None:
        """Give a PCI device to vfio-pci, with the rest of its IOMMU group."""
        desired = DesiredState(
            f"passthrough {address}", lambda seen: binding.bind(address, seen), (address,)
        )
        fulfil(desired, simulate, state_dir, dry_run)

    @group.command("vfs", short_help="Set the number of virtual functions of a device.")
    @click.argument("address", metavar="ADDRESS", type=wishes.address)
    @click.option(
        "--count",
        required=True,
        type=click.IntRange(0, 65535),
        help="The number of virtual functions.",
    )
    @dry_run_option
    @_host_options
    def vfs(
        *,
        address: PciAddress,
        count: int,
        simulate: str | None,
        state_dir: str | None,
        dry_run: bool = False,
    ) -> None:
        """Set the number of virtual functions of a network card or another SR-IOV device."""
        desired = DesiredState(
            f"vfs {address}: {count}",
            lambda seen: sriov.set_vfs(address, count, seen),
            (address,),
        )
        fulfil(desired, simulate, state_dir, dry_run)

    @group.command("usb")
    @click.argument("port", metavar="PORT", type=wishes.usb_port)
    @dry_run_option
    @_host_options
    def usb(
        *, port: str, simulate: str | None, state_dir: str | None, dry_run: bool = False
    ) -> None:
        """Let virtual machines open a USB device."""
        desired = DesiredState(
            f"usb {port}", lambda seen: usb_access.claim(port, seen), ports=(port,)
        )
        fulfil(desired, simulate, state_dir, dry_run)

    return group


host.add_command(
    _change_group("plan", "Print what 'apply' would do, or why it cannot be done.", plan_only=True)
)
host.add_command(
    _change_group("apply", "Make a device what is asked for, step by step.", plan_only=False)
)


@host.command(
    "release",
    short_help="Give a device back to the host.",
    epilog="""\b
Examples:
    laneway host release 0000:08:00.0
    laneway host release 3-1.2
""",
)
@click.argument("device", metavar="DEVICE", type=wishes.device)
@_DRY_RUN
@_host_options
def release_device(
    *, device: PciAddress | str, simulate: str | None, state_dir: str | None, dry_run: bool
) -> None:
    """Give a device back to the host: a PCI address or a USB port.

    A GPU loses its vGPUs, GPU instances and virtual functions, a network card its virtual
    functions, and what is on vfio-pci returns to the driver that it had.
    """
    ports = (device,) if isinstance(device, str) else ()
    addresses = () if isinstance(device, str) else (device,)
    desired = DesiredState(
        f"release {device}", lambda seen: release.release(device, seen), addresses, ports
    )
    _fulfil(desired, simulate, state_dir, dry_run=dry_run)


@host.command("quarantine", short_help="List the devices whose reset failed, or trust one again.")
@click.option("--lift", metavar="ADDRESS", type=wishes.address, help="Trust this device again.")
@_host_options
def quarantine(*, lift: PciAddress | None, simulate: str | None, state_dir: str | None) -> None:
    """List the devices whose reset failed, which nobody gets until the next boot."""
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
            raise Failure(f"there may be more devices in quarantine: {problem}")
        if not found:
            click.echo("No device is in quarantine.")
