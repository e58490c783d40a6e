"""`laneway gpus`, `laneway gpu` and `laneway vgpu`: the GPUs of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, cluster_options
from laneway.cli.commands.options import (
    MODES,
    SHARED_MODES,
    dry_run_option,
    output_option,
    plain_output_option,
    read_by,
    timeout_option,
    watch_option,
)
from laneway.cli.groups import Group

Command = Callable[..., Any]

GPU = "NODE/ADDRESS"
_SECONDS = 300
"""A GPU with many virtual functions whose MIG mode changes takes minutes."""


@click.command(
    epilog="""\b
Examples:
    laneway gpus
    laneway gpus node1/08:00.0
    laneway gpus --node node1 --verbose
    laneway gpus -o json | jq '.gpus[] | select(.ready | not)'
"""
)
@click.argument("which", metavar=f"[{GPU}]", required=False, shell_complete=completion.gpus)
@click.option(
    "--node", metavar="NAME", shell_complete=completion.nodes, help="Only the GPUs of this node."
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also list each vGPU, configured or desired, with its VGPUDevice.",
)
@output_option
@watch_option
@cluster_options
def gpus(
    *,
    which: str | None,
    node: str | None,
    verbose: bool,
    output: str | None,
    watch: bool,
    where: ClusterChoice,
) -> None:
    """Show the GPUs of the cluster that can be shared, and what still fits on each.

    VGPUS counts the configured vGPUs, and the virtual functions that can have one. "Room for"
    names each profile with the number of vGPUs that still fit if only that profile is added.

    With NODE/ADDRESS, the command shows one GPU, and a picture of its memory: what occupies it and
    what is free.
    """
    from laneway.cli import gpus as shown

    if which is not None and node is not None:
        raise click.UsageError("NODE/ADDRESS names the node; leave --node out")
    asked = shown.Asked(which or "", node or "", verbose=verbose)
    shown.show_gpus(asked, output, where, watch=watch)


@click.command(
    epilog="""\b
Examples:
    laneway top
    laneway top --node node1
    laneway top --once -o json
"""
)
@click.option(
    "--node", metavar="NAME", shell_complete=completion.nodes, help="Only the GPUs of this node."
)
@click.option("--once", is_flag=True, help="Print the table once and end, for scripts.")
@output_option
@cluster_options
def top(*, node: str | None, once: bool, output: str | None, where: ClusterChoice) -> None:
    """Show the GPUs of the cluster live: their vGPUs, holders and framebuffer.

    MEMORY is the framebuffer that is allocated, of the framebuffer of the GPU. UTIL is the
    utilisation. A value that Laneway does not know is shown as "-". q or Ctrl-C ends the view.
    """
    from laneway.cli import top as shown

    shown.show_top(node or "", output, where, once=once)


def _change_options(command: Command) -> Command:
    """What the commands that change a GPU share."""
    options = (
        dry_run_option,
        click.option(
            "--when-possible",
            is_flag=True,
            help="Store the change even if it is not possible now. It is applied once it is "
            "possible.",
        ),
        click.option(
            "--wait/--no-wait",
            default=True,
            show_default=True,
            help="Wait until the agent of the node has applied the change.",
        ),
        timeout_option(_SECONDS),
        plain_output_option,
        cluster_options,
    )
    for option in reversed(options):
        command = option(command)
    return command


def _mode_option(modes: Sequence[str], text: str) -> Callable[[Command], Command]:
    return click.option(
        "--mode",
        callback=read_by(
            "laneway.cli.gpu_changes:any_mode"
            if "MIG" in modes
            else "laneway.cli.gpu_changes:shared_mode"
        ),
        metavar="|".join(modes),
        shell_complete=lambda _context, _option, text: [
            mode for mode in modes if mode.lower().startswith(text.lower())
        ],
        help=text,
    )


@click.group(
    cls=Group,
    epilog="""\b
Examples:
    laneway gpu enable node1/08:00.0
    laneway gpu enable node1/17:00.0 --mode MixedSize
    laneway gpu disable node1/17:00.0 --mode Passthrough --dry-run
""",
)
def gpu() -> None:
    """Enable or disable a GPU of the cluster, and set its mode.

    An enabled GPU has virtual functions, one for each vGPU. Name a GPU by its node and PCI
    address, with or without the domain, or by the name of its SRIOVGPUDevice.
    """


@gpu.command(
    epilog="""\b
Examples:
    laneway gpu enable node1/08:00.0
    laneway gpu enable node1/17:00.0 --mode MIGBacked --dry-run
"""
)
@click.argument("which", metavar=GPU, shell_complete=completion.gpus)
@_mode_option(SHARED_MODES, "How the vGPUs share the GPU. Default: the mode of its SRIOVGPUDevice.")
@_change_options
def enable(**given: Any) -> None:
    """Create the virtual functions of a GPU, so that it can have vGPUs."""
    from laneway.cli.gpu import switch

    switch(enabled=True, **given)


@gpu.command(
    epilog="""\b
Examples:
    laneway gpu disable node1/08:00.0
    laneway gpu disable node1/17:00.0 --mode MIG
"""
)
@click.argument("which", metavar=GPU, shell_complete=completion.gpus)
@_mode_option(
    MODES, "The mode of the GPU from now on. A mode for vGPUs takes effect once it is enabled."
)
@_change_options
def disable(**given: Any) -> None:
    """Remove the virtual functions of a GPU. Refused while one of its vGPUs is enabled."""
    from laneway.cli.gpu import switch

    switch(enabled=False, **given)


@click.group(
    cls=Group,
    epilog="""\b
Examples:
    laneway vgpu set node1/08:00.0 A2-4Q=4
    laneway vgpu set node1/08:00.0 none --dry-run
""",
)
def vgpu() -> None:
    """Set the vGPUs of a GPU of the cluster."""


@vgpu.command(
    "set",
    epilog="""\b
Examples:
    laneway vgpu set node1/08:00.0 A2-8Q
    laneway vgpu set node1/08:00.0 A2-4Q=2 --dry-run
    laneway vgpu set node1/17:00.0 L40S-12Q=2 L40S-24Q --mode MixedSize
    laneway vgpu set node1/17:00.0 none
""",
)
@click.argument("which", metavar=GPU, shell_complete=completion.gpus)
@click.argument(
    "wanted",
    metavar="PROFILE[=COUNT]...",
    nargs=-1,
    required=True,
    callback=read_by("laneway.cli.profile_names:desired"),
    shell_complete=completion.profiles,
)
@_mode_option(
    SHARED_MODES,
    "How the vGPUs share the GPU. Default: the mode of the layout, else that of the GPU.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Also replace vGPUs that single VGPUDevices of the GPU configure.",
)
@_change_options
def set_(**given: Any) -> None:
    """Configure exactly these vGPUs on a GPU; "none" removes all vGPUs.

    vGPUs that exist and that you name stay as they are. All others are removed, unless a VM uses
    them. The command also configures what the profiles need: virtual functions, the mode and GPU
    instances.

    A change that is not possible now is refused, and nothing is changed. With --when-possible it
    is stored and applied later.
    """
    from laneway.cli.vgpu import set_vgpus

    set_vgpus(**given)
