"""Whatever a scheduler that keeps counters gives out, no hardware is given out twice."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.device_plugin.offer import Offer, Owner
from laneway.core.dra.slices import pool
from laneway.core.inventory import Inventory
from support.allocating import OFFERS, Scheduler, overlap

NOTHING = Inventory()


@given(OFFERS, st.randoms(use_true_random=False), st.booleans(), st.data())
def test_no_hardware_is_given_out_twice(
    offers: list[Offer], random: Random, full: bool, data: st.DataObject
) -> None:
    held = data.draw(st.sets(st.sampled_from(offers), max_size=2)) if offers else set()
    if any(overlap(one, other) for one in held for other in held if one is not other):
        held = set()  # Device plugins would not have given that out.
    owners = {(one.resource, one.id): Owner(namespace="d", pod="p") for one in held}
    parts = pool(offers, NOTHING, owners, full=full).parts
    scheduler = Scheduler(parts)
    by_object = {one.name: one for one in offers}
    names = sorted(scheduler.devices)
    random.shuffle(names)
    found = [
        by_object[scheduler.devices[name]["attributes"]["object"]["string"]]
        for name in names
        if scheduler.give(name)
    ]
    for index, one in enumerate(found):
        assert one not in held
        assert not any(overlap(one, other) for other in (*held, *found[:index]))


@given(OFFERS)
def test_counters_stand_in_the_way_of_nothing_else(offers: list[Offer]) -> None:
    """Whatever excludes nothing that was given out can be given out."""
    scheduler = Scheduler(pool(offers, NOTHING, {}, full=True).parts)
    by_object = {one.name: one for one in offers}
    taken: list[Offer] = []
    for name in sorted(scheduler.devices):
        one = by_object[scheduler.devices[name]["attributes"]["object"]["string"]]
        free = not any(overlap(one, other) for other in taken)
        assert scheduler.give(name) is free
        taken += [one] if free else []


@given(OFFERS)
def test_counters_stay_within_what_kubernetes_allows(offers: list[Offer]) -> None:
    parts = pool(offers, NOTHING, {}, full=True).parts
    sets = [found["name"] for part in parts for found in part.get("sharedCounters", ())]
    assert len(sets) == len(set(sets))
    for part in parts:
        assert len(part.get("sharedCounters", ())) <= 8
        assert not ("sharedCounters" in part and "devices" in part)
        for one in part.get("devices", ()):
            consumed = [it["counterSet"] for it in one.get("consumesCounters", ())]
            assert len(consumed) <= 2
            assert set(consumed) <= set(sets)
