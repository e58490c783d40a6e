"""What `laneway explain vm/NAME` says: the devices of a VM, and whether it can start.

The answer comes from the ledger, by the rules of `laneway capacity`.
"""

from __future__ import annotations

from typing import Any

from laneway.cli import cluster, connection, page
from laneway.cli.errors import Failure
from laneway.cli.output import View
from laneway.cli.suggest import did_you_mean
from laneway.controllers.ledger.snapshot import look as look_at_ledger
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.views.explain.vm import Vm, document, explain_vm
from laneway.views.gpus import not_listed


async def look(client: Client, namespace: str, name: str) -> View:
    """The VM, its devices and its events. Raises Failure."""
    stored = await _stored(client, namespace, name)
    with connection.installed("PCIDeviceClaim"):
        seen = await look_at_ledger(client)
    ledger = build(seen.facts)
    consumer = Consumer(ConsumerKind.VM, namespace, name)
    unreadable: list[str] = []
    events = await cluster.events_of(
        client, "VirtualMachine", name, namespace, unreadable=unreadable
    )
    unknown = (*seen.unknown, *not_listed(unreadable))
    return page.view(
        explain_vm(Vm(stored, ledger, consumer, events, unknown)),
        document=document(ledger, consumer),
        name=f"virtualmachine.kubevirt.io/{name}",
    )


async def _stored(client: Client, namespace: str, name: str) -> dict[str, Any]:
    path = VIRTUAL_MACHINES.path(namespace, name)
    try:
        return await cluster.raw_object(client, path, f"vm/{name}")
    except NotFoundError:
        known = await cluster.names_in(client, VIRTUAL_MACHINES.path(namespace))
    meant = did_you_mean(name, known)
    raise Failure(
        f"namespace {namespace} has no VM {name}. {meant} --namespace chooses another namespace"
    )
