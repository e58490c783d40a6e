"""A VM that the user may not list counts in a plan, and is not named."""

from __future__ import annotations

from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, Facts, Phase
from laneway.views.fleet import of_ledger
from laneway.web.pages.planner.source import Names

SEEN, HIDDEN = (Consumer(ConsumerKind.VM, namespace, "web") for namespace in ("mine", "other"))


def test_what_may_not_be_seen_has_a_number() -> None:
    demands = tuple(Demand(one, phase=Phase.PENDING, requests={"r": 1}) for one in (SEEN, HIDDEN))
    names = Names(frozenset({SEEN._replace(name="")}), "hidden VM")
    fleet = of_ledger(build(Facts((), demands, ())), (), name=names)
    assert [vm.name for vm in fleet.vms] == ["mine/web", "hidden VM 1"]


def test_labels_of_what_may_not_be_seen_cannot_be_asked_about() -> None:
    labels = {"pool": "web"}
    demands = tuple(Demand(one, Phase.PENDING, {"r": 1}, labels=labels) for one in (SEEN, HIDDEN))
    names = Names(frozenset({SEEN._replace(name="")}), "hidden VM")
    fleet = names.unlabelled(of_ledger(build(Facts((), demands, ())), (), name=names))
    assert {vm.name: vm.labels for vm in fleet.vms} == {"mine/web": labels, "hidden VM 1": {}}
