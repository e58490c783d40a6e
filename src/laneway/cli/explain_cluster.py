"""What `laneway explain` asks a cluster: about an object of ours, or about a VM."""

from __future__ import annotations

from laneway.cli import cluster, connection, explain_vm, page
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.output import View, object_name
from laneway.views.explain.object import explain_object

_VMS = ("vm", "vms", "virtualmachine", "virtualmachines")


def view_of(text: str, where: ClusterChoice) -> View:
    """What is known about an object. Raises Failure."""
    kind, slash, name = text.partition("/")
    if slash and kind.lower() in _VMS:
        cluster.check_name(name)
        namespace = connection.namespace_of(where)
        return connection.ask(lambda client: explain_vm.look(client, namespace, name), where)
    found = cluster.fetch(text, where)
    metadata = found.obj.get("metadata", {})
    return page.view(
        explain_object(found),
        document={
            "object": found.obj,
            "claim": found.claim,
            "events": found.events,
            "unreadable": found.unreadable,
        },
        name=object_name(str(found.obj.get("kind", "")), str(metadata.get("name", ""))),
    )
