"""Which nodes a new pod with vGPUs is to prefer, as the scheduler understands it.

The scheduler counts free vGPUs and does not know where on their GPUs they are. So a pod gets node
affinity that is preferred, never required: it keeps no pod from any node. What the pod says itself
about nodes stays, and weighs more. Nodes where it cannot be are not in it.

Where nothing is known, as before the ledger is made, the pod stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from laneway.admission import recording
from laneway.admission.json_patch import PatchOperation, put
from laneway.admission.request import Request
from laneway.admission.world import World
from laneway.controllers.ledger.demands import consumer_of, limits_of
from laneway.controllers.ledger.objects import Pod
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools import affinity
from laneway.core.names import is_vgpu_resource
from laneway.core.packing.hint import HEAVIEST, weights
from laneway.core.packing.policy import Score
from laneway.core.raw import Json, JsonObject, at, items
from laneway.kube.resource import key_of

_AFFINITY = ("spec", "affinity")
_PREFERRED = (*_AFFINITY, "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


def operations(raw: Json, request: Request[Pod], world: World) -> Iterator[PatchOperation]:
    """Add what a new pod is to prefer."""
    spec = request.object.spec
    limits = limits_of(request.object)
    asked = {name: count for name, count in limits.items() if count and is_vgpu_resource(name)}
    if world.node_costs is None or not asked or spec.node_name:
        return
    ledger = world.ledger()
    if ledger is None:
        return
    _, instance = recording.instance_of(request, world)
    consumer = None if instance is None else consumer_of(key_of(instance))
    costs = world.node_costs(world, ledger, asked, consumer)
    own = items(at(raw, _PREFERRED))
    found = weights(_allowed(costs, raw, spec.node_selector, ledger), _lightest(own))
    if found:
        yield put(raw, _PREFERRED, [*own, *(_term(*one) for one in found.items())])


def _allowed(
    costs: Mapping[str, Score], raw: Json, selector: Mapping[str, str], ledger: Ledger
) -> Mapping[str, Score]:
    """Of the nodes on which the pod can be, by what it requires of nodes."""
    if selector:
        labelled = ledger.with_labels(selector)
        costs = {node: cost for node, cost in costs.items() if node in labelled}
    try:
        said = msgspec.convert(at(raw, _AFFINITY), affinity.Affinity | None)
    except msgspec.ValidationError:
        return {}  # The API server says what is wrong with it.
    required = affinity.required(said)
    if required is None or affinity.size(required) > affinity.MOST:
        return costs
    fitting = affinity.nodes(required, {node: ledger.nodes[node].labels for node in costs})
    return {node: costs[node] for node in fitting}


def _lightest(preferred: Iterable[Json]) -> int:
    found = (at(one, ("weight",)) for one in preferred)
    return min((one for one in found if isinstance(one, int)), default=HEAVIEST + 1)


def _term(node: str, weight: int) -> JsonObject:
    """By the node's name: its label with the host name may differ."""
    rule: JsonObject = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"weight": weight, "preference": {"matchFields": [rule]}}
