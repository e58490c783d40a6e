"""What is reserved as of the last write, in whatever order answers and watches tell of writes."""

from __future__ import annotations

from laneway.api import ObjectMeta
from laneway.api.vsphere import VSphereReservation, VSphereReservationSpec
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.informer import Informer
from laneway.kube.resource import Key
from laneway.vsphere.fleet.reservation_cache import RESERVATIONS, ReservationCache

KEY = Key("default", "one")


def stored(version: int, host: str, uid: str = "u") -> VSphereReservation:
    return VSphereReservation(
        metadata=ObjectMeta(
            name=KEY.name, namespace=KEY.namespace, uid=uid, resource_version=str(version)
        ),
        spec=VSphereReservationSpec(host=host),
    )


def test_an_answer_that_comes_late_brings_back_nothing() -> None:
    client = Client(ClusterConfig(Cluster("http://127.0.0.1:1")))
    known = ReservationCache(Informer(client, RESERVATIONS))
    known.put(stored(8, "host-1"))
    known.put(stored(10, "host-2"))
    known.put(stored(9, "host-1"))  # of a status that was written before
    found = known.get(KEY)
    assert found is not None
    assert found.spec.host == "host-2"
    known.put(stored(3, "host-3", uid="another"))  # made again, on a server that was set back
    found = known.get(KEY)
    assert found is not None
    assert found.spec.host == "host-3"
