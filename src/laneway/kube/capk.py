"""Objects of Cluster API's provider for KubeVirt (CAPK), as far as Laneway reads them.

A KubevirtMachine becomes a VM of its name, in the namespace that its template's VM names, else in
its own. The VM is in this cluster, unless the machine or its KubevirtCluster names a Secret that
leads to another one; the machine's own is what counts.
"""

from __future__ import annotations

import msgspec

from laneway.api import ObjectMeta
from laneway.core.machine_pools.affinity import Affinity
from laneway.kube.kubevirt import InstanceSpec, Template, VirtualMachineSpec
from laneway.kube.resource import Resource

GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha1"
TEMPLATE = "KubevirtMachineTemplate"


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object of CAPK's."""


class SecretReference(_Part, frozen=True, kw_only=True):
    """A Secret with the kubeconfig of the cluster that has the VMs."""

    name: str = ""
    namespace: str = ""


class GuestSpec(InstanceSpec, frozen=True, kw_only=True):
    """What the instance of a machine's VM is to be."""

    affinity: Affinity | None = None


class GuestTemplate(Template, frozen=True, kw_only=True):
    """What the instance of a machine's VM looks like."""

    spec: GuestSpec = GuestSpec()


class VmSpec(VirtualMachineSpec, frozen=True, kw_only=True):
    """What is desired of a machine's VM."""

    template: GuestTemplate = GuestTemplate()


class VmTemplate(_Part, frozen=True, kw_only=True):
    """What the VM of a machine looks like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VmSpec = VmSpec()


class MachineSpec(_Part, frozen=True, kw_only=True):
    """What is desired of a machine."""

    virtual_machine_template: VmTemplate = VmTemplate()
    infra_cluster_secret_ref: SecretReference | None = None
    """None: the KubevirtCluster's."""


class MachineResource(_Part, frozen=True, kw_only=True):
    """What machines are made of."""

    spec: MachineSpec = MachineSpec()


class TemplateSpec(_Part, frozen=True, kw_only=True):
    """What is desired of a template."""

    template: MachineResource = MachineResource()


class KubevirtMachineTemplate(_Part, frozen=True, kw_only=True):
    """What KubevirtMachines are made of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()

    @property
    def machine(self) -> MachineSpec:
        """What each machine is to be."""
        return self.spec.template.spec


class ClusterSpec(_Part, frozen=True, kw_only=True):
    """What is desired of a KubevirtCluster."""

    infra_cluster_secret_ref: SecretReference | None = None
    """None: the VMs are in this cluster."""


class KubevirtCluster(_Part, frozen=True, kw_only=True):
    """The infrastructure of a Cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterSpec = ClusterSpec()


KUBEVIRT_TEMPLATES = Resource(
    GROUP, VERSION, "kubevirtmachinetemplates", True, KubevirtMachineTemplate, optional=True
)
KUBEVIRT_CLUSTERS = Resource(
    GROUP, VERSION, "kubevirtclusters", True, KubevirtCluster, optional=True
)
