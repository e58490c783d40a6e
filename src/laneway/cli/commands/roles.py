"""`laneway up`, `agent` and `manager`: parts of Laneway that run."""

from __future__ import annotations

import os

import click

from laneway.cli import completion
from laneway.cli.cluster_options import ClusterChoice, role_options
from laneway.cli.commands.options import (
    KUBELET_FOLDER,
    LEASE,
    MODELS,
    NAMESPACE,
    STATE_FOLDER,
    log_options,
    traces_option,
)
from laneway.cli.errors import Failure
from laneway.cli.health import health_address_option

CERTIFICATES = ("own", "cert-manager", "none")
"""Who makes the certificate of the webhook."""
VSPHERE = ("none", "alongside", "standalone")
"""How the manager handles Machines of Cluster API on vSphere."""


def _default_data_dir() -> str:
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    if not os.path.isabs(base):
        # Relative to the current folder, the next start would not find it.
        raise Failure("you have no home directory to keep data in; choose one with --data-dir")
    return os.path.join(base, "laneway")


@click.command(
    epilog="""\b
Example: this host and a simulated server with an NVIDIA A2.
    laneway up --simulate a2
"""
)
@click.option(
    "--data-dir",
    default=_default_data_dir,
    metavar="DIR",
    help="The folder for all data. With the same folder, the next start continues from there. "
    "Default: ~/.local/share/laneway.",
)
@click.option(
    "--simulate",
    multiple=True,
    shell_complete=completion.hosts,
    metavar="SPEC",
    help=f"Add simulated hosts: MODEL[:COUNT] ({MODELS}), or the path of a dump from 'laneway "
    "capture' or umockdev-record. Pods and VMs of KubeVirt run on them. Repeat the option for "
    "several.",
)
@click.option("--no-local", is_flag=True, help="Leave out the devices of this host.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7443,
    show_default=True,
    help="The port of the API server on 127.0.0.1; 0 for any free port.",
)
@click.option(
    "--ui-port",
    type=click.IntRange(0, 65535),
    default=7480,
    show_default=True,
    help="The port of the web interface on 127.0.0.1; 0 for any free port.",
)
@click.option(
    "--dra",
    is_flag=True,
    help="Also publish devices in ResourceSlices: kubectl get resourceslices.",
)
@click.option(
    "--vsphere",
    is_flag=True,
    help="Also create Machines of Cluster API on vSphere, with their GPUs. The core of Cluster API "
    "is simulated; the vCenters are those that the objects name.",
)
@click.option(
    "--cluster-api",
    is_flag=True,
    help="Also simulate Cluster API and its provider for KubeVirt (CAPK): Machines become VMs of "
    "simulated hosts.",
)
@click.option(
    "--rancher",
    is_flag=True,
    help="Also simulate Rancher: the machine pools of guest clusters become VMs of simulated "
    "hosts.",
)
@traces_option
@log_options("warning", "text")
def up(
    *,
    data_dir: str,
    simulate: tuple[str, ...],
    no_local: bool,
    port: int,
    ui_port: int,
    dra: bool,
    vsphere: bool,
    cluster_api: bool,
    rancher: bool,
    otlp_endpoint: str,
    log_level: str,
    log_format: str | None,
) -> None:
    """Run all of Laneway on this host, with an API server of its own.

    The command prints what to type next when Laneway is ready. It runs until Ctrl-C or SIGTERM.
    """
    if not data_dir:
        raise click.UsageError("--data-dir is empty; name a folder, or leave the option out")
    if no_local and not (simulate or vsphere):
        raise click.UsageError("--no-local leaves no host: add --simulate or --vsphere")
    if rancher and not simulate:
        raise click.UsageError("--rancher needs simulated hosts for its machines: add --simulate")
    if cluster_api and not simulate:
        raise click.UsageError("--cluster-api needs simulated hosts for its VMs: add --simulate")
    if cluster_api and vsphere:
        raise click.UsageError(
            "--cluster-api and --vsphere exclude each other: choose one provider"
        )
    from laneway.cli.logs import configure
    from laneway.cli.processes.up import run_everything

    configure(log_level, log_format or "text")  # a person reads it, also through a pipe
    run_everything(
        data_dir,
        simulate,
        local=not no_local,
        port=port,
        dra=dra,
        vsphere=vsphere,
        cluster_api=cluster_api,
        rancher=rancher,
        ui_port=ui_port,
        endpoint=otlp_endpoint,
    )


@click.command(
    epilog="""\b
Example: in a pod of a DaemonSet.
    laneway agent --node "$NODE_NAME"
"""
)
@click.option(
    "--node",
    envvar="NODE_NAME",
    required=True,
    metavar="NAME",
    show_envvar=True,
    help="The name of this node in the cluster.",
)
@role_options
@health_address_option(9640)
@click.option(
    "--state-dir",
    metavar="PATH",
    help="A folder on the node that survives restarts, for the journal, the audit record and the "
    f"state of devices.  [default: {STATE_FOLDER}; none for simulated hosts]",
)
@click.option(
    "--kubelet-dir",
    default=KUBELET_FOLDER,
    show_default=True,
    metavar="PATH",
    help="The folder of the node's kubelet, which allocates devices to pods. If it does not exist, "
    "the agent manages devices and does not advertise them.",
)
@click.option(
    "--driver-namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="The namespace of the pods of NVIDIA's driver.",
)
@click.option(
    "--no-driver-pod",
    is_flag=True,
    help="The driver is installed on the node: do not look for a driver pod to run programs in.",
)
@click.option(
    "--node-root",
    default="/",
    show_default=True,
    metavar="PATH",
    help="The root of the node's file system. Programs on the node run with this root.",
)
@click.option(
    "--prepare-host",
    is_flag=True,
    help="Prepare the node as HostPolicies ask: write boot parameters below --node-root, and "
    "reboot the node when the manager says so.",
)
@click.option(
    "--dra",
    is_flag=True,
    help="Also publish devices in ResourceSlices (Kubernetes 1.34 or newer), for claims that "
    "select devices by attributes.",
)
@click.option(
    "--simulate",
    metavar="SPEC",
    shell_complete=completion.hosts,
    help="Manage a simulated host instead of this node, to try Laneway on a cluster: a model "
    f"({MODELS}) or the path of a dump. It has no kubelet, so no pod gets its devices.",
)
@traces_option
@click.option(
    "--audit",
    default="",
    metavar="WHERE",
    help="Send the lines of the audit record to a second place: stdout, the absolute PATH of a "
    "file, or the URL of a receiver of OTLP logs over HTTP, which needs laneway[otel]. Default: "
    "they are only in the state folder.",
)
@log_options()
def agent(
    *,
    node: str,
    kubeconfig: str | None,
    context: str | None,
    health_address: str,
    state_dir: str | None,
    kubelet_dir: str,
    driver_namespace: str,
    no_driver_pod: bool,
    node_root: str,
    prepare_host: bool,
    dra: bool,
    simulate: str | None,
    otlp_endpoint: str,
    audit: str,
    log_level: str,
    log_format: str | None,
) -> None:
    """Run the agent of one node: publish its devices and reconcile them with their objects."""
    from laneway.cli.logs import configure
    from laneway.cli.processes.agent import Folders, run_agent

    configure(log_level, log_format)
    run_agent(
        node,
        ClusterChoice(kubeconfig, context),
        health_address,
        Folders(state_dir, kubelet_dir, node_root),
        driver_namespace="" if no_driver_pod else driver_namespace,
        prepare_host=prepare_host,
        dra=dra,
        simulate=simulate,
        endpoint=otlp_endpoint,
        audit=audit,
    )


@click.command(
    epilog="""\b
Example: two managers, in pods of a Deployment.
    laneway manager --namespace harvester-system
"""
)
@role_options
@click.option(
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help=f"The namespace of the Lease {LEASE}, which elects the leader. It must exist.",
)
@click.option(
    "--webhook-certificates",
    type=click.Choice(CERTIFICATES),
    default=CERTIFICATES[0],
    show_default=True,
    help="Who makes the certificate of the webhook. own: the manager keeps it in a Secret in its "
    "namespace and registers its authority with the API server. cert-manager: cert-manager does "
    "both. none: no webhook runs.",
)
@click.option(
    "--driver-toolkit",
    is_flag=True,
    help="Replace the pods of the driver toolkit in the same namespace one node after the other "
    "once it is to install another driver.",
)
@click.option(
    "--machine-capacity",
    is_flag=True,
    help="Write what a machine of Cluster API on KubeVirt has, with its GPUs, into annotations of "
    "MachineDeployments and MachineSets: the cluster autoscaler reads them to scale from zero.",
)
@click.option(
    "--vsphere",
    type=click.Choice(VSPHERE),
    default=VSPHERE[0],
    show_default=True,
    help="Manage the GPUs of vCenters. alongside: CAPV makes the VMs; Laneway validates Machines, "
    "reserves their devices and reports on them. standalone: Laneway makes the VMs in CAPV's "
    "place; CAPV must not run.",
)
@click.option(
    "--vsphere-check-nodes",
    is_flag=True,
    help="Also check the node of each Machine with GPUs in its own cluster, through the Secret "
    "CLUSTER-kubeconfig, and run a Job that adds vectors on one of them.",
)
@click.option(
    "--vsphere-check-image",
    metavar="REFERENCE",
    help="The image of that Job; it must end with status 0 on success. Default: NVIDIA's sample, "
    "which needs access to the internet.",
)
@health_address_option(9641)
@traces_option
@log_options()
def manager(
    *,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    webhook_certificates: str,
    driver_toolkit: bool,
    machine_capacity: bool,
    vsphere: str,
    vsphere_check_nodes: bool,
    vsphere_check_image: str | None,
    health_address: str,
    otlp_endpoint: str,
    log_level: str,
    log_format: str | None,
) -> None:
    """Run the manager, which does what a cluster needs once. Of several managers, one leads.

    The manager keeps KubeVirt's list of permitted devices, records on VMs which devices they got,
    removes the objects of deleted nodes and renews the certificate of the webhook. With
    --driver-toolkit, it also replaces driver pods; with --vsphere, it manages the GPUs of vCenters
    and their reservations.
    """
    if vsphere_check_nodes and vsphere == VSPHERE[0]:
        raise click.UsageError(
            f"--vsphere-check-nodes needs --vsphere {VSPHERE[1]} or {VSPHERE[2]}"
        )
    if vsphere_check_image is not None and not vsphere_check_nodes:
        raise click.UsageError("--vsphere-check-image needs --vsphere-check-nodes")
    from laneway.cli.logs import configure
    from laneway.cli.processes.manager import run_manager

    configure(log_level, log_format)
    run_manager(
        ClusterChoice(kubeconfig, context, namespace),
        health_address,
        endpoint=otlp_endpoint,
        certificates=webhook_certificates == CERTIFICATES[0],
        drivers=driver_toolkit,
        machine_capacity=machine_capacity,
        vsphere=vsphere,
        check_nodes=vsphere_check_nodes,
        check_image=vsphere_check_image,
    )
