"""`laneway explain`, `capacity`, `doctor` and `vsphere`: what is, and why."""

from __future__ import annotations

import platform

import click
from click.core import ParameterSource

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, cluster_options
from laneway.cli.commands.options import (
    output_option,
    plain_output_option,
    read_by,
    simulate_option,
    timeout_option,
    watch_option,
)
from laneway.cli.groups import Group

_MOST = 100_000


@click.command(
    epilog="""\b
Examples:
    laneway explain 08:00.0
    laneway explain 08:00.4 --simulate a2
    laneway explain node1/08:00.0
    laneway explain vgpudevice/node1-000008004
    laneway explain vm/web --namespace default
"""
)
@click.argument("object_", metavar="OBJECT", shell_complete=completion.objects)
@simulate_option
@plain_output_option
@cluster_options
def explain(
    *, object_: str, simulate: str | None, output: str | None, where: ClusterChoice
) -> None:
    """Explain a device or a VM: its state, and why it can or cannot be used.

    OBJECT is a PCI address (0000:08:00.0, or short 08:00.0) or a USB port (1-4.2) of this host.
    Otherwise it is an object of the cluster: NODE/ADDRESS for a device, KIND/NAME, vm/NAME, or
    NAME if one kind only has an object of that name.
    """
    from laneway.cli.explain import explain as run

    run(object_, simulate, output, where)


@click.command(
    epilog="""\b
Examples:
    laneway capacity
    laneway capacity --node node1 -o wide
    laneway capacity -o json | jq '.resources[] | select(.free > 0)'
    laneway capacity A2-2Q=2
    laneway capacity nvidia.com/NVIDIA_A2-2Q=2 nvidia.com/AD104GL_L4 --vms 3
    laneway capacity A2-4Q --replacing default/pool=web --surge 1

Exit status with RESOURCE: 0 yes, 3 no, 1 the question could not be answered.
"""
)
@click.argument(
    "wanted",
    metavar="[RESOURCE[=COUNT]]...",
    nargs=-1,
    callback=read_by("laneway.cli.capacity_question:requested"),
    shell_complete=completion.profiles,
)
@click.option(
    "--node",
    "nodes",
    metavar="NAME",
    multiple=True,
    shell_complete=completion.nodes,
    help="Only this node. Repeat the option for several nodes.",
)
@click.option(
    "--devices",
    is_flag=True,
    help="List each device with its holder, or with the reason why it is unavailable. The same as "
    "-o wide.",
)
@output_option
@watch_option
@click.option(
    "--vms",
    metavar="NUMBER",
    type=click.IntRange(1, _MOST),
    help="The number of VMs to start. Default: 1, or the number of VMs that are replaced.",
)
@click.option(
    "--selector",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    callback=read_by("laneway.cli.capacity_question:labels"),
    help="A label that the nodes of the VMs must have. Repeat the option for several labels.",
)
@click.option(
    "--replacing",
    metavar="[NAMESPACE/]NAME",
    multiple=True,
    help="A VM that the new VMs replace; [NAMESPACE/]KEY=VALUE for all VMs with that label. Repeat "
    "the option for several VMs.",
)
@click.option(
    "--surge",
    metavar="NUMBER",
    type=click.IntRange(0, _MOST),
    default=0,
    help="Replace the VMs one by one, with up to NUMBER additional VMs at a time.",
)
@click.option(
    "--unavailable",
    metavar="NUMBER",
    type=click.IntRange(0, _MOST),
    help="Replace the VMs one by one, with up to NUMBER VMs fewer at a time. Default: all at once; "
    "with --surge, 0.",
)
@cluster_options
def capacity(
    *,
    wanted: dict[str, int],
    nodes: tuple[str, ...],
    devices: bool,
    output: str | None,
    watch: bool,
    vms: int | None,
    labels: dict[str, str],
    replacing: tuple[str, ...],
    surge: int,
    unavailable: int | None,
    where: ClusterChoice,
) -> int:
    """Show which devices of the cluster are allocated and free; or ask whether VMs can start.

    HELD counts devices of running VMs, RESERVED those of stopped VMs, and WANTED those of VMs that
    are about to start. UNHEALTHY counts devices that are unavailable and not allocated. TOTAL is
    the sum of these and FREE.

    With RESOURCE, the command answers whether VMs that each request these resources can start. A
    vGPU profile may be short: A2-2Q. With --replacing, only what the new VMs request beyond the
    old VMs counts.
    """
    from laneway.cli import capacity as shown

    question = (vms, labels, replacing, surge, unavailable)
    if not wanted and any(question):
        raise click.UsageError(
            "--vms, --selector, --replacing, --surge and --unavailable belong to a question; "
            "name a RESOURCE"
        )
    if wanted and (devices or watch):
        raise click.UsageError("--devices and --watch do not go with RESOURCE; leave one out")
    if unavailable == 0 and not surge and replacing:
        raise click.UsageError("no VM could be replaced: set --surge or --unavailable to 1 or more")
    if not wanted:
        wide = devices or output == "wide"
        return shown.show_capacity(nodes, output, where, devices=wide, watch=watch)
    asked = shown.Question(wanted, nodes, vms, labels, replacing, surge, unavailable)
    return shown.answer(asked, output, where)


@click.group(
    cls=Group,
    epilog="""\b
Examples:
    sudo laneway doctor node
    laneway doctor node --simulate a2
    laneway doctor node --vector-add --node node2
    laneway doctor cluster
    laneway doctor cluster -o json | jq '.findings[] | select(.level == "problem")'

Exit status: 0 no problem, 3 a problem was found, 1 nothing could be examined.
""",
)
def doctor() -> None:
    """Find problems of this host or of the cluster, and how to solve them.

    A finding is ok, advice (check it), or a problem (something does not work).
    """


@doctor.command(epilog="Exit status: 0 no problem, 3 a problem was found.")
@simulate_option
@output_option
@click.option(
    "--kubelet-dir",
    envvar="LANEWAY_KUBELET_DIR",
    show_envvar=True,
    metavar="DIR",
    help="The folder of the kubelet. Default: /var/lib/kubelet.",
)
@click.option(
    "--state-dir",
    envvar="LANEWAY_STATE_DIR",
    show_envvar=True,
    metavar="DIR",
    help="The folder where the agent keeps its state. Default: /var/lib/laneway.",
)
@click.option(
    "--node-root",
    envvar="LANEWAY_NODE_ROOT",
    show_envvar=True,
    default="/",
    show_default=True,
    metavar="DIR",
    help="The root of the node's file system, with the programs of the driver.",
)
@click.option(
    "--vector-add",
    is_flag=True,
    help="Instead, run the vendor's sample on a GPU of a node of the cluster, as a pod.",
)
@click.option(
    "--node",
    "name",
    envvar="NODE_NAME",
    show_envvar=True,
    metavar="NAME",
    shell_complete=completion.nodes,
    help="With --vector-add: the node. Default: the name of this host.",
)
@click.option(
    "--image",
    default="",
    metavar="IMAGE",
    help="With --vector-add: an image that uses a GPU and ends with 0. Default: the vendor's.",
)
@timeout_option(600, "With --vector-add: how long to wait for the pod's end.")
@cluster_options
def node(
    *,
    simulate: str | None,
    output: str | None,
    kubelet_dir: str | None,
    state_dir: str | None,
    node_root: str,
    vector_add: bool,
    name: str | None,
    image: str,
    timeout: float,
    where: ClusterChoice,
) -> int:
    """Examine this host: its IOMMU, firmware, drivers and kubelet.

    It also looks for other software that changes devices. The command changes nothing. Without
    root it cannot read everything, and says so. In the pod of an agent the environment variables
    are set, so that the command examines what the agent sees.

    With --vector-add it examines no host. It runs a pod on a node, which requests one GPU as
    containers do, waits for its end, prints the end of its log, and removes it. It needs the right
    to create and delete pods and to read their logs.
    """
    if vector_add and simulate:
        raise click.UsageError("--vector-add and --simulate exclude each other")
    named = click.get_current_context().get_parameter_source("name")
    if not vector_add and (image or named is ParameterSource.COMMANDLINE):
        raise click.UsageError(
            "--node and --image go with --vector-add; to examine another host, run this on it"
        )
    if vector_add:
        from laneway.cli.doctor import try_containers

        return try_containers(name or platform.node(), image, timeout, output, where)
    from laneway.cli.doctor import examine_node

    return examine_node(simulate, output, kubelet_dir, state_dir, node_root)


@doctor.command(
    epilog="Exit status: 0 no problem, 3 a problem was found, 1 the cluster could not be asked."
)
@output_option
@cluster_options
def cluster(*, output: str | None, where: ClusterChoice) -> int:
    """Examine the cluster: definitions, Laneway, KubeVirt and nodes.

    It also looks for Harvester's controller. The command changes nothing. It says what you may not
    read.
    """
    from laneway.cli.doctor import examine_cluster

    return examine_cluster(output, where)


@click.group(
    cls=Group,
    epilog="""\b
Example:
    laneway vsphere gpus
""",
)
def vsphere() -> None:
    """Show the vCenters whose GPUs Laneway manages."""


@vsphere.command(
    epilog="""\b
Examples:
    laneway vsphere gpus
    laneway vsphere gpus --vcenter main --cluster DC0_C0
    laneway vsphere gpus -o json | jq '.vCenters[].clusters[].capacity[] | select(.free > 0)'
"""
)
@click.option("--vcenter", metavar="NAME", help="Only the vCenter of this VCenter object.")
@click.option("--cluster", metavar="NAME", help="Only this vSphere cluster.")
@output_option
@watch_option
@cluster_options
def gpus(
    *,
    vcenter: str | None,
    cluster: str | None,
    output: str | None,
    watch: bool,
    where: ClusterChoice,
) -> None:
    """Show the GPUs of vCenters, their holders, and what is free.

    USED BY names the Machine, or the VM if no Machine of this cluster belongs to it. RESERVED
    counts devices that are reserved for Machines which do not run yet. "Room for" names each
    profile with the number of vGPUs that still fit if only that profile is added.
    """
    from laneway.cli import vsphere as shown

    shown.show_vsphere(vcenter, cluster, output, where, watch=watch)
