"""`laneway host prepare`: the boot parameters and drivers that passthrough needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from laneway.cli.commands.options import MODELS, STATE_FOLDER, read_by

if TYPE_CHECKING:
    from laneway.core.preparation.wanted import HugePages


@click.command(
    "prepare",
    short_help="Set up the boot parameters and drivers that passthrough needs.",
    epilog="""\b
Examples:
    laneway host prepare
    laneway host prepare --apply
    laneway host prepare --apply --huge-pages 1G=16 --kernel-argument default_hugepagesz=1G
    laneway host prepare --undo
    laneway host prepare --apply --simulate a2,iommu=off
""",
)
@click.option("--plan", is_flag=True, help="Print the steps only. The default.")
@click.option("--apply", "apply_", is_flag=True, help="Carry the steps out.")
@click.option(
    "--undo",
    is_flag=True,
    help="Take back all that Laneway has written; with --plan print the steps of that.",
)
@click.option(
    "--reboot",
    is_flag=True,
    help="With --apply or --undo: check the boot configuration again, and reboot the host.",
)
@click.option(
    "--iommu/--no-iommu",
    default=True,
    show_default=True,
    help="The kernel uses the IOMMU.",
)
@click.option(
    "--iommu-passthrough",
    is_flag=True,
    help="The host's own devices bypass the IOMMU (iommu=pt).",
)
@click.option(
    "--vfio/--no-vfio",
    default=True,
    show_default=True,
    help="Load vfio-pci at every boot.",
)
@click.option(
    "--block-driver",
    "drivers",
    multiple=True,
    metavar="MODULE",
    help="A kernel module to keep off devices, or none. Can be given several times.  "
    "[default: nouveau on a host with an NVIDIA GPU]",
)
@click.option(
    "--huge-pages",
    multiple=True,
    metavar="SIZE=COUNT",
    callback=read_by("laneway.cli.host.preparing:huge_pages"),
    help="Huge pages to set aside at boot, such as 1G=16. Can be given several times.",
)
@click.option(
    "--kernel-argument",
    "arguments",
    multiple=True,
    metavar="WORD",
    help="A further word of the kernel command line. Can be given several times.",
)
@click.option(
    "--simulate",
    metavar="SPEC",
    help=f"Change a simulated host instead: a model ({MODELS}), MODEL,iommu=off for a host as its "
    "installer left it, or the path of a dump. With --state-dir, the next command finds it as "
    "this one left it.",
)
@click.option(
    "--state-dir",
    metavar="DIR",
    help="The folder for the journal and the audit record.  "
    f"[default: {STATE_FOLDER}; none for simulated hosts]",
)
def prepare(
    *,
    plan: bool,
    apply_: bool,
    undo: bool,
    reboot: bool,
    iommu: bool,
    iommu_passthrough: bool,
    vfio: bool,
    drivers: tuple[str, ...],
    huge_pages: tuple[HugePages, ...],
    arguments: tuple[str, ...],
    simulate: str | None,
    state_dir: str | None,
) -> None:
    """Set up the boot parameters and drivers that passthrough needs.

    The command finds the boot loader, and adds to the kernel command line what is missing. It
    never changes or repeats what an administrator wrote. The host boots the new configuration only
    after Laneway has checked it. What needs a reboot takes effect at the next boot.
    """
    from laneway.cli.host import preparing

    if apply_ and (plan or undo):
        other = "--plan" if plan else "--undo"
        raise click.UsageError(f"--apply and {other} exclude each other")
    plan_only = plan or not (apply_ or undo)
    if plan_only and reboot:
        raise click.UsageError("--reboot needs --apply, or --undo without --plan")
    request = preparing.Request(
        iommu=iommu,
        iommu_passthrough=iommu_passthrough,
        vfio=vfio,
        drivers=drivers,
        huge_pages=huge_pages,
        arguments=arguments,
    )
    preparing.prepare_host(
        None if undo else request, simulate, state_dir, plan_only=plan_only, reboot=reboot
    )
