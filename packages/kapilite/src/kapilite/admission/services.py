"""Where the webhook behind a Service listens.

No network routes Services on a single machine, so what the stored objects say is taken at its
word, in this order: the host of an ExternalName service; ready addresses of its Endpoints or
EndpointSlices, with the port of the same name; an external IP; the cluster IP. A user with a
webhook next to the server therefore stores a Service of type ExternalName (`localhost`), or one
without a selector and Endpoints for it. The texts are those of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from kapilite.admission.configuration import Service
    from kapilite.storage.store import Store

SLICES = "endpointslices.discovery.k8s.io"
SLICE_OWNER = "kubernetes.io/service-name"


class Unresolved(Exception):  # noqa: N818 - the outcome, not an accident
    """There is nowhere to connect to; the text says why."""


class Place(NamedTuple):
    """An address to connect to; `host` may be a name."""

    host: str
    port: int


def resolve(store: Store, service: Service) -> tuple[Place, ...]:
    """The places where the service is to be found, the best first."""
    stored = store.get(Key("services", service.namespace, service.name))
    if stored is None:
        raise Unresolved(f'service "{service.name}" not found')
    spec = as_object(stored.body).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return (Place(spec["externalName"], service.port),)
    ports = [p for p in spec.get("ports") or () if p.get("port") == service.port]
    if not ports:
        raise Unresolved(f'no service port {service.port} found for service "{service.name}"')
    found = tuple(_endpoints(store, service, ports[0].get("name") or ""))
    if not found:
        addresses = (*(spec.get("externalIPs") or ()), spec.get("clusterIP"))
        found = tuple(Place(a, service.port) for a in addresses if a and a != "None")
    if not found:
        raise Unresolved(f'no endpoints available for service "{service.name}"')
    return found


def _endpoints(store: Store, service: Service, port: str) -> Iterator[Place]:
    stored = store.get(Key("endpoints", service.namespace, service.name))
    for subset in (as_object(stored.body).get("subsets") or ()) if stored else ():
        for number in _ports(subset, port):
            for address in subset.get("addresses") or ():
                yield Place(address["ip"], number)
    for row in store.rows(SLICES, service.namespace):
        part = as_object(row.body)
        if (part["metadata"].get("labels") or {}).get(SLICE_OWNER) != service.name:
            continue
        for number in _ports(part, port):
            for endpoint in part.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield from (Place(address, number) for address in endpoint["addresses"])


def _ports(owner: dict[str, Any], name: str) -> Iterator[int]:
    for port in owner.get("ports") or ():
        if (port.get("name") or "") == name and port.get("port"):
            yield port["port"]
