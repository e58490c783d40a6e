"""A stand-in for KubeVirt: from VM to pod to devices that are open on the host.

It does what KubeVirt 1.6 does as far as devices are concerned, in its words, with its own kinds,
and no guest ever runs. A VM without devices migrates by a VirtualMachineInstanceMigration, at once:
no memory is copied, and disks and networks keep none from it. One with a single vGPU on a mediated
device does as well where KubeVirt 1.9's gate for it is on.

An instance reports an address for each of its interfaces, as if the guest agent ran. Controllers
obey `status.stateChangeRequests`, by which the subresource API (`virtctl`) asks them.

What it leaves out: that API itself, migration between clusters, and webhooks. So a
migration that KubeVirt would not admit is made and fails, with the same words in its
`status.migrationState.failureReason`. The eviction of a pod is not answered with 429: it ends the
VM, whatever its `evictionStrategy`. Who sets `status.evacuationNodeName`, as that webhook would,
has the VM migrate.
"""
