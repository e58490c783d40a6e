"""`laneway host`: plan, apply, release and prepare, for a host without a cluster.

`plan` and `apply` have the same subcommands; `plan` is `apply --dry-run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from laneway.cli.commands.options import MODELS, STATE_FOLDER, dry_run_option, read_by
from laneway.cli.commands.prepare import prepare
from laneway.cli.groups import Group

if TYPE_CHECKING:
    from laneway.core.pci import PciAddress

Command = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--simulate",
        metavar="SPEC",
        help=f"Change a simulated host instead: a model ({MODELS}) or the path of a dump. With "
        "--state-dir, the next command finds it as this one left it.",
    ),
    click.option(
        "--state-dir",
        metavar="DIR",
        help="The folder for the journal, the audit record and the original drivers of devices.  "
        f"[default: {STATE_FOLDER}; none for simulated hosts]",
    ),
)
_ADDRESS = click.argument(
    "address", metavar="ADDRESS", callback=read_by("laneway.cli.host.desired:address")
)


def _host_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(
    cls=Group,
    epilog="""\b
Examples:
    laneway host plan gpu 08:00.0 --vgpus A2-4Q=2
    laneway host apply passthrough 17:00.0
    laneway host release 17:00.0
    laneway host prepare --apply
    laneway host apply gpu 08:00.0 --vgpus A2-4Q=2 --simulate a2
""",
)
def host() -> None:
    """Change the devices of this host, without a cluster.

    Every command makes a plan before it writes. It prints the steps, or all reasons why the change
    is refused. The next command finishes or undoes an interrupted plan. Laneway never takes a
    device from a VM that holds it.
    """


def _gpu(name: str, *, plan_only: bool) -> click.Command:
    @click.command(
        "gpu",
        short_help="Configure the vGPUs of an NVIDIA GPU.",
        epilog=f"""\b
Examples:
    laneway host {name} gpu 0000:08:00.0 --vgpus A2-4Q=2
    laneway host {name} gpu 08:00.0 --vgpus A2-8Q,A2-4Q=2 --mixed-size
    laneway host {name} gpu 08:00.0 --vgpus A2-1B=16 --simulate a2
""",
    )
    @_ADDRESS
    @click.option(
        "--vgpus",
        required=True,
        metavar="PROFILE[=COUNT],...",
        callback=read_by("laneway.cli.host.desired:vgpus"),
        help="All vGPUs that the GPU is to have, or none. vGPUs that exist and are named stay as "
        "they are. All others are removed, unless a VM holds them.",
    )
    @click.option("--mixed-size", is_flag=True, help="Allow vGPUs of different sizes on the GPU.")
    @click.option(
        "--parameters",
        default="",
        metavar="NAME=VALUE,...",
        help="Parameters of every vGPU, such as frame_rate_limiter=0.",
    )
    @_dry_run_unless(plan_only)
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
        """Configure the vGPUs of an NVIDIA GPU, and the virtual functions that they need.

        MIG-backed profiles switch the GPU to MIG mode and create the GPU instances that they need.
        """
        from laneway.cli.host import commands

        desired = commands.desired_gpu(address, vgpus, parameters, mixed_size=mixed_size)
        commands.fulfil(desired, simulate, state_dir, dry_run=plan_only or dry_run)

    return gpu


def _passthrough(*, plan_only: bool) -> click.Command:
    @click.command("passthrough", short_help="Bind a PCI device to vfio-pci.")
    @_ADDRESS
    @_dry_run_unless(plan_only)
    @_host_options
    def passthrough(
        *, address: PciAddress, simulate: str | None, state_dir: str | None, dry_run: bool = False
    ) -> None:
        """Bind a PCI device to vfio-pci, together with the rest of its IOMMU group."""
        from laneway.cli.host import commands

        desired = commands.desired_passthrough(address)
        commands.fulfil(desired, simulate, state_dir, dry_run=plan_only or dry_run)

    return passthrough


def _vfs(*, plan_only: bool) -> click.Command:
    @click.command("vfs", short_help="Set the number of virtual functions of a device.")
    @_ADDRESS
    @click.option(
        "--count",
        required=True,
        type=click.IntRange(0, 65535),
        help="The number of virtual functions.",
    )
    @_dry_run_unless(plan_only)
    @_host_options
    def vfs(
        *,
        address: PciAddress,
        count: int,
        simulate: str | None,
        state_dir: str | None,
        dry_run: bool = False,
    ) -> None:
        """Set the number of virtual functions of a network card or of another SR-IOV device."""
        from laneway.cli.host import commands

        desired = commands.desired_vfs(address, count)
        commands.fulfil(desired, simulate, state_dir, dry_run=plan_only or dry_run)

    return vfs


def _usb(*, plan_only: bool) -> click.Command:
    @click.command("usb", short_help="Give VMs access to a USB device.")
    @click.argument("port", metavar="PORT", callback=read_by("laneway.cli.host.desired:usb_port"))
    @_dry_run_unless(plan_only)
    @_host_options
    def usb(
        *, port: str, simulate: str | None, state_dir: str | None, dry_run: bool = False
    ) -> None:
        """Give VMs access to a USB device."""
        from laneway.cli.host import commands

        desired = commands.desired_usb(port)
        commands.fulfil(desired, simulate, state_dir, dry_run=plan_only or dry_run)

    return usb


def _dry_run_unless(plan_only: bool) -> Callable[[Command], Command]:
    return (lambda command: command) if plan_only else dry_run_option


def _group(name: str, text: str, *, plan_only: bool) -> click.Group:
    """The commands that name a desired state, to print the plan or to carry it out."""
    group = Group(name, help=text)
    group.add_command(_gpu(name, plan_only=plan_only))
    for make in (_passthrough, _vfs, _usb):
        group.add_command(make(plan_only=plan_only))
    return group


host.add_command(
    _group("plan", "Print what 'apply' would do, or why it is refused.", plan_only=True)
)
host.add_command(
    _group("apply", "Bring a device to a desired state, step by step.", plan_only=False)
)


host.add_command(prepare)


@host.command(
    "release",
    short_help="Release a device: return it to the driver that it had.",
    epilog="""\b
Examples:
    laneway host release 0000:08:00.0
    laneway host release 3-1.2
""",
)
@click.argument("device", metavar="DEVICE", callback=read_by("laneway.cli.host.desired:device"))
@dry_run_option
@_host_options
def release_device(
    *, device: PciAddress | str, simulate: str | None, state_dir: str | None, dry_run: bool
) -> None:
    """Release a device: a PCI address or a USB port.

    A GPU loses its vGPUs, GPU instances and virtual functions. A network card loses its virtual
    functions. A device on vfio-pci returns to the driver that it had.
    """
    from laneway.cli.host import commands

    commands.fulfil(commands.desired_release(device), simulate, state_dir, dry_run=dry_run)


@host.command("quarantine", short_help="List the devices whose reset failed, or trust one again.")
@click.option(
    "--lift",
    metavar="ADDRESS",
    callback=read_by("laneway.cli.host.desired:address"),
    help="Trust this device again.",
)
@_host_options
def quarantine(*, lift: PciAddress | None, simulate: str | None, state_dir: str | None) -> None:
    """List the devices whose reset failed. No VM gets them until the next boot of the host."""
    from laneway.cli.host.commands import show_quarantine

    show_quarantine(lift, simulate, state_dir)
