"""Who is told what a Harvester cluster has: who may read the Secret of its cloud credential.

A guest cluster can name any credential. Rancher checks that its user may use it, but not before
this webhook is asked, and not in a dry run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from laneway.admission.request import Access
from laneway.admission.verdict import Granted
from laneway.controllers.machine_pools.writes.case import (
    Harvester,
    Harvesters,
    credential_of,
    pools_of,
)
from laneway.kube.rancher import CREDENTIALS, GuestCluster


def rights(cluster: GuestCluster, names: Collection[str]) -> Iterator[Access]:
    """Those on the credentials of a cluster's pools of these names."""
    for pool in pools_of(cluster):
        if pool.name in names and (right := _right(credential_of(cluster, pool))) is not None:
            yield right


class Permitted(NamedTuple):
    """The Harvester clusters as a requester is told of them."""

    harvesters: Harvesters
    granted: Granted

    def of(self, credential: str) -> Harvester:
        """That of a cloud credential, `cattle-global-data:cc-abcde`; it may be empty."""
        told = _right(credential) in self.granted
        return self.harvesters.of(credential)._replace(told=told)

    def all(self) -> Sequence[Harvester]:
        return self.harvesters.all()


def _right(credential: str) -> Access | None:
    """None where the credential is not in Rancher's namespace: then the Secret is another one."""
    namespace, _, name = credential.rpartition(":")
    if namespace != CREDENTIALS or not name:
        return None
    return Access("get", "secrets", name, namespace=namespace, group="")
