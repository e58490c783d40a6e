"""`laneway claim`, `laneway release` and `laneway takeover`: who manages a device."""

from __future__ import annotations

import click

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, cluster_options
from laneway.cli.commands.options import dry_run_option, plain_output_option, timeout_option

DEVICE = "NODE/ADDRESS"
_CLAIM_SECONDS = 60
_RELEASE_SECONDS = 600
_TAKEOVER_SECONDS = 300


@click.command(
    epilog="""\b
Examples:
    laneway claim node1/17:00.0
    laneway claim node1/17:00.0 node1/17:00.1 --dry-run
    laneway claim node1/1-4.2
"""
)
@click.argument(
    "devices", metavar=f"{DEVICE}...", nargs=-1, required=True, shell_complete=completion.devices
)
@dry_run_option
@click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Wait until the agent of the node has prepared the device.",
)
@timeout_option(_CLAIM_SECONDS)
@plain_output_option
@cluster_options
def claim(
    *,
    devices: tuple[str, ...],
    dry_run: bool,
    wait: bool,
    timeout: int,
    output: str | None,
    where: ClusterChoice,
) -> None:
    """Claim whole devices for VMs: PCI devices by NODE/ADDRESS, USB devices by NODE/PORT.

    The command creates a PCIDeviceClaim or USBDeviceClaim in your name. The agent of the node then
    binds the device to the driver that VMs need. The same rules as for other claims apply.
    """
    from laneway.cli.claiming import claim_devices

    claim_devices(devices, where, dry_run=dry_run, seconds=timeout if wait else 0, output=output)


@click.command(
    epilog="""\b
Examples:
    laneway release node1/17:00.0
    laneway release --node node1 --dry-run
    laneway release --all && helm uninstall laneway --namespace harvester-system

Exit status: 0 released, 3 something is left, 1 the command failed.
"""
)
@click.argument("devices", metavar=f"[{DEVICE}]...", nargs=-1, shell_complete=completion.claims)
@click.option(
    "--node",
    "nodes",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.nodes,
    help="Release everything on this node. Repeat the option for several nodes.",
)
@click.option("--all", "everywhere", is_flag=True, help="Release everything on all nodes.")
@dry_run_option
@timeout_option(
    _RELEASE_SECONDS, "How long to wait for agents, and for VMs that hold a device to stop."
)
@cluster_options
def release(
    *,
    devices: tuple[str, ...],
    nodes: tuple[str, ...],
    everywhere: bool,
    dry_run: bool,
    timeout: int,
    where: ClusterChoice,
) -> int:
    """Release claimed devices; with --node or --all, release everything, to uninstall Laneway.

    With NODE/ADDRESS, the command deletes the claim of the device. The agent then returns the
    device to the driver that it had.

    With --node or --all, it deletes layouts and claims, and disables vGPUs, MIG configurations and
    virtual functions, in the order of their dependencies. Devices that a VM holds stay with the VM.
    The command names the VM; stop it, and the command goes on. If you uninstall Laneway without
    this, all devices stay as they are.
    """
    if bool(devices) + bool(nodes) + everywhere != 1:
        raise click.UsageError("name devices as NODE/ADDRESS, or nodes with --node NAME or --all")
    if "" in nodes:
        # An unset variable of a script; an empty name must not mean every node, nor "done".
        raise click.UsageError("--node is empty; name a node, or use --all for all nodes")
    if devices:
        from laneway.cli.claiming import release_devices

        release_devices(devices, where, dry_run=dry_run, seconds=timeout)
        return 0
    from laneway.cli.release import release_everything

    return release_everything(nodes, where, dry_run=dry_run, seconds=timeout)


@click.command(
    epilog="""\b
Examples:
    laneway takeover --dry-run
    laneway takeover
    laneway takeover --back --dry-run

Exit status: 0 done or nothing to do, 3 a problem prevents it, 1 the command failed.
"""
)
@dry_run_option
@click.option("--back", is_flag=True, help="Let Harvester's controller manage the devices again.")
@timeout_option(_TAKEOVER_SECONDS, "How long to wait until the pods of the controller are gone.")
@cluster_options
def takeover(*, dry_run: bool, back: bool, timeout: int, where: ClusterChoice) -> int:
    """Take over from Harvester's PCI devices controller, before Laneway is installed.

    The command parks the DaemonSet and removes the webhook configurations of the controller. It
    saves both in the ConfigMap harvester-system/laneway-takeover first. It does not change devices,
    claims and the lists of KubeVirt. VMs that hold devices get an annotation: the agents of
    Laneway adopt what runs when they start. After an interruption, run the command again.
    """
    from laneway.cli.takeover import take_over

    return take_over(where, dry_run=dry_run, back=back, seconds=timeout)
